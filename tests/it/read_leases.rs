//! A Redisson reader's watchdog cuts the time to live of the whole lock to its own lease of 30 s,
//! every 10 s, and may die after that. A longer read of ours is not cut with it.

use crate::support::prelude::*;

/// Takes a read lock with a lease that is far longer, of the session's or of its own, and has it
/// cut; returns what is left of the lock soon after.
async fn left_of_a_cut_lock(session_lease: Duration, lease: Option<Duration>) -> i64 {
    let world = World::new();
    let open = pb::OpenSession::default().lasting(session_lease);
    let mut session = world.client(0).await.open_with(open).await.unwrap();
    let request = pb::AcquireRequest {
        mode: pb::LockMode::Read.into(),
        lease: lease.map(proto),
        ..acquire_request("a", "")
    };
    let grant = session.granted(request).await;
    assert_eq!(grant.watched, lease.is_none());
    world.redis(&["PEXPIRE", "a", "30000"]);
    tokio::time::sleep(secs(11)).await;
    let left = expect!(world.redis(&["PTTL", "a"]), Value::Int);
    left
}

#[tokio::test(start_paused = true)]
async fn a_watched_read_lives_on() {
    let left = left_of_a_cut_lock(secs(120), None).await;
    assert!(left > 100_000, "{left}");
}

#[tokio::test(start_paused = true)]
async fn a_read_with_a_lease_of_its_own_lives_on() {
    let left = left_of_a_cut_lock(secs(30), Some(secs(120))).await;
    assert!(left > 100_000, "{left}");
}
