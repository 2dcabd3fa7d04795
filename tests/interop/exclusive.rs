//! What is particular to locks with one holder: fencing tokens across both sides, and both
//! watchdogs at their default settings, and what becomes of the lock of a process that was killed.

use tokio::time::Instant;

use crate::{
    agent::{Agent, Version},
    redis_server::eventually,
    redisson::{Kind, Redisson},
    world::{PROMPT, World, measured, millis, secs, timed_lock},
};

#[tokio::test]
async fn fencing_tokens_grow_across_both_sides() {
    let world = World::start(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut ours = world.ours(Kind::Plain, "build").await;
    let mut last = 0;
    for round in 0..10 {
        let token: u64 = java
            .lock(Kind::Fenced, "build")
            .value()
            .await
            .parse()
            .unwrap();
        assert!(token > last, "round {round}: {token} after {last}");
        java.unlock(Kind::Fenced, "build").value().await;
        let grant = ours.acquire().await;
        assert!(
            grant.fencing_token > token,
            "round {round}: {grant:?} after {token}"
        );
        assert_eq!(ours.acquire().await.fencing_token, grant.fencing_token);
        ours.release().await;
        ours.release().await;
        last = grant.fencing_token;
    }
}

#[tokio::test]
async fn both_watchdogs_renew_at_their_default_settings() {
    let world = World::start(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut ours = world.ours(Kind::Plain, "ours").await;
    ours.acquire().await;
    java.lock(Kind::Plain, "theirs").value().await;
    for name in ["ours", "theirs"] {
        eventually("a third of the lease is over", || async {
            world.redis.lease_left(name).await.unwrap() < secs(21)
        })
        .await;
        eventually("it is renewed", || async {
            world.redis.lease_left(name).await.unwrap() > secs(28)
        })
        .await;
    }
    assert_eq!(ours.release().await, 0);
    java.unlock(Kind::Plain, "theirs").value().await;
}

#[tokio::test]
async fn java_gets_the_lock_of_a_killed_coordinator_when_its_lease_ends() {
    let world = World::with(Version::Current, 2, |settings| settings).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut ours = world.ours_at(0, Kind::Plain, "build", Some(secs(3))).await;
    ours.acquire().await;
    let waiting = timed_lock(&world, &java, Kind::Plain, "build").await;
    world.coordinators[0].kill();
    let killed = Instant::now();
    let left = world.redis.lease_left("build").await.unwrap();
    let (locked, _) = waiting.await.unwrap();
    let delay = locked - killed;
    // What Redisson was told before the last renewal may be longer than what is left, by a third of
    // the lease at most.
    measured("Java's lock after a killed coordinator", delay);
    assert!(delay + millis(5) >= left, "{delay:?} of {left:?}");
    assert!(delay < left + secs(3), "{delay:?} of {left:?}");
}

#[tokio::test]
async fn we_get_the_lock_of_a_killed_jvm_when_its_lease_ends() {
    let world = World::start(Version::Current).await;
    let jvm = Agent::start(Version::Current);
    let redisson = Redisson::connect_by(jvm.clone(), &world.redis, secs(3)).await;
    redisson
        .thread("a")
        .lock(Kind::Plain, "build")
        .value()
        .await;
    let mut ours = world.ours(Kind::Plain, "build").await;
    let op_id = ours.wait().await;
    jvm.kill();
    let killed = Instant::now();
    let left = world.redis.lease_left("build").await.unwrap();
    ours.granted(op_id).await;
    let delay = killed.elapsed();
    measured("our grant after a killed JVM", delay);
    assert!(delay + millis(5) >= left, "{delay:?} of {left:?}");
    assert!(delay < left + PROMPT, "{delay:?} of {left:?}");
}
