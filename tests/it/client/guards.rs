//! Taking, giving back, losing, giving up.

use lockkeeper_api::pb::ForceReleaseRequest;
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_client::{Error, LockMode, LostReason, SessionState};
use parking_lot::Mutex;

use super::{acquire, steps, two, until_lost};
use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn a_guard_gives_back_when_it_is_released_or_dropped() {
    let (world, _, session) = two().await;
    let guard = acquire(&session, "a").await;
    let token = guard.fencing_token();
    assert!(session.check_token("a", token).await.unwrap().current);
    assert!(guard.valid_for() > secs(29) && guard.valid_for() < secs(30));
    guard.release().await.unwrap();
    assert_eq!(world.redis(&["EXISTS", "a"]), Value::Int(0));

    let guard = acquire(&session, "a").await;
    assert!(guard.fencing_token() > token);
    drop(guard);
    world_is_free(&world, "a").await;
    session.close().await.unwrap();
    world.expect_nothing_left(&["a"]).await;
}

async fn world_is_free(world: &World, name: &str) {
    world.until_answer(&["EXISTS", name], 0).await;
}

#[tokio::test(start_paused = true)]
async fn tasks_of_one_session_exclude_each_other_unless_they_name_one_owner() {
    let (_world, _, session) = two().await;
    let inside = Arc::new(Mutex::new(0));
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let (session, inside) = (session.clone(), Arc::clone(&inside));
            spawn_detached("task", async move {
                let guard = acquire(&session, "a").await;
                *inside.lock() += 1;
                assert_eq!(*inside.lock(), 1);
                steps(10).await;
                *inside.lock() -= 1;
                guard.release().await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }

    let first = session.lock("a").owner("x").acquire().await.unwrap();
    let second = session.lock("a").owner("x").acquire().await.unwrap();
    assert_eq!(first.fencing_token(), second.fencing_token());
    assert_eq!(second.grants()[0].hold_count, 2);
    first.release().await.unwrap();
    assert!(session.lock("a").try_acquire().await.unwrap().is_none());
    second.release().await.unwrap();
    assert!(session.lock("a").try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_runs_out_says_so() {
    let (_world, _, session) = two().await;
    let _held = acquire(&session, "a").await;
    let waiting = session.lock("a").wait_timeout(secs(3)).acquire();
    let refused = waiting.await.unwrap_err();
    assert!(refused.is_busy() && refused.is_retryable(), "{refused}");
    let Error::NotGranted {
        holder_remaining_lease: Some(remaining),
        ..
    } = refused
    else {
        panic!("{refused:?}");
    };
    assert!(remaining > secs(15) && remaining <= secs(30));
    let wrong = session.lock("").acquire().await.unwrap_err();
    assert_eq!(wrong.reason().as_deref(), Some("INVALID_NAME"));
    assert!(!wrong.is_retryable());
}

#[tokio::test(start_paused = true)]
async fn giving_up_at_any_instant_leaves_nothing_behind() {
    let (world, _, session) = two().await;
    for step in 0..100 {
        let held = acquire(&session, "held").await;
        for name in ["a", "held"] {
            let acquiring = spawn_detached("acquiring", session.lock(name).acquire());
            steps(step).await;
            // Whatever has come by then is dropped.
            acquiring.abort();
        }
        drop(held);
        world_is_free(&world, "a").await;
        world_is_free(&world, "held").await;
    }
    let mut polled = Box::pin(session.lock("a").acquire());
    assert!(futures::poll!(polled.as_mut()).is_pending());
    drop(polled);
    session.close().await.unwrap();
    world.expect_nothing_left(&["a", "held"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_taken_away_is_told() {
    let (world, _, session) = two().await;
    let guard = acquire(&session, "a").await;
    world.redis(&["DEL", "a"]);
    let after = until_lost(&guard).await;
    assert!(after <= secs(11), "{after:?}");
    assert_eq!(guard.valid_for(), secs(0));
    assert!(guard.loss().unwrap().is_lost());
    // The owner's next grant is not this guard's to renew.
    let next = acquire(&session, "a").await;
    assert!(guard.renew(None).await.unwrap_err().is_lost());
    next.release().await.unwrap();
    let refused = guard.release().await.unwrap_err();
    assert!(
        matches!(&refused, Error::Lost { name, reason: LostReason::Expired, .. } if name == "a"),
        "{refused}"
    );
    // The session lives.
    acquire(&session, "a").await.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_an_operator_says_who_takes_a_lock_away_is_told() {
    let (_world, network, session) = two().await;
    let guard = acquire(&session, "a").await;
    let mut admin = network.client(&[0]).admin().await.unwrap();
    let by_force = ForceReleaseRequest::named("a").because("host 7 has burned down");
    assert!(
        admin
            .force_release(by_force)
            .await
            .unwrap()
            .into_inner()
            .released
    );
    assert!(until_lost(&guard).await < secs(1));
    let refused = guard.release().await.unwrap_err();
    let Error::Lost { reason, detail, .. } = &refused else {
        panic!("{refused}");
    };
    assert_eq!(*reason, LostReason::ForceReleased);
    assert_eq!(detail, "host 7 has burned down");
    assert_eq!(
        refused.to_string(),
        "a: lost, an operator force-released it: host 7 has burned down"
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_client_renews_its_coordinator_need_not() {
    let (faults, world) = World::faulty();
    let session = world.network().client(&[0]).session().open().await.unwrap();
    let guard = acquire(&session, "a").await;
    let before = faults.calls("lock_renew");
    // A lease of 30 s, renewed every 9 s.
    for _ in 0..89 {
        tokio::time::sleep(secs(1)).await;
        assert!(guard.valid_for() > secs(20), "{:?}", guard.valid_for());
    }
    assert_eq!(faults.calls("lock_renew") - before, 9);
    let until = guard.valid_until();
    assert_eq!(until.duration_since(Instant::now()), guard.valid_for());
}

#[tokio::test(start_paused = true)]
async fn a_guard_outlives_its_lease_as_long_as_it_is_renewed() {
    let (_world, _, session) = two().await;
    let guard = acquire(&session, "a").await;
    for _ in 0..60 {
        tokio::time::sleep(secs(2)).await;
        assert!(guard.valid_for() > secs(15), "{:?}", guard.valid_for());
    }
    assert!(!guard.lost().is_cancelled());
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_its_own_ends_unless_it_is_renewed() {
    let (_world, _, session) = two().await;
    let guard = session.lock("a").lease(secs(5)).acquire().await.unwrap();
    tokio::time::sleep(secs(4)).await;
    guard.renew(Some(secs(20))).await.unwrap();
    let after = until_lost(&guard).await;
    assert!(after > secs(19) && after < secs(20), "{after:?}");
    assert!(guard.release().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_grant_after_a_long_wait_is_valid_from_its_confirmation() {
    let (_world, _, session) = two().await;
    let held = acquire(&session, "a").await;
    let waiting = spawn_detached("waiting", {
        let session = session.clone();
        async move { acquire(&session, "a").await }
    });
    tokio::time::sleep(secs(100)).await;
    held.release().await.unwrap();
    let guard = waiting.await.unwrap();
    assert!(guard.valid_for() > secs(29), "{:?}", guard.valid_for());
}

#[tokio::test(start_paused = true)]
async fn the_last_handle_ends_the_session() {
    let (world, _, session) = two().await;
    let guard = acquire(&session, "a").await;
    drop(session);
    tokio::time::sleep(secs(100)).await;
    assert!(!guard.lost().is_cancelled());
    drop(guard);
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn closing_ends_everything_at_once() {
    let (world, _, session) = two().await;
    let guard = acquire(&session, "a").await;
    let waiting = spawn_detached("waiting", {
        let session = session.clone();
        async move { session.lock("a").acquire().await }
    });
    let other = session.clone();
    world.until_waiting(0, 1).await;
    session.close().await.unwrap();
    assert!(guard.lost().is_cancelled());
    let loss = guard.loss().unwrap().to_string();
    assert_eq!(loss, "a: lost, the session has ended: it was closed");
    assert!(waiting.await.unwrap().unwrap_err().is_session_ended());
    let refused = other.lock("b").acquire().await.unwrap_err();
    assert!(refused.is_session_ended(), "{refused}");
    assert_eq!(*other.state().borrow(), SessionState::Ended);
    world.expect_nothing_left(&["a", "b"]).await;
}

#[tokio::test(start_paused = true)]
async fn what_fails_for_a_while_is_tried_again() {
    let (faults, world) = World::faulty();
    let session = world.network().client(&[0]).session().open().await.unwrap();
    let guard = acquire(&session, "a").await;
    faults.set_unavailable(true);
    let releasing = spawn_detached("releasing", guard.release());
    let acquiring = spawn_detached("acquiring", {
        let session = session.clone();
        async move { acquire(&session, "b").await }
    });
    tokio::time::sleep(secs(5)).await;
    assert!(!releasing.is_finished() && !acquiring.is_finished());
    faults.set_unavailable(false);
    releasing.await.unwrap().unwrap();
    acquiring.await.unwrap().release().await.unwrap();
    session.close().await.unwrap();
    world.expect_nothing_left(&["a", "b"]).await;
}

#[tokio::test(start_paused = true)]
async fn who_has_no_patience_with_a_store_is_refused_at_once() {
    let (faults, world) = World::faulty();
    let session = world.network().client(&[0]).session().open().await.unwrap();
    faults.set_unavailable(true);
    let begun = Instant::now();
    let refused = session.lock("a").patience(secs(0)).acquire().await;
    assert_eq!(
        refused.unwrap_err().reason().as_deref(),
        Some("STORE_UNAVAILABLE")
    );
    assert!(begun.elapsed() < secs(1), "{:?}", begun.elapsed());
    let refused = session.lock("a").patience(secs(5)).acquire().await;
    assert!(refused.unwrap_err().is_retryable());
    let waited = begun.elapsed();
    assert!(waited > secs(5) && waited < secs(8), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn readers_share_and_a_writer_waits() {
    let (_world, _, session) = two().await;
    let read = || session.lock("a").mode(LockMode::Read);
    let (one, two) = (read().acquire().await, read().acquire().await);
    let write = || session.lock("a").mode(LockMode::Write);
    assert!(write().try_acquire().await.unwrap().is_none());
    one.unwrap().release().await.unwrap();
    two.unwrap().release().await.unwrap();
    assert!(write().try_acquire().await.unwrap().is_some());
}
