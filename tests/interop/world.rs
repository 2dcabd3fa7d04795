//! What the tests share: a redis-server, coordinators and Redisson clients on it, and the steps on
//! our side.

use std::time::Duration;

use deadpool_redis::redis::Value;
use lockkeeper_api::pb::{self, session_request::Request};
use lockkeeper_testkit::prelude::*;
use tokio::{task::JoinHandle, time::Instant};

use crate::{
    agent::Version,
    client::{Client, Session, acquire_request, proto, try_request},
    coordinator::{Coordinator, Settings},
    redis_server::{RedisServer, eventually},
    redisson::{JavaThread, Kind, Redisson},
};

pub(crate) use lockkeeper_testkit::time::{measured, millis, secs, timed};

/// What is woken by a message is so within this, on a busy machine. Leases and, where it is set so,
/// polls are far longer.
pub(crate) const PROMPT: Duration = secs(5);

/// A poll that no test waits for: what happens is due to messages.
pub(crate) const NO_POLL: &str = "60s";

/// A store, coordinators and Redisson clients.
pub(crate) struct World {
    pub(crate) version: Version,
    pub(crate) coordinators: Vec<Coordinator>,
    pub(crate) redis: RedisServer,
}

/// A session of ours that holds locks of one kind and name.
pub(crate) struct Ours {
    pub(crate) session: Session,
    pub(crate) kind: Kind,
    name: String,
}

// === impl World ===

impl World {
    /// One coordinator, with its defaults.
    pub(crate) async fn start(version: Version) -> Self {
        Self::with(version, 1, |settings| settings).await
    }

    /// One coordinator that relies on messages.
    pub(crate) async fn without_polls(version: Version) -> Self {
        Self::with(version, 1, |settings| {
            settings.with("store.poll_interval", NO_POLL)
        })
        .await
    }

    /// So many coordinators with settings of the test's own.
    pub(crate) async fn with(
        version: Version,
        count: usize,
        settings: impl Fn(Settings) -> Settings,
    ) -> Self {
        let redis = RedisServer::start().await;
        let adopting = Settings::on(&redis.url()).with("store.adopt_redisson_counters", "true");
        let settings = settings(adopting);
        let mut coordinators = Vec::new();
        for _ in 0..count {
            coordinators.push(Coordinator::start(&settings).await);
        }
        Self {
            version,
            coordinators,
            redis,
        }
    }

    /// A session at the first coordinator, for one lock.
    pub(crate) async fn ours(&self, kind: Kind, name: &str) -> Ours {
        self.ours_at(0, kind, name, None).await
    }

    /// A session at some coordinator, for one lock, with a lease of its own.
    pub(crate) async fn ours_at(
        &self,
        coordinator: usize,
        kind: Kind,
        name: &str,
        lease: Option<Duration>,
    ) -> Ours {
        let mut client = self.coordinators[coordinator].client().await;
        Ours::open(&mut client, kind, name, lease).await
    }

    /// A Redisson client with its defaults.
    pub(crate) async fn redisson(&self) -> Redisson {
        Redisson::connect(self.version, &self.redis).await
    }

    /// A Redisson client's thread waits for the lock, has tried again after its subscription stood,
    /// and relies on messages now.
    pub(crate) async fn until_java_waits(&self, kind: Kind, name: &str) {
        self.until_listening(&format!("{}*", kind.channel(name)), 1)
            .await;
    }

    /// So many channels of the pattern have listeners, who rely on messages now.
    pub(crate) async fn until_listening(&self, pattern: &str, channels: usize) {
        eventually("somebody listens", || async {
            let command = ["PUBSUB", "CHANNELS", pattern];
            let seen = self.redis.command(&command).await;
            matches!(seen, Value::Array(seen) if seen.len() == channels)
        })
        .await;
        // From here on there is nothing to see from outside; it takes a confirmation's and an
        // attempt's way.
        tokio::time::sleep(millis(300)).await;
    }

    /// The counter that contenders count up, in steps that are not atomic.
    pub(crate) async fn witness(&self, key: &str) -> u64 {
        self.redis.text(&["GET", key]).await.parse().unwrap()
    }
}

// === impl Ours ===

impl Ours {
    /// A session for one lock.
    pub(crate) async fn open(
        client: &mut Client,
        kind: Kind,
        name: &str,
        lease: Option<Duration>,
    ) -> Self {
        let open = pb::OpenSession {
            lease: lease.map(proto),
            ..Default::default()
        };
        Self {
            session: client.open_with(open).await.unwrap(),
            kind,
            name: name.to_owned(),
        }
    }

    /// Asks for the lock, watched.
    pub(crate) fn send_acquire(&mut self) -> u64 {
        self.send(None)
    }

    /// Asks for the lock; a lease that is named is not renewed.
    pub(crate) fn send(&mut self, lease: Option<Duration>) -> u64 {
        let request = pb::AcquireRequest {
            mode: self.kind.mode().into(),
            lease: lease.map(proto),
            ..acquire_request(&self.name, "")
        };
        self.session.send(Request::Acquire(request))
    }

    /// Asks for the lock and is told to wait.
    pub(crate) async fn wait(&mut self) -> u64 {
        let waiting = self.session.wait_in(&self.name, self.kind.mode());
        waiting.await.0
    }

    pub(crate) async fn granted(&mut self, op_id: u64) -> pb::Grant {
        self.session.expect_granted(op_id).await
    }

    pub(crate) async fn acquire(&mut self) -> pb::Grant {
        let op_id = self.send_acquire();
        self.granted(op_id).await
    }

    pub(crate) async fn acquire_for(&mut self, lease: Duration) -> pb::Grant {
        let op_id = self.send(Some(lease));
        self.granted(op_id).await
    }

    /// Whether it can be had now.
    pub(crate) async fn try_acquire(&mut self) -> pb::TryAcquireResponse {
        let request = try_request(&self.name, "").in_mode(self.kind.mode());
        self.session.try_acquire(request).await
    }

    /// Gives one hold back and returns how many are left.
    pub(crate) async fn release(&mut self) -> u32 {
        let released = self.session.release_in(&self.name, self.kind.mode());
        released.await.hold_count
    }

    /// Has nothing to give back, and is told so.
    pub(crate) async fn expect_nothing_to_release(&mut self) {
        let op_id = self.session.send_release_in(&self.name, self.kind.mode());
        assert_eq!(self.session.expect_failed(op_id).await, "NOT_OWNER");
    }
}

/// A thread's `lock()` that waits, with the instant of its end.
pub(crate) async fn timed_lock(
    world: &World,
    thread: &JavaThread,
    kind: Kind,
    name: &str,
) -> JoinHandle<(Instant, String)> {
    let told = thread.lock(kind, name);
    world.until_java_waits(kind, name).await;
    let waiting = timed(told.value());
    assert!(!waiting.is_finished());
    waiting
}
