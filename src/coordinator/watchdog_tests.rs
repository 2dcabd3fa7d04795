//! Steps of the store's clock, as renewals see them.

use lockkeeper_access::Account;
use lockkeeper_store::script::Mode;

use super::*;
use crate::{
    coordinator::Coordinator,
    stream::Opened,
    testing::{MILLI, SECOND, config, name, start},
    types::{Grant, GrantKey, OnDisconnect, Owner, tests::limits},
};

const START: i64 = 1_700_000_000_000_000;

/// A session that holds a lock for half a minute.
fn holder(coordinator: &Coordinator) -> (Arc<Session>, GrantKey, Opened) {
    let keep = OnDisconnect::Keep;
    let opened = coordinator.open(Account::default(), None, String::new(), keep);
    let opened = opened.unwrap();
    let session = Arc::clone(&opened.stream.session);
    let owner = Owner::in_session(session.id.clone(), "", &limits()).unwrap();
    let grant = Grant {
        name: name("a"),
        mode: Mode::Exclusive,
        owner,
        field: None,
        hold_count: 1,
        fencing_token: 1,
        serial: 1,
        lease: SECOND * 30,
        safe_until: Instant::now() + SECOND * 30,
        watched: true,
        replica_acks: 0,
        min_replica_acks: 0,
        note: None,
    };
    let key = GrantKey::of(&grant);
    let deadlines = &coordinator.core.deadlines;
    let now = Instant::now();
    session.register(deadlines, grant, None, now).unwrap();
    (session, key, opened)
}

#[tokio::test(start_paused = true)]
async fn a_step_forward_shortens_leases_and_a_step_back_does_not() {
    // By how much the clock is ahead at the second look, in ms; what is left of 29 s, in ms.
    let rows = [
        (0, 29_000),
        (500, 29_000),
        (501, 28_499),
        (10_000, 19_000),
        (60_000, 0),
        (-500, 29_000),
        (-60_000, 29_000),
    ];
    for (ahead, left) in rows {
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
