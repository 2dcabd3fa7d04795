//! `RedissonMultiLockTest` and `RedissonFasterMultiLockTest`: several locks at once, each of which
//! stays a lock of its own.

use lockkeeper_api::pb::{LockMode::Exclusive, acquire_all_response::Event};

use super::parties::{Lock, Program};
use crate::support::prelude::*;
use crate::support::several::spec_in;

const NAMES: [&str; 3] = ["lock-1", "lock-2", "lock-3"];

/// The three locks in the hands of one thread.
struct MultiLock<'a> {
    program: &'a Program,
    members: [Lock; 3],
}

// === impl MultiLock ===

impl<'a> MultiLock<'a> {
    fn of(program: &'a Program, thread: &str) -> Self {
        Self {
            program,
            members: NAMES.map(|name| program.lock(name, Exclusive, thread)),
        }
    }

    fn specs(&self) -> Vec<pb::LockSpec> {
        let members = self.members.iter();
        members.map(|it| spec_in(&it.name, it.mode)).collect()
    }

    /// Whether all are held now; `wait` none: without limit, `lease` none: watched.
    async fn acquire(&self, wait: Option<Duration>, lease: Option<Duration>) -> bool {
        let request = pb::AcquireAllRequest {
            locks: self.specs(),
            session_id: self.program.session.id(),
            owner: self.members[0].owner.clone(),
            lease: lease.map(proto),
            wait_timeout: wait.map(proto),
            ..Default::default()
        };
        let mut api = self.program.client.api.clone();
        let mut events = api.acquire_all(request).await.unwrap().into_inner();
        loop {
            match events.message().await.unwrap().and_then(|it| it.event) {
                Some(Event::Waiting(_)) => {}
                Some(Event::Granted(all)) => return all.grants.len() == 3,
                Some(Event::NotGranted(_)) => return false,
                None => panic!("the stream ended without an answer"),
            }
        }
    }

    async fn try_lock(&self) -> bool {
        self.acquire(Some(Duration::ZERO), None).await
    }

    async fn unlock(&self) {
        let request = pb::ReleaseAllRequest::default()
            .of_locks(self.specs())
            .of_session(self.program.session.id())
            .by(self.members[0].owner.clone());
        let mut api = self.program.client.api.clone();
        let released = api.release_all(request).await.unwrap().into_inner();
        assert!(released.locks.iter().all(|lock| lock.held), "{released:?}");
    }

    async fn hold_counts(&self) -> Vec<u32> {
        join_all(self.members.iter().map(Lock::hold_count)).await
    }
}

#[tokio::test(start_paused = true)]
async fn lock_unlock() {
    let (_world, program) = Program::alone().await;
    let lock = MultiLock::of(&program, "1");
    assert!(lock.acquire(None, Some(secs(10))).await);
    assert_eq!(lock.hold_counts().await, [1, 1, 1]);
    lock.unlock().await;
    assert_eq!(lock.hold_counts().await, [0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn wait_and_lease_timeouts() {
    let (_world, program) = Program::alone().await;
    let threads = (0..10).map(|thread: u32| {
        let program = &program;
        async move {
            let lock = MultiLock::of(program, &thread.to_string());
            lock.acquire(Some(Duration::ZERO), Some(secs(10))).await
        }
    });
    let won = join_all(threads).await;
    assert_eq!(won.iter().filter(|won| **won).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn multi_threads() {
    let (_world, program) = Program::alone().await;
    let (one, two) = (MultiLock::of(&program, "1"), MultiLock::of(&program, "2"));
    assert!(one.acquire(None, None).await);
    let waiting = async {
        assert!(two.acquire(None, None).await);
        Instant::now()
    };
    let releasing = async {
        tokio::time::sleep(secs(5)).await;
        one.unlock().await;
        Instant::now()
    };
    let (granted, released) = tokio::join!(waiting, releasing);
    assert!(granted - released < millis(50), "{:?}", granted - released);
    two.unlock().await;
}

/// `RedissonMultiLockTest.test`, on one store.
#[tokio::test(start_paused = true)]
async fn not_the_owner() {
    let (_world, program) = Program::alone().await;
    let (one, two) = (MultiLock::of(&program, "1"), MultiLock::of(&program, "2"));
    assert!(one.acquire(None, None).await);
    for _ in 0..2 {
        assert!(!two.try_lock().await);
        assert_eq!(two.hold_counts().await, [0, 0, 0]);
    }
    one.unlock().await;
    assert!(two.try_lock().await);
}

#[tokio::test(start_paused = true)]
async fn reentrant_lock() {
    let (_world, program) = Program::alone().await;
    let lock = MultiLock::of(&program, "1");
    assert!(lock.acquire(None, None).await && lock.try_lock().await);
    assert_eq!(lock.hold_counts().await, [2, 2, 2]);
    lock.unlock().await;
    assert_eq!(lock.hold_counts().await, [1, 1, 1]);
    // One of them may be given back by itself.
    assert_eq!(lock.members[1].unlock().await, 0);
    assert_eq!(lock.hold_counts().await, [1, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn renew_expiration() {
    let (_world, program) = Program::alone().await;
    let lock = MultiLock::of(&program, "1");
    assert!(lock.acquire(None, None).await);
    for _ in 0..10 {
        tokio::time::sleep(secs(17)).await;
        for member in &lock.members {
            let remaining = member.remaining().await.unwrap();
            assert!(remaining > secs(19), "{remaining:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn try_lock_wait() {
    let (_world, program) = Program::alone().await;
    let (one, two) = (MultiLock::of(&program, "1"), MultiLock::of(&program, "2"));
    assert!(one.acquire(None, Some(secs(2))).await);
    assert!(!two.acquire(Some(secs(1)), None).await);
    let begun = Instant::now();
    assert!(two.acquire(Some(secs(3)), None).await);
    assert!(begun.elapsed() < millis(1100), "{:?}", begun.elapsed());
    assert!(!one.try_lock().await);
}

/// What is lost is told of each lock by itself, and what is not lost stays.
#[tokio::test(start_paused = true)]
async fn force_unlock() {
    let (world, mut program) = Program::alone().await;
    assert!(MultiLock::of(&program, "1").acquire(None, None).await);
    world.redis(&["DEL", NAMES[1]]);
    let lost = program.session.expect_lost().await;
    assert_eq!(lost.grant.unwrap().name, NAMES[1]);
    let lock = MultiLock::of(&program, "1");
    assert_eq!(lock.hold_counts().await, [1, 0, 1]);
    let specs = lock.specs();
    let op_id = program.session.send(Request::ReleaseAll(
        pb::ReleaseAllRequest::default().of_locks(specs).by("1"),
    ));
    let released = expect!(program.session.end(op_id).await, Response::ReleasedAll);
    let held: Vec<bool> = released.locks.iter().map(|lock| lock.held).collect();
    assert_eq!(held, [true, false, true]);
}
