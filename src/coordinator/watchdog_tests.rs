//! Steps of the store's clock, as renewals see them.

use lockkeeper_store::script::Mode;

use super::*;
use crate::{
    coordinator::Coordinator,
    lock::request::Acquire,
    metrics::labels::Direction,
    stream::Opened,
    testing::{
        self, Fault, MILLI, SECOND, acquire, config, granted, in_session, open, start, start_faulty,
    },
    types::{Grant, GrantKey, Lease, tests::limits},
};

const START: i64 = 1_700_000_000_000_000;

/// A session that holds a lock for half a minute.
fn holder(coordinator: &Coordinator) -> (Arc<Session>, GrantKey, Opened) {
    let opened = open(coordinator);
    let session = Arc::clone(&opened.stream.session);
    let mut grant = Grant {
        watched: true,
        ..testing::grant("a", &in_session(&opened, ""), 1, SECOND * 30)
    };
    let key = GrantKey::of(&grant);
    let deadlines = &coordinator.core.deadlines;
    let now = Instant::now();
    session.register(deadlines, &mut grant, None, now).unwrap();
    (session, key, opened)
}

#[tokio::test(start_paused = true)]
async fn a_step_forward_shortens_leases_and_a_step_back_does_not() {
    // By how much the clock is ahead at the second look, in ms; what is left of 29 s, in ms; the
    // steps that are counted, forward and back.
    let rows = [
        (0, 29_000, (0, 0)),
        (500, 29_000, (0, 0)),
        (501, 28_499, (1, 0)),
        (10_000, 19_000, (1, 0)),
        (60_000, 0, (1, 0)),
        (-500, 29_000, (0, 0)),
        (-501, 29_000, (0, 1)),
        (-60_000, 29_000, (0, 1)),
    ];
    for (ahead, left, steps) in rows {
        let coordinator = start(config());
        let (session, key, _opened) = holder(&coordinator);
        let renewer = Renewer::new(&coordinator.core);
        let look = |after: i64, partition| {
            let clock = StoreClock {
                partition,
                micros: START + after * 1000,
                answered_at: Instant::now(),
            };
            renewer.watch_clock(&clock, Instant::now());
        };
        look(0, 7);
        // Another part of the store has another clock.
        look(-100_000, 8);
        tokio::time::advance(SECOND).await;
        look(1000 + ahead, 7);
        let until = session.grant(&key).unwrap().safe_until;
        let safe_for = until.saturating_duration_since(Instant::now());
        assert_eq!(safe_for.as_millis(), left, "{ahead}");
        let counted = |direction| coordinator.core.metrics.clock_steps.of(direction).get();
        let counted = (counted(Direction::Forward), counted(Direction::Back));
        assert_eq!(counted, steps, "{ahead}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_took_long_hides_as_much_of_a_step() {
    let coordinator = start(config());
    let (session, key, _opened) = holder(&coordinator);
    let renewer = Renewer::new(&coordinator.core);
    let look = |micros: i64, sent_at| {
        let clock = StoreClock {
            partition: 0,
            micros,
            answered_at: Instant::now(),
        };
        renewer.watch_clock(&clock, sent_at);
    };
    look(START, Instant::now());
    let sent_at = Instant::now();
    tokio::time::advance(SECOND * 2).await;
    // It may have run at any moment of these two seconds.
    look(START + 2_400_000, sent_at);
    let safe_for = |session: &Session| {
        let until = session.grant(&key).unwrap().safe_until;
        until.saturating_duration_since(Instant::now())
    };
    assert_eq!(safe_for(&session), SECOND * 28);
    tokio::time::advance(MILLI).await;
    // Now it is ahead by at least 600 ms more.
    look(START + 5_001_000, Instant::now());
    assert_eq!(safe_for(&session), MILLI * 27_399);
}

#[tokio::test(start_paused = true)]
async fn a_session_is_at_risk_while_renewals_fail() {
    let (faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let request = acquire("a", Mode::Exclusive, &in_session(&opened, ""));
    granted(&coordinator, &request).await.take().unwrap();
    let at_risk = || coordinator.list_sessions(0, "").sessions[0].at_risk;
    assert!(!at_risk());
    faults.next("lock_renew", Fault::Unavailable);
    renew_all(&coordinator.core).await;
    assert!(at_risk());
    tokio::time::sleep(SECOND * 11).await;
    assert!(!at_risk());
    faults.next("lock_renew", Fault::Unavailable);
    renew_all(&coordinator.core).await;
    assert!(at_risk());
    let key = GrantKey::new(&request.name, request.mode, &request.owner.label);
    let session = &opened.stream.session;
    session.set_holds(&coordinator.core.deadlines, &key, 0, None);
    assert!(!at_risk(), "it is held no more");
}

#[tokio::test(start_paused = true)]
async fn a_look_that_failed_is_repeated_at_a_grant_that_is_not_watched() {
    let (faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let request = Acquire {
        lease: Some(Lease::new(SECOND * 60, &limits()).unwrap()),
        ..acquire("a", Mode::Exclusive, &in_session(&opened, ""))
    };
    granted(&coordinator, &request).await.take().unwrap();
    faults.next("lock_renew", Fault::Unavailable);
    renew_all(&coordinator.core).await;
    assert_eq!(coordinator.sessions_at_risk(), 1);
    tokio::time::sleep(SECOND * 4).await;
    assert_eq!(coordinator.sessions_at_risk(), 0);
    assert_eq!(faults.calls("lock_renew"), 2, "and then no more");
    tokio::time::sleep(SECOND * 20).await;
    assert_eq!(faults.calls("lock_renew"), 2);
}
