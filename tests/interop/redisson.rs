//! Redisson clients in the JVM, and their threads, which are what owns a lock.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lockkeeper_api::pb::LockMode;

use crate::{
    agent::{Agent, Told, Version},
    redis_server::RedisServer,
};

/// A kind of lock, as Redisson and as we call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Fenced,
    Fair,
    Read,
    Write,
}

/// A connected Redisson client. It is shut down when it is dropped.
pub(crate) struct Redisson {
    agent: Arc<Agent>,
    name: String,
}

/// A thread of a client. Commands are told at once and done in their order.
#[derive(Clone)]
pub(crate) struct JavaThread {
    agent: Arc<Agent>,
    client: String,
    name: String,
}

// === impl Kind ===

impl Kind {
    pub(crate) fn in_java(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Fenced => "fenced",
            Self::Fair => "fair",
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    pub(crate) fn mode(self) -> LockMode {
        match self {
            Self::Plain | Self::Fenced => LockMode::Exclusive,
            Self::Fair => LockMode::Fair,
            Self::Read => LockMode::Read,
            Self::Write => LockMode::Write,
        }
    }

    /// What the channels begin with on which Redisson waits for a lock of this kind.
    pub(crate) fn channel(self, name: &str) -> String {
        let prefix = match self {
            Self::Plain | Self::Fenced | Self::Fair => "redisson_lock__channel",
            Self::Read | Self::Write => "redisson_rwlock",
        };
        if name.contains('{') {
            format!("{prefix}:{name}")
        } else {
            format!("{prefix}:{{{name}}}")
        }
    }
}

// === impl Redisson ===

impl Redisson {
    /// A client with Redisson's defaults.
    pub(crate) async fn connect(version: Version, server: &RedisServer) -> Self {
        Self::with_watchdog(version, server, Duration::ZERO).await
    }

    /// A client whose watchdog has a time-out of its own, unless it is zero.
    pub(crate) async fn with_watchdog(
        version: Version,
        server: &RedisServer,
        timeout: Duration,
    ) -> Self {
        Self::connect_by(version.agent().clone(), server, timeout).await
    }

    /// A client in a certain JVM.
    pub(crate) async fn connect_by(
        agent: Arc<Agent>,
        server: &RedisServer,
        watchdog: Duration,
    ) -> Self {
        Self::connect_to(agent, &["single", &server.url()], watchdog).await
    }

    /// A client of some deployment: its kind, and what the agent needs to know of that.
    pub(crate) async fn connect_to(
        agent: Arc<Agent>,
        deployment: &[&str],
        watchdog: Duration,
    ) -> Self {
        static CLIENTS: AtomicU64 = AtomicU64::new(1);
        let name = format!("client-{}", CLIENTS.fetch_add(1, Ordering::Relaxed));
        let watchdog = watchdog.as_millis().to_string();
        let words = [&["connect", &watchdog], deployment].concat();
        agent.tell(&name, "main", &words).value().await;
        Self { agent, name }
    }

    /// A thread of this name; it is made when it is first told something.
    pub(crate) fn thread(&self, name: &str) -> JavaThread {
        JavaThread {
            agent: self.agent.clone(),
            client: self.name.clone(),
            name: name.to_owned(),
        }
    }
}

impl Drop for Redisson {
    fn drop(&mut self) {
        // Nobody waits for it: the next test has another server.
        drop(self.agent.tell(&self.name, "main", &["shutdown"]));
    }
}

// === impl JavaThread ===

impl JavaThread {
    pub(crate) fn tell(&self, words: &[&str]) -> Told {
        self.agent.tell(&self.client, &self.name, words)
    }

    /// `lock()`, which leaves the lease to the watchdog; a fenced lock answers with its token.
    pub(crate) fn lock(&self, kind: Kind, name: &str) -> Told {
        self.tell(&["lock", kind.in_java(), name, "-1"])
    }

    /// `lock(lease)`.
    pub(crate) fn lock_for(&self, kind: Kind, name: &str, lease: Duration) -> Told {
        self.tell(&["lock", kind.in_java(), name, &millis_text(lease)])
    }

    /// `tryLock(wait)`.
    pub(crate) fn try_lock(&self, kind: Kind, name: &str, wait: Duration) -> Told {
        self.tell(&["try", kind.in_java(), name, &millis_text(wait), "-1"])
    }

    pub(crate) fn unlock(&self, kind: Kind, name: &str) -> Told {
        self.tell(&["unlock", kind.in_java(), name])
    }

    pub(crate) fn force_unlock(&self, kind: Kind, name: &str) -> Told {
        self.tell(&["force-unlock", kind.in_java(), name])
    }

    pub(crate) fn is_locked(&self, kind: Kind, name: &str) -> Told {
        self.tell(&["locked", kind.in_java(), name])
    }

    /// How many holds this thread has.
    pub(crate) fn holds(&self, kind: Kind, name: &str) -> Told {
        self.tell(&["holds", kind.in_java(), name])
    }
}

pub(crate) fn millis_text(duration: Duration) -> String {
    duration.as_millis().to_string()
}
