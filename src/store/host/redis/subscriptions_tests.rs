//! Tests of the subscriptions' states, one story each.

use super::*;

type Outcome = oneshot::Receiver<Result<(), HostError>>;

fn connected() -> Subscriptions {
    let mut subscriptions = Subscriptions::default();
    assert_eq!(subscriptions.connected(), []);
    subscriptions
}

fn want(subscriptions: &mut Subscriptions, name: &str) -> (Option<Order>, Outcome) {
    let (confirm, outcome) = oneshot::channel();
    (subscriptions.want(name, confirm), outcome)
}

fn subscribe(name: &str) -> Order {
    Order::Subscribe(name.to_owned())
}

fn unsubscribe(name: &str) -> Order {
    Order::Unsubscribe(name.to_owned())
}

fn refusal() -> HostError {
    HostError::Rejected {
        code: "NOPERM".into(),
        message: String::new(),
    }
}

#[test]
fn a_change_is_confirmed_once_the_server_confirms_it() {
    let mut it = connected();
    let (order, mut outcome) = want(&mut it, "a");
    assert_eq!(order, Some(subscribe("a")));
    let (again, mut other) = want(&mut it, "a");
    assert_eq!(again, None);
    assert!(outcome.try_recv().is_err());
    it.subscribed("a");
    assert_eq!(
        (outcome.try_recv(), other.try_recv()),
        (Ok(Ok(())), Ok(Ok(())))
    );
    let (third, mut at_once) = want(&mut it, "a");
    assert_eq!((third, at_once.try_recv()), (None, Ok(Ok(()))));
    assert!(!it.take_gap(), "nothing was missed");
}

#[test]
fn the_last_change_wins_and_earlier_confirmations_do_not_count() {
    let mut it = connected();
    let (_, first) = want(&mut it, "a");
    assert_eq!(it.unwant("a".into()), Some(unsubscribe("a")));
    assert!(first.blocking_recv().is_err(), "its change was withdrawn");
    let (order, mut second) = want(&mut it, "a");
    assert_eq!(order, Some(subscribe("a")));

    it.subscribed("a");
    assert!(it.unsubscribed("a"));
    assert!(
        second.try_recv().is_err(),
        "these belong to the first two orders"
    );
    it.subscribed("a");
    assert_eq!(second.try_recv(), Ok(Ok(())));
    assert!(!it.take_gap());
}

#[test]
fn a_channel_that_is_not_wanted_is_forgotten() {
    let mut it = connected();
    let (_, _outcome) = want(&mut it, "a");
    it.subscribed("a");
    assert_eq!(it.unwant("a".into()), Some(unsubscribe("a")));
    assert_eq!(it.unwant("a".into()), None);
    assert!(!it.is_empty(), "its confirmation is outstanding");
    assert!(it.unsubscribed("a"));
    assert!(it.is_empty());
    assert!(it.unsubscribed("a"));
}

#[test]
fn a_reconnect_is_one_gap_when_everything_is_back() {
    let mut it = connected();
    for name in ["a", "b", "c"] {
        let (_, _outcome) = want(&mut it, name);
        it.subscribed(name);
    }
    it.disconnected();
    it.unwant("c".into());
    let (order, mut new) = want(&mut it, "d");
    assert_eq!(order, None);
    assert_eq!(it.connected().len(), 3);
    it.subscribed("a");
    assert!(!it.take_gap());
    it.subscribed("b");
    assert!(it.take_gap(), "the new channel had nothing to miss");
    assert!(!it.take_gap());
    it.subscribed("d");
    assert_eq!(new.try_recv(), Ok(Ok(())));
    assert!(!it.take_gap());
}

#[test]
fn a_gap_does_not_wait_for_a_channel_that_is_given_up() {
    let mut it = connected();
    for name in ["a", "b"] {
        let (_, _outcome) = want(&mut it, name);
        it.subscribed(name);
    }
    it.disconnected();
    assert_eq!(it.connected().len(), 2);
    it.subscribed("a");
    it.unwant("b".into());
    assert!(it.take_gap());
}

#[test]
fn an_unsubscription_that_was_not_asked_for_is_noticed() {
    let mut it = connected();
    let (_, _outcome) = want(&mut it, "a");
    it.subscribed("a");
    assert!(!it.unsubscribed("a"));
}

#[test]
fn an_overdue_change_ends_in_a_gap() {
    let mut it = connected();
    let (_, outcome) = want(&mut it, "a");
    drop(outcome);
    it.overdue("a");
    assert!(!it.take_gap());
    it.subscribed("a");
    assert!(it.take_gap());
    it.overdue("a");
    assert!(
        it.take_gap(),
        "the confirmation came just before the caller gave up"
    );
}

#[test]
fn a_refused_channel_is_reported_and_tried_again() {
    let mut it = connected();
    let (_, mut outcome) = want(&mut it, "a");
    it.refused(&["a".to_owned()], &refusal());
    assert_eq!(outcome.try_recv(), Ok(Err(refusal())));
    assert_eq!(it.retry(), [subscribe("a")]);
    assert_eq!(it.retry(), []);
    it.subscribed("a");
    assert!(it.take_gap());
}

#[test]
fn channels_that_are_refused_together_are_asked_for_one_by_one() {
    let mut it = connected();
    for name in ["a", "b", "c"] {
        let (_, _outcome) = want(&mut it, name);
        it.subscribed(name);
    }
    it.disconnected();
    let (_, mut new) = want(&mut it, "d");
    assert_eq!(it.connected().len(), 4);
    it.unwant("c".into());
    let all = ["a", "b", "c", "d"].map(str::to_owned);
    let alone = ["a", "b", "d"].map(|name| Order::SubscribeAlone(name.to_owned()));
    assert_eq!(it.refused(&all, &refusal()), alone);
    assert!(new.try_recv().is_err(), "it may be another that is refused");
    it.subscribed("a");
    it.subscribed("d");
    assert_eq!(new.try_recv(), Ok(Ok(())));
    assert!(!it.take_gap());
    assert_eq!(it.refused(&all[1..2], &refusal()), []);
    assert!(it.take_gap(), "the others are back");
    assert!(it.is_newly_refused("b"));
    assert_eq!(it.retry(), [subscribe("b")]);
    assert_eq!(it.refused(&all[1..2], &refusal()), []);
    assert!(!it.is_newly_refused("b"));
}

#[test]
fn waiting_callers_fail_without_a_connection() {
    let mut it = Subscriptions::default();
    let (_, mut outcome) = want(&mut it, "a");
    it.fail_waiting(&refusal());
    assert_eq!(outcome.try_recv(), Ok(Err(refusal())));
    assert_eq!(it.connected(), [subscribe("a")]);
    it.subscribed("a");
    assert!(it.take_gap());
}

#[test]
fn a_gap_comes_also_if_the_connection_is_lost_while_channels_return() {
    let mut it = connected();
    let (_, _outcome) = want(&mut it, "a");
    it.subscribed("a");
    for _ in 0..2 {
        it.disconnected();
        assert_eq!(it.connected(), [subscribe("a")]);
    }
    it.subscribed("a");
    assert!(it.take_gap());
}

#[test]
fn a_channel_that_is_wanted_anew_has_nothing_to_miss() {
    let mut it = connected();
    let (_, _outcome) = want(&mut it, "a");
    it.subscribed("a");
    it.unwant("a".into());
    let (_, mut again) = want(&mut it, "a");
    it.unsubscribed("a");
    it.subscribed("a");
    assert_eq!(again.try_recv(), Ok(Ok(())));
    assert!(!it.take_gap());
}
