//! Several locks at once on a real Redis: two coordinators, opposite orders, and a thousand names
//! in one call.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::prelude::*;
use crate::several::spec_in;

const CONTENDERS: usize = 24;
const ROUNDS: usize = 5;

/// What a coordinator may take for a thousand locks, on a machine that does other things as well.
const THOUSAND_MAX: std::time::Duration = secs(2);

#[tokio::test]
async fn mission_19_opposite_orders_at_two_coordinators_never_deadlock_and_never_overlap() {
    let redis = RedisServer::start().await;
    let settings = settings_on(&redis.url());
    let (a, b) = tokio::join!(Coordinator::start(&settings), Coordinator::start(&settings));
    let inside = [const { AtomicUsize::new(0) }; 3];
    let begun = Instant::now();
    let contenders = (0..CONTENDERS).map(|number| {
        let (coordinator, inside) = ([&a, &b][number % 2], &inside);
        async move {
            let mut session = coordinator.client().await.open().await;
            let mut chosen = vec![number % 3, (number + 1) % 3];
            // Every fourth takes its locks in order, because one of them is fair.
            let modes =
                [[LockMode::Exclusive; 3], [LockMode::Fair; 3]][usize::from(number % 4 == 3)];
            if number % 2 == 0 {
                chosen.reverse();
            }
            let locks: Vec<_> = chosen
                .iter()
                .map(|at| spec_in(["a", "b", "c"][*at], modes[*at]))
                .collect();
            for _ in 0..ROUNDS {
                session.take_all(&locks).await;
                for at in &chosen {
                    assert_eq!(inside[*at].fetch_add(1, Ordering::SeqCst), 0, "held twice");
                }
                tokio::time::sleep(millis(2)).await;
                for at in &chosen {
                    inside[*at].fetch_sub(1, Ordering::SeqCst);
                }
                session.give_all_back(&locks).await;
            }
            session.close().await.unwrap();
        }
    });
    join_all(contenders).await;
    measured(
        "opposite orders, 24 contenders, 5 rounds each",
        begun.elapsed(),
    );
    expect_no_trace(&redis).await;
}

#[tokio::test]
async fn a_thousand_locks_are_one_call() {
    judged_by_time(async || {
        let redis = RedisServer::start().await;
        let settings = settings_on(&redis.url()).with("limits.locks_per_request_max", "1000");
        let coordinator = Coordinator::start(&settings).await;
        let mut session = coordinator.client().await.open().await;
        let modes = [LockMode::Exclusive, LockMode::Read, LockMode::Write];
        let locks: Vec<_> = (0..1000)
            .map(|number| spec_in(&format!("n{number:04}"), modes[number % 3]))
            .collect();
        let begun = Instant::now();
        assert_eq!(session.take_all(&locks).await.len(), 1000);
        since(begun).must_be_below(THOUSAND_MAX, "taking a thousand locks");
        let taken = Instant::now();
        session.give_all_back(&locks).await;
        since(taken).must_be_below(THOUSAND_MAX, "giving a thousand locks back");
        session.close().await.unwrap();
        expect_no_trace(&redis).await;
    })
    .await;
}
