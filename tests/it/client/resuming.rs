//! Streams break, coordinators stop: what is held stays held, and what was asked is done once.

use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_client::{Error, Guard, LostReason, SessionEvent, SessionState};

use super::{acquire, steps, two, until_lost};
use crate::support::prelude::*;

/// Nobody noticed, and it is renewed again.
async fn expect_kept(guard: &Guard) {
    for _ in 0..60 {
        tokio::time::sleep(secs(2)).await;
        assert!(!guard.lost().is_cancelled());
        assert!(guard.valid_for() > secs(15), "{:?}", guard.valid_for());
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_stream_costs_nothing() {
    let (world, network, session) = two().await;
    let guard = acquire(&session, "a").await;
    network.cut(0);
    expect_kept(&guard).await;
    assert_eq!(network.connections(1), 1, "it went to the next endpoint");
    guard.release().await.unwrap();
    session.close().await.unwrap();
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_that_stops_is_left_for_another() {
    let (world, network, session) = two().await;
    let guard = acquire(&session, "a").await;
    let other = network.client(&[1]).session().open().await.unwrap();
    let held = acquire(&other, "b").await;
    let waiting = spawn_detached("waiting", {
        let session = session.clone();
        async move { session.lock("b").acquire().await }
    });
    tokio::time::sleep(secs(1)).await;
    world.coordinator(0).drain(secs(5)).await;
    expect_kept(&guard).await;
    assert_eq!(world.coordinator(0).load().sessions, 0);
    assert!(!waiting.is_finished());
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cut_at_any_instant_does_what_was_asked_once() {
    let (world, network, session) = two().await;
    for step in 0..100 {
        let name = format!("a{step}");
        let asked = spawn_detached("acquiring", {
            let (session, name) = (session.clone(), name.clone());
            async move { acquire(&session, &name).await }
        });
        steps(step).await;
        network.cut(0);
        network.cut(1);
        let guard = asked.await.unwrap();
        assert_eq!(guard.grants()[0].hold_count, 1, "{step}");
        let releasing = spawn_detached("releasing", guard.release());
        steps(step).await;
        network.cut(0);
        network.cut(1);
        releasing.await.unwrap().unwrap();
        assert_eq!(world.redis(&["EXISTS", &name]), Value::Int(0), "{step}");
    }
    session.close().await.unwrap();
    world.expect_nothing_left(&["a0", "a30"]).await;
}

#[tokio::test(start_paused = true)]
async fn several_locks_survive_a_cut_at_any_instant() {
    let (world, network, session) = two().await;
    for step in 0..100 {
        let asked = spawn_detached("acquiring", {
            let session = session.clone();
            async move { session.locks(["a", "b", "c"]).acquire().await }
        });
        steps(step).await;
        network.cut(step % 2);
        let guard = asked.await.unwrap().unwrap();
        assert!(guard.grants().iter().all(|it| it.hold_count == 1), "{step}");
        guard.release().await.unwrap();
    }
    session.close().await.unwrap();
    world.expect_nothing_left(&["a", "b", "c"]).await;
}

#[tokio::test(start_paused = true)]
async fn giving_up_while_the_stream_is_broken_leaves_nothing_behind() {
    let (world, network, session) = two().await;
    for step in 0..100 {
        let acquiring = session.lock("a").acquire();
        let given_up = tokio::time::timeout(Duration::from_millis(60), async {
            let cutting = async {
                steps(step).await;
                network.cut(0);
                network.cut(1);
                std::future::pending::<()>().await;
            };
            let (guard, ()) = futures::join!(acquiring, cutting);
            drop(guard);
        });
        assert!(given_up.await.is_err());
        world.until_answer(&["EXISTS", "a"], 0).await;
    }
    session.close().await.unwrap();
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn without_any_coordinator_guards_are_lost_before_their_lease_and_the_session_after_it() {
    let (world, network, session) = two().await;
    let guard = acquire(&session, "a").await;
    let mut state = session.state();
    tokio::time::sleep(secs(21)).await;
    network.set_down(0, true);
    network.set_down(1, true);
    state
        .wait_for(|it| *it == SessionState::Resuming)
        .await
        .unwrap();
    let asked = spawn_detached("acquiring", {
        let session = session.clone();
        async move { session.lock("b").acquire().await }
    });
    let valid_for = guard.valid_for();
    let after = until_lost(&guard).await;
    assert!(after <= valid_for && valid_for < secs(30), "{after:?}");
    // The store still has it, so nobody else can have it before.
    assert_eq!(world.redis(&["EXISTS", "a"]), Value::Int(1));
    state
        .wait_for(|it| *it == SessionState::Ended)
        .await
        .unwrap();
    let refused = asked.await.unwrap().unwrap_err();
    assert!(refused.is_session_ended() && refused.is_retryable());
    assert_eq!(guard.valid_for(), Duration::ZERO);
    let refused = guard.release().await.unwrap_err();
    let is_expired = matches!(
        refused,
        Error::Lost {
            reason: LostReason::Expired,
            ..
        }
    );
    assert!(is_expired, "{refused}");
}

#[tokio::test(start_paused = true)]
async fn an_outage_shorter_than_the_lease_costs_nothing() {
    let (_world, network, session) = two().await;
    let guard = acquire(&session, "a").await;
    network.set_down(0, true);
    network.set_down(1, true);
    tokio::time::sleep(secs(15)).await;
    let releasing = spawn_detached("acquiring", {
        let session = session.clone();
        async move { acquire(&session, "b").await.release().await }
    });
    network.set_down(1, false);
    releasing.await.unwrap().unwrap();
    expect_kept(&guard).await;
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_was_lost_meanwhile_is_told_after_the_resume() {
    let (world, network, session) = two().await;
    let (gone, kept) = (acquire(&session, "a").await, acquire(&session, "b").await);
    network.set_down(0, true);
    network.set_down(1, true);
    world.redis(&["DEL", "a"]);
    tokio::time::sleep(secs(2)).await;
    network.set_down(1, false);
    assert!(until_lost(&gone).await < secs(3));
    assert!(!kept.lost().is_cancelled());
    expect_kept(&kept).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nobody_knows_any_more_is_over_at_once() {
    let options = Options::default();
    let mut world = World::with(&options);
    let stranger = world.add_coordinator(&Options {
        secret: "another secret",
        ..options
    });
    let network = world.network();
    let session = network
        .client(&[0, stranger])
        .session()
        .open()
        .await
        .unwrap();
    let guard = acquire(&session, "a").await;
    // The one that knows the session is asked too.
    network.cut(0);
    expect_kept(&guard).await;
    network.set_down(0, true);
    let after = until_lost(&guard).await;
    assert!(after < secs(31), "{after:?}");

    let session = network.client(&[stranger]).session().open().await.unwrap();
    let guard = acquire(&session, "b").await;
    drop(session);
    network.cut(stranger);
    expect_kept(&guard).await;
}

#[tokio::test(start_paused = true)]
async fn what_happens_to_a_session_is_told_in_order() {
    let (world, network, session) = two().await;
    let mut events = session.events();
    let other = network.client(&[1]).session().open().await.unwrap();
    let held = acquire(&other, "a").await;
    let waiting = spawn_detached("waiting", {
        let session = session.clone();
        async move { acquire(&session, "a").await }
    });
    let told = events.next().await.unwrap();
    assert!(
        matches!(&told, SessionEvent::Waiting { name, waiting }
            if name == "a" && waiting.position == 1),
        "{told:?}"
    );
    network.cut(0);
    let told = events.next().await.unwrap();
    assert!(matches!(told, SessionEvent::Broken { .. }), "{told:?}");
    let told = events.next().await.unwrap();
    assert!(matches!(told, SessionEvent::Resumed), "{told:?}");
    held.release().await.unwrap();
    let guard = waiting.await.unwrap();
    world.coordinator(1).drain(secs(5)).await;
    loop {
        if let SessionEvent::Broken { cause } = events.next().await.unwrap() {
            assert_eq!(cause, "the coordinator is stopping");
            break;
        }
    }
    network.set_down(0, true);
    network.set_down(1, true);
    until_lost(&guard).await;
    drop(guard);
    let mut last = None;
    while let Some(told) = events.next().await {
        last = Some(told);
    }
    assert!(matches!(last, Some(SessionEvent::Ended { .. })), "{last:?}");
    assert!(session.events().next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_end_that_nobody_has_confirmed_is_an_error() {
    let (world, network, session) = two().await;
    let guard = acquire(&session, "a").await;
    network.set_down(0, true);
    network.set_down(1, true);
    let begun = Instant::now();
    let refused = session.close().await.unwrap_err();
    assert!(refused.is_session_ended(), "{refused}");
    assert_eq!(begun.elapsed(), secs(2));
    assert!(guard.lost().is_cancelled());
    assert_eq!(world.redis(&["EXISTS", "a"]), Value::Int(1));
}
