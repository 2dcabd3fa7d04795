//! What is registered, replaced, confirmed, released and lost.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use lockkeeper_store::script::{CallError, Mode, Note};
use tokio::time::Instant;

use super::{LEASE, MILLI, SECOND, Table};
use crate::{
    error::{Error, Limit},
    events::What,
    session::asked::YieldRequest,
    types::{Grant, GrantKey, Holding, LostReason, Terms},
};

#[tokio::test(start_paused = true)]
async fn new_grants_need_room_which_unread_losses_take_too() {
    let table = Table::with(LEASE, 2);
    let session = &table.session;
    session.attach(&table.deadlines).unwrap();
    let keys = ["a", "b", "c"].map(|name| GrantKey::of(&table.grant(name, Mode::Exclusive, 1)));
    let full = Err(Error::LimitReached(Limit::GrantsPerSession));
    assert_eq!(session.holds(&keys[0]), Ok((0, None)));
    table.hold("a");
    let two = session.holds_all(&keys[..2]).unwrap();
    assert_eq!(two, [(1, Some(1)), (0, None)]);
    assert!(session.holds_all(&keys).is_err(), "not for both");
    table.hold("b");
    assert_eq!(session.holds(&keys[0]), Ok((1, Some(1))), "no new one");
    assert_eq!(session.holds(&keys[2]), full);
    session.lose(&table.deadlines, &keys[0], LostReason::Expired);
    assert_eq!(session.holds(&keys[2]), full, "its client has not read it");
    assert!(session.may_take_permits().is_err());
    table.notice().await.unwrap();
    assert_eq!(session.holds(&keys[2]), Ok((0, None)));
    assert!(session.may_take_permits().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_others_have_taken_the_room_of_is_not_registered() {
    let table = Table::with(LEASE, 2);
    let session = &table.session;
    session.attach(&table.deadlines).unwrap();
    table.hold("a");
    table.hold("b");
    let full = Error::LimitReached(Limit::GrantsPerSession);
    let now = Instant::now();
    let of = |name: &str| table.grant(name, Mode::Exclusive, 1);
    let one = |name: &str| session.register(&table.deadlines, &mut of(name), None, now);
    let all = |names: [&str; 2]| {
        let grants = names.map(|name| (of(name), None)).into();
        session.register_all(&table.deadlines, grants, now)
    };
    let permits = session.register_permits(&table.deadlines, table.permits("s", &[1], 1), now);
    assert_eq!(permits.unwrap_err(), full);
    assert_eq!(one("c").unwrap_err(), full);
    assert_eq!(all(["a", "c"]).unwrap_err(), full);
    assert!(one("a").is_ok() && all(["a", "b"]).is_ok(), "no new ones");
    let found = session.register_found(&table.deadlines, of("c"), now);
    assert!(found.is_ok(), "a resume has found it");
    assert_eq!(session.grants().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_not_added_to_a_grant_that_was_lost_meanwhile() {
    let (table, _stream) = Table::live();
    let key = table.hold("a");
    let add = |serial, adds_to| {
        let mut grant = Grant {
            hold_count: 2,
            ..table.grant("a", Mode::Exclusive, serial)
        };
        let (session, now) = (&table.session, Instant::now());
        session.register(&table.deadlines, &mut grant, adds_to, now)
    };
    add(1, Some(1)).unwrap();
    assert_eq!(table.session.grant(&key).unwrap().hold_count, 2);
    table
        .session
        .lose(&table.deadlines, &key, LostReason::Expired);
    let refused = add(1, Some(1)).unwrap_err();
    assert!(matches!(
        refused,
        Error::Store(CallError::OutcomeUnknown(_))
    ));
    assert!(add(2, Some(1)).is_ok(), "the store has made another grant");
}

#[tokio::test(start_paused = true)]
async fn several_grants_are_registered_together_or_not_at_all() {
    let (table, _stream) = Table::live();
    let now = Instant::now();
    let grants = |adds_to| {
        let of = |name, adds_to| (table.grant(name, Mode::Exclusive, 1), adds_to);
        vec![of("a", None), of("b", adds_to)]
    };
    let all = |adds_to| {
        let grants = grants(adds_to);
        table.session.register_all(&table.deadlines, grants, now)
    };
    assert!(all(Some(1)).is_err());
    assert!(table.session.grants().is_empty());
    assert_eq!(all(None).unwrap().len(), 2);
    assert_eq!(table.session.grants().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_a_grant_was_promised_stays_when_a_hold_is_added_to_it() {
    let (table, _stream) = Table::live();
    let first = Grant {
        min_replica_acks: 2,
        field: Some("its own field".into()),
        note: Some(Arc::new(Note {
            reason: "deploys".to_owned(),
            labels: BTreeMap::new(),
        })),
        ..table.grant("a", Mode::Exclusive, 1)
    };
    let (first, flag) = table.take(first);
    let since = Instant::now();
    tokio::time::advance(SECOND).await;
    let second = Grant {
        hold_count: 2,
        watched: false,
        lease: SECOND,
        safe_until: Instant::now() + SECOND,
        ..table.grant("a", Mode::Exclusive, 1)
    };
    let (second, second_flag) = table.take(second);
    assert!(second.watched);
    assert_eq!(second.safe_until, first.safe_until, "it never moves back");
    assert_eq!((&second.field, &second.note), (&first.field, &first.note));
    assert!(Arc::ptr_eq(&flag.0, &second_flag.0));
    let key = GrantKey::of(&first);
    assert_eq!(table.session.held_since(&key), Some(since));
    let held = table.session.grant(&key).unwrap();
    assert_eq!((held.hold_count, held.min_replica_acks), (2, 2));
    assert_eq!((table.counted(), table.deadlines.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn another_grant_of_the_same_name_has_nothing_of_the_one_before() {
    let (table, _stream) = Table::live();
    let before = Grant {
        min_replica_acks: 2,
        field: Some("its own field".into()),
        ..table.grant("a", Mode::Exclusive, 1)
    };
    let (_, flag) = table.take(before);
    tokio::time::advance(SECOND).await;
    let after = Grant {
        watched: false,
        lease: SECOND,
        safe_until: Instant::now() + SECOND,
        ..table.grant("a", Mode::Exclusive, 2)
    };
    let (after, other_flag) = table.take(after);
    assert!(!after.watched && after.field.is_none() && after.min_replica_acks == 0);
    assert_eq!(after.safe_until, Instant::now() + SECOND);
    assert!(!Arc::ptr_eq(&flag.0, &other_flag.0));
    let since = table.session.held_since(&GrantKey::of(&after));
    assert_eq!(since, Some(Instant::now()));
}

#[tokio::test(start_paused = true)]
async fn a_fair_lock_that_is_taken_again_as_an_exclusive_one_stays_fair() {
    let (table, _stream) = Table::live();
    table.take(table.grant("a", Mode::Fair, 1));
    let again = table.take(table.grant("a", Mode::Exclusive, 1)).0;
    assert_eq!(again.mode, Mode::Fair);
    table.take(table.grant("b", Mode::Exclusive, 1));
    let plain = table.take(table.grant("b", Mode::Exclusive, 1)).0;
    assert_eq!(plain.mode, Mode::Exclusive);
}

#[tokio::test(start_paused = true)]
async fn an_answer_on_its_way_is_about_its_own_grant_until_a_resume_confirms_it() {
    let (table, _stream) = Table::live();
    let session = &table.session;
    let (grant, flag) = table.take(table.grant("a", Mode::Exclusive, 1));
    let key = GrantKey::of(&grant);
    let found = session.grant_of(&key, &flag).unwrap();
    assert_eq!(found.unwrap().serial, 1);
    session.confirm(&key);
    assert!(session.grant_of(&key, &flag).is_err());
    session.set_holds(&table.deadlines, &key, 0, None);
    assert!(
        session.grant_of(&key, &flag).unwrap().is_none(),
        "it is over"
    );
}

#[tokio::test(start_paused = true)]
async fn a_release_of_one_hold_leaves_the_others_and_may_extend_the_lease() {
    let (mut table, _stream) = Table::live();
    let grant = Grant {
        hold_count: 2,
        watched: false,
        ..table.grant("a", Mode::Exclusive, 1)
    };
    let key = GrantKey::of(&table.take(grant).0);
    let later = Instant::now() + LEASE * 2;
    let set = |table: &Table, holds, until| {
        table
            .session
            .set_holds(&table.deadlines, &key, holds, until);
    };
    set(&table, 1, Some(Instant::now() + SECOND));
    let held = table.session.grant(&key).unwrap();
    assert_eq!(
        (held.hold_count, held.safe_until),
        (1, Instant::now() + LEASE)
    );
    set(&table, 1, Some(later));
    assert_eq!(table.session.grant(&key).unwrap().safe_until, later);
    let told: Vec<_> = std::iter::from_fn(|| table.told()).collect();
    assert_eq!(told[0].0, What::Granted);
    assert_eq!(
        told[1..],
        [1, 1].map(|left| (What::Released, "a".to_owned(), left))
    );
    // It is not watched, so it is looked at when it ends.
    assert_eq!(table.until_due().await, (LEASE * 2, Some(key.clone())));
    set(&table, 0, None);
    assert_eq!(table.told(), Some((What::Released, "a".to_owned(), 0)));
    assert!(table.session.grant(&key).is_none());
    assert_eq!((table.counted(), table.deadlines.len()), (0, 0));
    set(&table, 0, None);
    assert_eq!(table.told(), None);
}

#[tokio::test(start_paused = true)]
async fn a_watched_grant_is_renewed_as_before_after_the_release_of_one_hold() {
    let (table, _stream) = Table::live();
    let grant = Grant {
        hold_count: 2,
        ..table.grant("a", Mode::Exclusive, 1)
    };
    let key = GrantKey::of(&table.take(grant).0);
    tokio::time::advance(SECOND).await;
    table.session.set_holds(&table.deadlines, &key, 1, None);
    assert_eq!(table.until_due().await.0, MILLI * 8900);
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_told_once_to_the_client_and_to_watchers() {
    let (mut table, _stream) = Table::live();
    let (grant, flag) = table.take(table.grant("a", Mode::Exclusive, 7));
    table.told();
    let key = GrantKey::of(&grant);
    for _ in 0..2 {
        table
            .session
            .lose(&table.deadlines, &key, LostReason::TakenOver);
    }
    assert!(flag.is_set());
    let lost = What::Lost(LostReason::TakenOver);
    assert_eq!(table.told(), Some((lost, "a".to_owned(), 1)));
    assert_eq!(table.told(), None);
    assert_eq!(table.notice().await.unwrap(), "lost a TAKEN_OVER");
    assert_eq!(table.notice().await, None);
    assert_eq!((table.counted(), table.deadlines.len()), (0, 0));
}

fn lose_named(table: &Table, named: Holding) {
    let (session, deadlines) = (&table.session, &table.deadlines);
    session.lose_named(deadlines, named, LostReason::TakenOver, &HashSet::new());
}

#[tokio::test(start_paused = true)]
async fn a_resuming_client_hears_anew_of_what_is_lost_also_if_the_session_did_not_know_it() {
    let (mut table, _stream) = Table::live();
    let key = table.hold("a");
    table
        .session
        .lose(&table.deadlines, &key, LostReason::Expired);
    table.session.forget_losses(|_| false);
    assert_eq!(table.notice().await, None);
    while table.told().is_some() {}
    let named = Holding::Lock(table.grant("b", Mode::Exclusive, 1));
    lose_named(&table, named);
    assert_eq!(table.notice().await.unwrap(), "lost b TAKEN_OVER");
    let lost = What::Lost(LostReason::TakenOver);
    assert_eq!(table.told(), Some((lost, "b".to_owned(), 1)));
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_a_resume_finds_lost_is_counted() {
    let (table, _stream) = Table::live();
    let contention = &table.session.metrics.contention;
    contention.refused(&super::name("a"));
    table.hold("a");
    let named = Holding::Lock(table.grant("a", Mode::Exclusive, 1));
    lose_named(&table, named);
    assert_eq!(contention.all()[0].hold_count, 1);
}

#[tokio::test(start_paused = true)]
async fn only_the_grant_that_was_taken_by_force_is_lost() {
    let (table, _stream) = Table::live();
    for (name, mode, token) in [
        ("a", Mode::Write, 7),
        ("a", Mode::Read, 6),
        ("ab", Mode::Exclusive, 7),
    ] {
        table.take(table.grant(name, mode, token));
    }
    let why = LostReason::HandedOver;
    let of = super::name("a");
    table.session.lose_forced(&table.deadlines, &of, 5, &why);
    assert_eq!(table.session.grants().len(), 3);
    table.session.lose_forced(&table.deadlines, &of, 7, &why);
    let left = table.session.grants();
    let left: Vec<_> = left
        .iter()
        .map(|it| (it.name().public(), it.serial()))
        .collect();
    assert_eq!(left, [("a", 6), ("ab", 7)]);
    assert_eq!(table.notice().await.unwrap(), "lost a HANDED_OVER");
}

#[tokio::test(start_paused = true)]
async fn a_holder_is_asked_to_yield_once_on_each_stream_until_the_request_ends() {
    let (table, stream) = Table::live();
    let grant = table.take(table.grant("a", Mode::Exclusive, 7)).0;
    table.hold("ab");
    let request = |id: &str| {
        Arc::new(YieldRequest {
            id: id.to_owned(),
            by: "deploy".to_owned(),
            reason: String::new(),
            until: Instant::now() + SECOND,
            preempts: false,
        })
    };
    let ask = |token, request: &Arc<YieldRequest>| {
        let session = &table.session;
        session.ask_to_yield(&grant.name, &grant.owner, token, request)
    };
    let first = request("first");
    assert!(!ask(6, &first), "that grant is over");
    assert_eq!(table.notice().await, None);
    assert!(ask(7, &first) && ask(7, &first));
    assert_eq!(table.notice().await.unwrap(), "deploy asks for a");
    assert_eq!(table.notice().await, None, "a repeat is no news");
    assert!(ask(7, &request("second")));
    assert_eq!(table.notice().await.unwrap(), "deploy asks for a");
    table.session.detach(&stream, Instant::now() + LEASE);
    assert!(!ask(7, &first), "nobody hears it");
    table.session.attach(&table.deadlines).unwrap();
    assert_eq!(table.notice().await.unwrap(), "deploy asks for a");
    assert!(ask(7, &request("third")));
    tokio::time::advance(SECOND).await;
    assert_eq!(table.notice().await, None, "its time is over");
}

#[tokio::test(start_paused = true)]
async fn terms_are_those_of_the_lock_or_of_the_permits() {
    let (table, _stream) = Table::live();
    let until = Instant::now() + MILLI;
    let terms = Terms {
        lease: SECOND,
        safe_until: until,
        watched: false,
        min_replica_acks: 3,
    };
    let lock = Holding::Lock(table.grant("a", Mode::Exclusive, 5));
    let permits = Holding::Permits(table.permits("s", &[1, 2], 6));
    for (mut holding, serial, weight) in [(lock, 5, 1), (permits, 6, 2)] {
        assert!(holding.terms().watched);
        holding.set_terms(terms);
        let set = holding.terms();
        assert_eq!((set.lease, set.safe_until), (SECOND, until));
        assert_eq!((set.watched, set.min_replica_acks), (false, 3));
        assert_eq!((holding.serial(), holding.weight()), (serial, weight));
        assert_ne!(holding.lock().is_some(), holding.permits().is_some());
    }
}
