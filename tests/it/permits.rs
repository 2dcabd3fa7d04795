//! Semaphores: leased permits with owners, waiting for them, and what becomes of those of clients
//! that crash.

use crate::support::prelude::*;

/// A semaphore that has so many permits.
async fn pool(total: u32) -> (World, Semaphore) {
    let (world, client) = World::with_client().await;
    let mut permits = Semaphore::new(&client, "s");
    permits.set(total).await;
    (world, permits)
}

#[tokio::test(start_paused = true)]
async fn permits_are_taken_given_back_and_shown() {
    let world = World::new();
    let mut permits = Semaphore::new(&world.client(0).await, "s");
    let set = permits.set(3).await;
    assert!(set.created && (set.total, set.available) == (3, 3));
    let grant = permits.take("x", 2, secs(60)).await;
    assert_eq!((grant.permits, grant.owner.as_str()), (2, "x"));
    assert_eq!(grant.permit_ids.len(), 2);
    assert!(grant.permit_ids.iter().all(|id| id.len() == 32));
    assert_eq!(std_duration(grant.lease), secs(60));
    assert!(std_duration(grant.valid_for) < secs(60) && !grant.watched);
    let refused = permits.try_acquire("y", 2, secs(60)).await.unwrap();
    assert!(!refused.acquired && refused.available == 1);
    let seen = permits.describe().await;
    assert_eq!((seen.total, seen.available, seen.holder_count), (3, 1, 1));
    let holder = &seen.holders[0];
    assert_eq!((holder.owner.as_str(), holder.permits), ("x", 2));
    let released = permits.release("x", &grant.permit_ids).await.unwrap();
    assert_eq!((released.released, released.available), (2, 3));
    let again = permits.release("x", &grant.permit_ids).await.unwrap_err();
    assert_eq!(reason(&again), "NOT_OWNER");
    assert!(permits.is_idle(3).await);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_by_the_release() {
    let world = World::of(2);
    let mut near = Semaphore::new(&world.client(0).await, "s");
    let mut far = Semaphore::new(&world.client(1).await, "s");
    near.set(1).await;
    let held = near.take("x", 1, secs(60)).await;
    let mut waiting = far.acquire(far.request("y", 1)).await.unwrap();
    let told = waiting.expect_waiting().await;
    assert_eq!((told.position, told.available), (1, 0));
    assert_eq!(std_duration(told.next_lease_end), secs(60));
    let channel = keys::permit_channel("s");
    world.until_listening(&channel, 1).await;
    let released_at = Instant::now();
    near.release("x", &held.permit_ids).await.unwrap();
    let granted = waiting.expect_granted().await;
    assert!(
        released_at.elapsed() < millis(50),
        "by the message, not by a poll"
    );
    far.release("y", &granted.permit_ids).await.unwrap();
    world.until_listening(&channel, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_crashed_holders_permits_go_to_the_waiter_when_their_lease_ends() {
    let (_world, mut permits) = pool(2).await;
    permits.take("crashes", 1, millis(1500)).await;
    permits.take("lives", 1, secs(60)).await;
    let begun = Instant::now();
    let mut waiting = permits.acquire(permits.request("y", 1)).await.unwrap();
    waiting.expect_granted().await;
    let waited = begun.elapsed();
    assert!(
        waited >= millis(1500) && waited < millis(1600),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn one_release_serves_as_many_as_it_can_in_the_order_they_came() {
    let (_world, mut permits) = pool(4).await;
    let held = permits.take("x", 4, secs(600)).await;
    let mut calls = Vec::new();
    // The large request is not passed over by the small ones behind it.
    for (owner, wanted) in [("a", 3), ("b", 1), ("c", 1)] {
        let request = permits.request(owner, wanted);
        calls.push(permits.waits(request).await);
    }
    permits.release("x", &held.permit_ids[..2]).await.unwrap();
    tokio::time::sleep(secs(3)).await;
    assert_eq!(permits.describe().await.waiter_count, 3);
    let released_at = Instant::now();
    permits.release("x", &held.permit_ids[2..]).await.unwrap();
    calls[0].expect_granted().await;
    calls[1].expect_granted().await;
    assert!(released_at.elapsed() < millis(50), "the hint is passed on");
    assert_eq!(permits.describe().await.waiter_count, 1);
}

#[tokio::test(start_paused = true)]
async fn never_more_are_held_than_there_are() {
    let world = World::of(2);
    let clients = [world.client(0).await, world.client(1).await];
    let mut permits = Semaphore::new(&clients[0], "s");
    permits.set(5).await;
    let held = std::sync::atomic::AtomicU32::new(0);
    let calls = (0..60).map(|n| {
        let mut permits = Semaphore::new(&clients[n % 2], "s");
        let (held, wanted) = (&held, 1 + u32::try_from(n).unwrap() % 3);
        async move {
            let owner = format!("o{n}");
            let request = permits.request(&owner, wanted);
            let mut call = permits.acquire(request).await.unwrap();
            let grant = call.expect_granted().await;
            let before = held.fetch_add(wanted, std::sync::atomic::Ordering::SeqCst);
            assert!(before + wanted <= 5, "{before} and {wanted} more");
            tokio::time::sleep(millis(20)).await;
            held.fetch_sub(wanted, std::sync::atomic::Ordering::SeqCst);
            permits.release(&owner, &grant.permit_ids).await.unwrap();
        }
    });
    join_all(calls).await;
    assert!(permits.is_idle(5).await);
}

#[tokio::test(start_paused = true)]
async fn the_size_can_change_while_some_wait() {
    let (_world, mut permits) = pool(1).await;
    let first = permits.take("x", 1, secs(600)).await;
    let request = permits.request("y", 1);
    let mut y = permits.waits(request).await;
    let changed_at = Instant::now();
    assert_eq!(permits.set(2).await.available, 1);
    let second = y.expect_granted().await;
    assert!(changed_at.elapsed() < millis(50), "larger: woken");
    let request = permits.request("z", 2);
    let mut z = permits.waits(request).await;
    let changed_at = Instant::now();
    let set = permits.set(1).await;
    assert_eq!((set.created, set.total, set.available), (false, 1, -1));
    assert_eq!(refusal(z.end().await), "PERMITS_EXCEEDED");
    assert!(changed_at.elapsed() < millis(50), "smaller: told");
    permits.release("x", &first.permit_ids).await.unwrap();
    assert!(
        !permits.gets_for("x", 1, secs(60)).await,
        "one of one is still taken"
    );
    permits.release("y", &second.permit_ids).await.unwrap();
    permits.take("x", 1, secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn only_their_owner_releases_and_renews_permits() {
    let (_world, mut permits) = pool(3).await;
    let x = permits.take("x", 2, secs(10)).await.permit_ids;
    let y = permits.take("y", 1, secs(10)).await.permit_ids;
    let both = [x.clone(), y.clone()].concat();
    for (owner, ids) in [("y", &x), ("x", &both), ("z", &Vec::new())] {
        let refused = permits.release(owner, ids).await.unwrap_err();
        expect_status(&refused, Code::FailedPrecondition, "NOT_OWNER");
    }
    assert_eq!(refusal(permits.renew("y", &x, secs(60)).await), "NOT_OWNER");
    let unnamed = permits.renew("x", &[], secs(60)).await.unwrap_err();
    assert_eq!(reason(&unnamed), "INVALID_PERMIT_IDS");
    let renewed = permits.renew("x", &x, secs(60)).await.unwrap();
    assert_eq!(std_duration(renewed[0].lease), secs(60));
    tokio::time::sleep(secs(11)).await;
    assert_eq!(permits.describe().await.available, 1, "y has let go");
    assert_eq!(refusal(permits.renew("y", &y, secs(60)).await), "NOT_OWNER");
    assert_eq!(permits.release("x", &[]).await.unwrap().released, 2);
}

#[tokio::test(start_paused = true)]
async fn bad_input_is_refused_with_a_reason() {
    let (_world, client) = World::with_client().await;
    let mut permits = Semaphore::new(&client, "s");
    let cases = |code, why: &'static str| (code, why);
    let absent = permits.try_acquire("x", 1, secs(60)).await.unwrap_err();
    let expected = cases(Code::NotFound, "SEMAPHORE_NOT_FOUND");
    assert_eq!((absent.code(), reason(&absent).as_str()), expected);
    permits.set(3).await;
    for (wanted, code, why) in [
        (0, Code::InvalidArgument, "INVALID_PERMITS"),
        (1001, Code::InvalidArgument, "INVALID_PERMITS"),
        (u32::MAX, Code::InvalidArgument, "INVALID_PERMITS"),
        (4, Code::FailedPrecondition, "PERMITS_EXCEEDED"),
    ] {
        let refused = permits.try_acquire("x", wanted, secs(60)).await;
        let refused = refused.unwrap_err();
        assert_eq!((refused.code(), reason(&refused).as_str()), (code, why));
        let request = permits.request("x", wanted);
        let waiting = match permits.acquire(request).await {
            Ok(mut call) => call.end().await.unwrap_err(),
            Err(refused) => refused,
        };
        assert_eq!((waiting.code(), reason(&waiting).as_str()), (code, why));
    }
    let id = permits.take("x", 1, secs(60)).await.permit_ids[0].clone();
    for ids in [vec!["x".to_owned()], vec![id.clone(), id.clone()]] {
        let refused = permits.release("x", &ids).await.unwrap_err();
        assert_eq!(reason(&refused), "INVALID_PERMIT_IDS");
    }
    // One name, several kinds.
    let mut lock = client.clone();
    let refused = lock.try_acquire("s", "x", secs(60)).await.unwrap_err();
    assert_eq!(reason(&refused), "WRONG_KIND");
    lock.try_acquire("lock", "x", secs(60)).await.unwrap();
    let mut wrong = Semaphore::new(&client, "lock");
    let refused = wrong.try_acquire("x", 1, secs(60)).await.unwrap_err();
    assert_eq!(reason(&refused), "WRONG_KIND");
    assert_eq!(permits.describe().await.available, 2);
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_bounded_and_leaves_nothing_behind() {
    let (world, client) = World::with_client().await;
    let mut permits = Semaphore::new(&client, "s");
    permits.set(2).await;
    let held = permits.take("x", 1, secs(600)).await;
    let begun = Instant::now();
    let request = permits.request("y", 2).within(millis(700));
    let mut hasty = permits.acquire(request).await.unwrap();
    assert_eq!(hasty.expect_timeout().await.available, 1);
    assert!(begun.elapsed() >= millis(700) && begun.elapsed() < millis(750));
    let dropped = permits.waits(permits.request("y", 2)).await;
    drop(dropped);
    world.until_waiting(0, 0).await;
    permits.release("x", &held.permit_ids).await.unwrap();
    assert!(permits.is_idle(2).await);
    permits.set(0).await;
    world.expect_nothing_left(&["s"]).await;
}

#[tokio::test(start_paused = true)]
async fn no_permit_is_left_when_the_caller_goes_at_any_instant() {
    let (world, mut permits) = pool(2).await;
    for at in 80..120 {
        permits.take("x", 2, millis(100)).await;
        let waiter = world.client(0).await;
        let mut theirs = Semaphore::new(&waiter, "s");
        let request = theirs.request("y", 2).lasting(secs(5));
        let call = async { theirs.acquire(request).await.unwrap().end().await.unwrap() };
        let told = tokio::time::timeout(millis(at), call).await.is_ok();
        waiter.cut();
        let cut_at = Instant::now();
        eventually("nobody waits and nobody holds", || async {
            permits.clone().is_idle(2).await
        })
        .await;
        // What was on its way when the connection broke cannot be told from what arrived; its lease
        // ends it.
        assert!(
            told || cut_at.elapsed() <= millis(5100),
            "{:?}",
            cut_at.elapsed()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeat_with_the_same_request_id_changes_nothing() {
    let (_world, mut permits) = pool(5).await;
    let request = permits.request("x", 2).with_id("r1").lasting(secs(60));
    let first = permits.acquire(request.clone()).await.unwrap();
    let first = { first }.expect_granted().await;
    let again = permits.acquire(request.clone()).await.unwrap();
    let again = { again }.expect_granted().await;
    assert_eq!(first.permit_ids, again.permit_ids);
    assert_eq!(permits.describe().await.available, 3);
    let release = pb::ReleasePermitsRequest::named("s")
        .by("x")
        .ids(&[])
        .with_id("r2");
    for _ in 0..2 {
        let released = permits.api.release_permits(release.clone()).await;
        assert_eq!(released.unwrap().into_inner().released, 2);
        permits.take("x", 1, secs(60)).await;
    }
    assert_eq!(permits.describe().await.available, 3, "only the first did");
    let over = permits.acquire(request).await.unwrap();
    assert_eq!(refusal({ over }.end().await), "NOT_OWNER");
}

#[tokio::test(start_paused = true)]
async fn every_key_but_the_counters_ends_by_itself() {
    let (world, mut permits) = pool(2).await;
    let request = permits.request("x", 1).with_id("r1").lasting(secs(5));
    let call = permits.acquire(request).await.unwrap();
    { call }.expect_granted().await;
    let ends = |key: &[u8]| {
        let left = expect!(world.store.command(&[b"PTTL", key]), Ok(Value::Int(left)) => left);
        left > 0
    };
    // What Redisson's own semaphores keep.
    assert!(!ends(b"s") && !ends(&keys::permit_leases("s").to_bytes()));
    assert!(ends(&keys::permit_owners("s").to_bytes()) && ends(&keys::kind("s").to_bytes()));
    assert!(ends(&keys::record("s", "r1").to_bytes()));
    assert_eq!(world.store.key_count(), 5);
    tokio::time::sleep(secs(6)).await;
    assert!(permits.is_idle(2).await, "without anybody sweeping");
}
