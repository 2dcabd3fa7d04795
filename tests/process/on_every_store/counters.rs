//! Semaphores and latches, which need one count that all see; where there is none they are refused
//! by name.

use lockkeeper_store::script::keys;

use super::world::{LATE_MAX, LEASE, World};
use crate::prelude::*;

const UNSUPPORTED: &str = "UNSUPPORTED_BY_STORE";

pub(super) async fn never_more_permits_are_held_than_there_are_or_semaphores_are_refused(
    world: World,
) {
    const NAME: &str = "pool";
    let (mut near, far) = (world.client(0).await, world.client(1).await);
    let mut at_near = Semaphore::new(&near, NAME);
    let mut at_far = Semaphore::new(&far, NAME);
    if !world.kind().has_queues() {
        let refused = at_near.try_acquire("x", 1, LEASE).await.unwrap_err();
        assert_eq!(reason(&refused), UNSUPPORTED);
        let request = pb::SetPermitsRequest::named(NAME).permits(1);
        assert_eq!(refusal(at_near.api.set_permits(request).await), UNSUPPORTED);
        return;
    }
    assert!(at_near.set(3).await.created);
    let mut session = open_with_lease(&mut near, LEASE).await;
    let watched = session.acquire_permits(NAME, 1).await;
    let held = at_far.take("x", 2, secs(60)).await;
    assert!(!at_near.gets_for("y", 1, LEASE).await);

    let request = at_near.request("w", 2).lasting(LEASE);
    let mut waiting = at_near.waits(request).await;
    // From here on there is nothing to see from outside; it takes a confirmation's and an attempt's
    // way.
    tokio::time::sleep(millis(300)).await;
    let released = Instant::now();
    at_far.release("x", &held.permit_ids).await.unwrap();
    waiting.expect_granted().await;
    assert!(released.elapsed() < LATE_MAX, "{:?}", released.elapsed());
    assert!(!at_far.gets_for("y", 1, LEASE).await);

    // These two are left to their lease; the session's is renewed for longer than that.
    let request = at_far.request("z", 2).lasting(secs(60));
    let mut waiting = at_far.acquire(request).await.unwrap();
    let last = waiting.expect_granted().await;
    tokio::time::sleep((LEASE * 3 / 2).saturating_sub(released.elapsed())).await;
    assert!(!at_near.gets_for("y", 1, LEASE).await);
    let given = session.release_permits(NAME, &watched.permit_ids).await;
    assert_eq!((given.released, given.available), (1, 1));
    at_far.release("z", &last.permit_ids).await.unwrap();
    assert!(at_near.is_idle(3).await);
    session.close().await.unwrap();
}

pub(super) async fn a_latch_opens_for_all_or_latches_are_refused(world: World) {
    if !world.kind().has_queues() {
        return expect_no_latch(&world).await;
    }
    // Redisson puts the channel of the second one into another slot of a cluster than the latch
    // itself.
    for name in ["start", "the:{start}"] {
        let (near, far) = (world.client(0).await, world.client(1).await);
        let (mut at_near, mut at_far) = (Latch::new(&near, name), Latch::new(&far, name));
        assert!(at_near.set(2).await);
        assert!(!at_far.set(5).await, "it has a count");
        let mut calls = Vec::new();
        for latch in [&mut at_near, &mut at_far] {
            let mut call = latch.wait(None).await;
            call.expect_waiting(2).await;
            calls.push(timed(async move { call.expect_opened().await }));
        }
        let channel = keys::latch_channel(name);
        world.store().until_listened_to(name, &channel, true).await;
        tokio::time::sleep(millis(300)).await;
        assert_eq!(at_far.count_down_as(1, "once").await.unwrap(), 1);
        assert_eq!(at_near.count_down_as(1, "once").await.unwrap(), 1);
        let opened = Instant::now();
        assert_eq!(at_near.count_down(1).await.unwrap(), 0);
        for call in calls {
            let (told_at, ()) = call.await.unwrap();
            let late = told_at.saturating_duration_since(opened);
            assert!(late < LATE_MAX, "{name}: {late:?}");
        }
        assert_eq!(refusal(at_far.count_down(1).await), "COUNT_EXCEEDED");
    }
}

async fn expect_no_latch(world: &World) {
    let mut latch = Latch::new(&world.client(0).await, "start");
    assert_eq!(refusal(latch.count_down(1).await), UNSUPPORTED);
    let request = pb::SetCountRequest::named("start").count(1);
    assert_eq!(refusal(latch.api.set_count(request).await), UNSUPPORTED);
}
