//! Several locks at once, against `RMultiLock`, which takes them one after the other.

use std::time::Duration;

use lockkeeper_api::pb::{
    self, LockMode, LostReason, session_request::Request, session_response::Response,
};
use lockkeeper_base::tasks::spawn_detached;
use tokio::time::Instant;

use crate::{
    agent::{Told, Version},
    client::{Session, proto},
    contention::{SIDE, SIDES, WITNESS, Witness, expect_all_counted},
    redisson::{JavaThread, Kind, Redisson, millis_text},
    several::spec_in,
    world::{PROMPT, World, measured, millis, secs, timed},
};

/// A session of ours, and the locks that it takes.
struct Several {
    session: Session,
    names: Vec<String>,
}

const SHORT: Duration = millis(1500);

// === impl Several ===

impl Several {
    async fn of(world: &World, names: &[&str]) -> Self {
        Self::at(world, 0, names, None).await
    }

    async fn at(
        world: &World,
        coordinator: usize,
        names: &[&str],
        lease: Option<Duration>,
    ) -> Self {
        let ours = world.ours_at(coordinator, Kind::Plain, "", lease).await;
        Self {
            session: ours.session,
            names: names.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    fn specs(&self) -> Vec<pb::LockSpec> {
        let names = self.names.iter();
        names
            .map(|name| spec_in(name, LockMode::Exclusive))
            .collect()
    }

    fn send(&mut self, lease: Option<Duration>) -> u64 {
        let request = pb::AcquireAllRequest {
            locks: self.specs(),
            lease: lease.map(proto),
            ..Default::default()
        };
        self.session.send(Request::AcquireAll(request))
    }

    async fn wait(&mut self) -> u64 {
        let op_id = self.send(None);
        match self.session.answer(op_id).await {
            Response::WaitingForAll(waiting) => assert!(self.names.contains(&waiting.name)),
            other => panic!("expected waiting, got {other:?}"),
        }
        op_id
    }

    async fn granted(&mut self, op_id: u64) -> Vec<pb::Grant> {
        self.session.expect_all_granted(op_id).await
    }

    async fn acquire(&mut self) -> Vec<pb::Grant> {
        let op_id = self.send(None);
        self.granted(op_id).await
    }

    async fn try_acquire(&mut self) -> pb::TryAcquireAllResponse {
        let locks = self.specs();
        self.session.try_all(&locks).await
    }

    /// Gives all back and returns the names of those that it held.
    async fn release(&mut self) -> Vec<String> {
        let locks = self.specs();
        let released = self.session.release_all(&locks).await.locks.into_iter();
        let held = released.filter(|lock| lock.held);
        held.map(|lock| lock.name).collect()
    }
}

fn lock_all(thread: &JavaThread, names: &str, lease: Option<Duration>) -> Told {
    let lease = lease.map_or_else(|| "-1".to_owned(), millis_text);
    thread.tell(&["lock", "multi", names, &lease])
}

fn try_all(thread: &JavaThread, names: &str, wait: Duration) -> Told {
    thread.tell(&["try", "multi", names, &millis_text(wait), "-1"])
}

fn unlock_all(thread: &JavaThread, names: &str) -> Told {
    thread.tell(&["unlock", "multi", names])
}

#[tokio::test]
async fn java_holds_several_and_we_wait() {
    let world = World::without_polls(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    lock_all(&java, "a,b", None).value().await;
    let mut ours = Several::of(&world, &["b", "a"]).await;
    let refused = ours.try_acquire().await;
    assert!(!refused.acquired && refused.grants.is_empty());
    let op_id = ours.wait().await;
    unlock_all(&java, "a,b").value().await;
    let unlocked = Instant::now();
    let grants = ours.granted(op_id).await;
    assert!(unlocked.elapsed() < PROMPT, "{:?}", unlocked.elapsed());
    let names: Vec<_> = grants.iter().map(|grant| grant.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    for name in names {
        let tried = java.try_lock(Kind::Plain, name, secs(0));
        assert!(!tried.yes().await, "{name}");
    }
    assert_eq!(ours.release().await, ["a", "b"]);
    assert!(try_all(&java, "a,b", secs(0)).yes().await);
}

#[tokio::test]
async fn we_hold_several_and_java_waits() {
    let world = World::start(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut ours = Several::of(&world, &["a", "b"]).await;
    ours.acquire().await;
    assert!(!try_all(&java, "b,a", millis(300)).yes().await);
    let waiting = timed(lock_all(&java, "b,a", None).value());
    world.until_java_waits(Kind::Plain, "b").await;
    assert!(!waiting.is_finished());
    let released = Instant::now();
    assert_eq!(ours.release().await, ["a", "b"]);
    let (locked, _) = waiting.await.unwrap();
    assert!(locked - released < PROMPT, "{:?}", locked - released);
    assert!(!ours.try_acquire().await.acquired);
    unlock_all(&java, "b,a").value().await;
    assert!(ours.try_acquire().await.acquired);
}

#[tokio::test]
async fn while_we_wait_for_one_of_them_java_can_have_the_others() {
    let world = World::start(Version::Current).await;
    let redisson = world.redisson().await;
    let (java, other) = (redisson.thread("a"), redisson.thread("b"));
    java.lock(Kind::Plain, "b").value().await;
    let mut ours = Several::of(&world, &["a", "b"]).await;
    let op_id = ours.wait().await;
    assert!(other.try_lock(Kind::Plain, "a", secs(0)).yes().await);
    java.unlock(Kind::Plain, "b").value().await;
    assert!(
        !world
            .ours(Kind::Plain, "a")
            .await
            .try_acquire()
            .await
            .acquired
    );
    other.unlock(Kind::Plain, "a").value().await;
    assert_eq!(ours.granted(op_id).await.len(), 2);
}

#[tokio::test]
async fn either_side_takes_several_again() {
    let world = World::start(Version::Current).await;
    let redisson = world.redisson().await;
    let (java, other) = (redisson.thread("a"), redisson.thread("b"));
    let mut ours = Several::of(&world, &["a", "b"]).await;
    ours.acquire().await;
    assert!(
        ours.acquire()
            .await
            .iter()
            .all(|grant| grant.hold_count == 2)
    );
    ours.release().await;
    assert!(!try_all(&other, "a,b", secs(0)).yes().await);
    ours.release().await;
    lock_all(&java, "a,b", None).value().await;
    lock_all(&java, "b,a", None).value().await;
    unlock_all(&java, "a,b").value().await;
    assert!(!ours.try_acquire().await.acquired);
    unlock_all(&java, "a,b").value().await;
    assert!(ours.try_acquire().await.acquired);
}

#[tokio::test]
async fn leases_of_several_end_on_either_side() {
    let world = World::start(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut ours = Several::of(&world, &["a", "b"]).await;
    let begun = Instant::now();
    lock_all(&java, "a,b", Some(SHORT)).value().await;
    ours.acquire().await;
    let waited = begun.elapsed();
    assert!(waited + millis(5) > SHORT && waited < secs(5), "{waited:?}");
    let unlocked = unlock_all(&java, "a,b").exception().await;
    assert_eq!(unlocked, "IllegalMonitorStateException");
    assert_eq!(ours.release().await, ["a", "b"]);

    let begun = Instant::now();
    let op_id = ours.send(Some(SHORT));
    ours.granted(op_id).await;
    lock_all(&java, "a,b", None).value().await;
    let waited = begun.elapsed();
    assert!(waited + millis(5) > SHORT && waited < secs(6), "{waited:?}");
}

#[tokio::test]
async fn javas_watchdog_keeps_all_of_them() {
    let world = World::start(Version::Current).await;
    let redisson = Redisson::with_watchdog(Version::Current, &world.redis, SHORT).await;
    let java = redisson.thread("a");
    lock_all(&java, "a,b", None).value().await;
    let mut ours = Several::of(&world, &["b", "a"]).await;
    let op_id = ours.wait().await;
    let granted = timed(async move { ours.granted(op_id).await });
    // Time itself is what is tested: without a watchdog the leases would end.
    tokio::time::sleep(SHORT * 2).await;
    assert!(!granted.is_finished());
    unlock_all(&java, "a,b").value().await;
    assert_eq!(granted.await.unwrap().1.len(), 2);
}

#[tokio::test]
async fn our_watchdog_keeps_all_of_them_and_tells_of_the_one_that_was_forced() {
    let world = World::start(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut ours = Several::at(&world, 0, &["a", "b"], Some(SHORT)).await;
    ours.acquire().await;
    // Time itself is what is tested: without a watchdog the leases would end.
    assert!(!try_all(&java, "a,b", SHORT * 2).yes().await);
    assert!(java.force_unlock(Kind::Plain, "b").yes().await);
    let lost = ours.session.expect_lost().await;
    assert_eq!(lost.reason(), LostReason::Expired);
    assert_eq!(lost.grant.unwrap().name, "b");
    assert!(!java.try_lock(Kind::Plain, "a", millis(300)).yes().await);
    assert_eq!(ours.release().await, ["a"]);
}

/// Both sides take three locks at once, in opposite orders. (Redisson clients among themselves get
/// out of that by waiting for seconds.)
#[tokio::test]
async fn contenders_for_several_locks_exclude_each_other_and_all_come_to_an_end() {
    const ROUNDS: usize = 60;
    let world = World::with(Version::Current, 2, |settings| settings).await;
    let clients = [world.redisson().await, world.redisson().await];
    let begun = Instant::now();
    let text = ROUNDS.to_string();
    let (mut java, mut sessions) = (Vec::new(), Vec::new());
    for number in 0..SIDE {
        let thread = clients[number % 2].thread(&number.to_string());
        java.push(thread.tell(&["contend", "multi", "a,b,c", &text, WITNESS, SIDES]));
        let names = if number % 2 == 0 {
            ["c", "b", "a"]
        } else {
            ["b", "c", "a"]
        };
        let ours = Several::at(&world, number % 2, &names, None).await;
        let witness = Witness::at(&world.redis).await;
        sessions.push(spawn_detached("contender", contend(ours, witness, ROUNDS)));
    }
    for session in sessions {
        session.await.unwrap();
    }
    for told in java {
        told.value().await;
    }
    measured("three locks, 960 rounds", begun.elapsed());
    // A side that has them all keeps them for a while: the other one sees each of them free at
    // another moment.
    expect_all_counted(&world, ROUNDS, 4).await;
    for name in ["a", "b", "c"] {
        assert_eq!(world.redis.lease_left(name).await, None);
    }
}

async fn contend(mut ours: Several, mut witness: Witness, rounds: usize) {
    for _ in 0..rounds {
        ours.acquire().await;
        witness.take_part().await;
        ours.release().await;
    }
}
