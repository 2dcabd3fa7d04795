//! What is particular to read/write locks: who may be inside together, and what becomes of the
//! others.

use lockkeeper_base::tasks::spawn_detached;
use tokio::time::Instant;

use crate::{
    agent::{Agent, Version},
    contention::Witness,
    redis_server::eventually,
    redisson::{Kind, Redisson},
    world::{Ours, PROMPT, World, measured, millis, secs, timed_lock},
};

const NAME: &str = "build";

#[tokio::test]
async fn readers_of_both_sides_read_together_and_keep_writers_out() {
    let world = World::without_polls(Version::Current).await;
    let redisson = world.redisson().await;
    let (java, other) = (redisson.thread("a"), redisson.thread("b"));
    let mut reader = world.ours(Kind::Read, NAME).await;
    let mut writer = world.ours(Kind::Write, NAME).await;
    java.lock(Kind::Read, NAME).value().await;
    reader.acquire().await;
    assert!(other.try_lock(Kind::Read, NAME, secs(0)).yes().await);
    assert!(
        !redisson
            .thread("c")
            .try_lock(Kind::Write, NAME, secs(0))
            .yes()
            .await
    );
    assert!(!writer.try_acquire().await.acquired);
    let op_id = writer.wait().await;

    java.unlock(Kind::Read, NAME).value().await;
    reader.release().await;
    assert!(
        !world
            .ours(Kind::Write, NAME)
            .await
            .try_acquire()
            .await
            .acquired
    );
    other.unlock(Kind::Read, NAME).value().await;
    let unlocked = Instant::now();
    writer.granted(op_id).await;
    assert!(unlocked.elapsed() < PROMPT, "{:?}", unlocked.elapsed());
    assert!(!other.try_lock(Kind::Read, NAME, secs(0)).yes().await);
    assert!(!reader.try_acquire().await.acquired);
    writer.release().await;
    assert_eq!(world.redis.lease_left(NAME).await, None);
}

#[tokio::test]
async fn javas_writer_waits_for_our_last_reader() {
    let world = World::without_polls(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut readers = [
        world.ours(Kind::Read, NAME).await,
        world.ours(Kind::Read, NAME).await,
    ];
    for reader in &mut readers {
        reader.acquire().await;
    }
    let waiting = timed_lock(&world, &java, Kind::Write, NAME).await;
    readers[0].release().await;
    // Nothing tells that somebody goes on waiting, so it gets the time to go wrong.
    tokio::time::sleep(millis(300)).await;
    assert!(!waiting.is_finished());
    let released = Instant::now();
    readers[1].release().await;
    let (locked, _) = waiting.await.unwrap();
    assert!(locked - released < PROMPT, "{:?}", locked - released);
    assert!(!readers[0].try_acquire().await.acquired);
    java.unlock(Kind::Write, NAME).value().await;
    assert!(readers[0].try_acquire().await.acquired);
}

#[tokio::test]
async fn javas_writer_goes_on_as_a_reader() {
    let world = World::start(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut reader = world.ours(Kind::Read, NAME).await;
    let mut writer = world.ours(Kind::Write, NAME).await;
    java.lock(Kind::Write, NAME).value().await;
    java.lock(Kind::Read, NAME).value().await;
    let op_id = reader.wait().await;
    java.unlock(Kind::Write, NAME).value().await;
    // Redisson publishes nothing then, so it takes a look at the lock to find out.
    let unlocked = Instant::now();
    reader.granted(op_id).await;
    measured("Java's downgrade to our read", unlocked.elapsed());
    assert!(unlocked.elapsed() < PROMPT, "{:?}", unlocked.elapsed());
    assert!(!writer.try_acquire().await.acquired);
    reader.release().await;
    let op_id = writer.wait().await;
    java.unlock(Kind::Read, NAME).value().await;
    writer.granted(op_id).await;
}

#[tokio::test]
async fn our_writer_goes_on_as_a_reader() {
    let world = World::start(Version::Current).await;
    let redisson = world.redisson().await;
    let (java, other) = (redisson.thread("a"), redisson.thread("b"));
    let mut ours = world.ours(Kind::Write, NAME).await;
    ours.acquire().await;
    ours.kind = Kind::Read;
    ours.acquire().await;
    let waiting = timed_lock(&world, &java, Kind::Read, NAME).await;
    ours.kind = Kind::Write;
    let released = Instant::now();
    ours.release().await;
    let (locked, _) = waiting.await.unwrap();
    measured("our downgrade to Java's read", locked - released);
    assert!(locked - released < PROMPT, "{:?}", locked - released);
    assert!(!other.try_lock(Kind::Write, NAME, secs(0)).yes().await);
    java.unlock(Kind::Read, NAME).value().await;
    assert!(!other.try_lock(Kind::Write, NAME, secs(0)).yes().await);
    ours.kind = Kind::Read;
    ours.release().await;
    assert!(other.try_lock(Kind::Write, NAME, secs(0)).yes().await);
}

#[tokio::test]
async fn a_name_is_of_one_kind_at_a_time() {
    let world = World::start(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    java.lock(Kind::Plain, NAME).value().await;
    for kind in [Kind::Read, Kind::Write] {
        let mut ours = world.ours(kind, NAME).await;
        let op_id = ours.send_acquire();
        assert_eq!(ours.session.expect_failed(op_id).await, "WRONG_KIND");
    }
    java.unlock(Kind::Plain, NAME).value().await;
    java.lock(Kind::Read, NAME).value().await;
    for kind in [Kind::Plain, Kind::Fair] {
        let mut ours = world.ours(kind, NAME).await;
        let op_id = ours.send_acquire();
        assert_eq!(ours.session.expect_failed(op_id).await, "WRONG_KIND");
    }
    java.unlock(Kind::Read, NAME).value().await;
    assert!(
        world
            .ours(Kind::Fair, NAME)
            .await
            .try_acquire()
            .await
            .acquired
    );
}

#[tokio::test]
async fn javas_read_watchdog_leaves_our_longer_read_alone() {
    let world = World::start(Version::Current).await;
    let redisson = Redisson::with_watchdog(Version::Current, &world.redis, millis(1500)).await;
    let (java, writer) = (redisson.thread("a"), redisson.thread("b"));
    let mut ours = world.ours(Kind::Read, NAME).await;
    let mut waiting = world.ours(Kind::Write, NAME).await;
    ours.acquire_for(secs(6)).await;
    let begun = Instant::now();
    java.lock(Kind::Read, NAME).value().await;
    // Java's watchdog renews, and lowers what is left of the whole lock.
    tokio::time::sleep(millis(2000)).await;
    java.unlock(Kind::Read, NAME).value().await;
    assert!(!writer.try_lock(Kind::Write, NAME, millis(2000)).yes().await);
    assert!(!waiting.try_acquire().await.acquired);
    waiting.acquire().await;
    let held = begun.elapsed();
    assert!(held > millis(5900) && held < secs(9), "{held:?}");
}

#[tokio::test]
async fn a_killed_jvm_that_read_does_not_end_our_read() {
    let world = World::start(Version::Current).await;
    let jvm = Agent::start(Version::Current);
    let redisson = Redisson::connect_by(jvm.clone(), &world.redis, millis(0)).await;
    let mut ours = world.ours(Kind::Read, NAME).await;
    let mut writer = world.ours(Kind::Write, NAME).await;
    ours.acquire().await;
    redisson.thread("a").lock(Kind::Read, NAME).value().await;
    jvm.kill();
    let killed = Instant::now();
    ours.release().await;
    let op_id = writer.wait().await;
    writer.granted(op_id).await;
    // Its read lasts as long as its lease, and no longer.
    measured("after a JVM that read was killed", killed.elapsed());
    assert!(killed.elapsed() > secs(20) && killed.elapsed() < secs(33));
}

#[tokio::test]
async fn a_read_of_ours_is_longer_than_what_javas_watchdog_leaves_of_the_lock() {
    let world = World::start(Version::Current).await;
    let jvm = Agent::start(Version::Current);
    let redisson = Redisson::connect_by(jvm.clone(), &world.redis, millis(0)).await;
    let mut watched = world
        .ours_at(0, Kind::Read, "watched", Some(secs(120)))
        .await;
    let mut unwatched = world.ours(Kind::Read, "unwatched").await;
    assert!(watched.acquire().await.watched);
    assert!(!unwatched.acquire_for(secs(120)).await.watched);
    for name in ["watched", "unwatched"] {
        redisson.thread("a").lock(Kind::Read, name).value().await;
    }
    for name in ["watched", "unwatched"] {
        eventually("Java's watchdog cuts it to its own time-out", || async {
            world.redis.lease_left(name).await.unwrap() <= secs(30)
        })
        .await;
    }
    jvm.kill();
    // Nobody would renew it any more, and a writer of Java's would take it for free half a minute
    // later.
    for name in ["watched", "unwatched"] {
        eventually("it lives as long as our read again", || async {
            world.redis.lease_left(name).await.unwrap() > secs(60)
        })
        .await;
    }
}

#[tokio::test]
async fn readers_and_writers_of_both_sides_contend() {
    const SIDE: usize = 8;
    const ROUNDS: usize = 100;
    let world = World::with(Version::Current, 2, |settings| settings).await;
    let clients = [world.redisson().await, world.redisson().await];
    let begun = Instant::now();
    let text = ROUNDS.to_string();
    let mut java = Vec::new();
    let mut sessions = Vec::new();
    for number in 0..SIDE {
        let is_writer = number < SIDE / 2;
        let verb = if is_writer { "write-pair" } else { "read-pair" };
        let thread = clients[number % 2].thread(&number.to_string());
        java.push(thread.tell(&[verb, NAME, &text, "left", "right"]));
        let kind = if is_writer { Kind::Write } else { Kind::Read };
        let ours = world.ours_at(number % 2, kind, NAME, None).await;
        let witness = Witness::at(&world.redis).await;
        sessions.push(spawn_detached("contender", contend(ours, witness, ROUNDS)));
    }
    for session in sessions {
        session.await.unwrap();
    }
    for told in java {
        told.value().await;
    }
    measured("readers and writers, 1600 rounds", begun.elapsed());
    let expected = u64::try_from(SIDE * ROUNDS).unwrap();
    assert_eq!(world.witness("left").await, expected);
    assert_eq!(world.witness("right").await, expected);
    assert_eq!(world.redis.lease_left(NAME).await, None);
}

/// Writers count two numbers up; readers never see them differ.
async fn contend(mut ours: Ours, mut witness: Witness, rounds: usize) {
    for _ in 0..rounds {
        ours.acquire().await;
        if ours.kind == Kind::Write {
            witness.count_up("left").await;
            witness.count_up("right").await;
        } else {
            let left = witness.count("left").await;
            assert_eq!(left, witness.count("right").await, "a writer was inside");
        }
        ours.release().await;
    }
}
