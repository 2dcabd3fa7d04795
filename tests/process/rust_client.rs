//! The crate's own client, given the addresses of two coordinators on a real Redis: what it does by
//! itself when they die.

use lockkeeper_client::{Client, Guard, Session, SessionState};

use crate::prelude::*;
use crate::steps::{expect_only_records, lease_end, waiter_count};

/// The margin for clock drift, a hundredth of it, is more than a busy machine is late.
const LEASE: Duration = secs(6);

/// A store, two coordinators, and a session that knows both and is at the first.
async fn two() -> (RedisServer, Coordinator, Coordinator, Session) {
    let settings = |url: &str| settings_on(url).with("store.call_timeout", "2s");
    let (redis, first, second) = two_coordinators(settings).await;
    let client = Client::builder()
        .endpoint(&first.url())
        .and_then(|it| it.endpoint(&second.url()))
        .and_then(lockkeeper_client::ClientBuilder::build)
        .unwrap();
    let session = client.session().client_name("worker").lease(LEASE);
    (redis, first, second, session.open().await.unwrap())
}

/// Work under a lock: goes on until it is told to stop, or until the lock is lost. Says whether it
/// could finish.
async fn work(guard: &Guard, until: Instant) -> bool {
    tokio::select! {
        () = guard.lost().cancelled() => false,
        () = tokio::time::sleep_until(until) => true,
    }
}

#[tokio::test]
async fn a_killed_coordinator_is_left_for_the_other_and_the_guard_keeps_its_lock() {
    let (redis, first, second, session) = two().await;
    let guard = session.lock("build").acquire().await.unwrap();
    let mut other = second.client().await;
    let contender = timed_wait(&mut other, "build").await;

    first.kill();
    let killed = Instant::now();
    let end = lease_end(&redis, "build").await;
    eventually("the lease of before has been renewed", || async {
        lease_end(&redis, "build").await > end + millis(100)
    })
    .await;
    measured("renewed after the kill", killed.elapsed());
    assert!(Instant::now() < end, "resumed too late");
    // Time itself is what is tested: without the resume the lease would end, and the contender
    // would get the lock.
    assert!(work(&guard, end + LEASE).await, "{:?}", guard.loss());
    assert!(!contender.is_finished());
    assert_eq!(waiter_count(&other, "build").await, 1);
    assert_eq!(*session.state().borrow(), SessionState::Connected);
    assert!(guard.valid_for() > LEASE / 3, "{:?}", guard.valid_for());
    let seen = other.clone().describe("build").await;
    assert_eq!(seen.last_fencing_token, guard.fencing_token());
    assert_eq!(seen.holders[0].client_name, "worker");
    let sessions = lockkeeper(&second, &["sessions"]).output().await.unwrap();
    let sessions = String::from_utf8(sessions.stdout).unwrap();
    let mut lines = sessions.lines();
    let its = lines.find(|line| line.contains("client_name=worker"));
    assert!(
        its.unwrap().contains("peer_address=127.0.0.1:"),
        "{sessions}"
    );

    let token = guard.fencing_token();
    guard.release().await.unwrap();
    let (_, (granted, contender)) = contender.await.unwrap();
    assert!(granted.fencing_token > token);
    contender.close().await.unwrap();
    session.close().await.unwrap();
    expect_only_records(&redis).await;
}
