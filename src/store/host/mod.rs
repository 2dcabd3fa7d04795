//! Where scripts run. A host evaluates Lua scripts and delivers messages of channels; it speaks
//! keys, arguments, bytes and integers, and does not know what they mean.

pub mod embedded;
mod metrics;
pub mod redis;
mod scan;
mod several;

pub use metrics::Metrics;
pub use scan::{ScanCursor, Scanned};
pub use several::Subscriptions;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use sha1::{Digest as _, Sha1};
use tokio::sync::mpsc;

/// A place where scripts run, seen through one client of it. Dropping the last handle ends the
/// client's connections and tasks.
#[async_trait]
pub trait ScriptHost: Send + Sync + std::fmt::Debug {
    /// Runs a script atomically and answers what it returned. A script that raised an error, or
    /// that the host refused, is [`HostError::Rejected`]. The call is bounded in time by the host.
    async fn eval(&self, call: Call) -> Result<Value, HostError>;

    /// As [`ScriptHost::eval`], and then waits until replicas have what the script wrote, if its
    /// reply is one for which that is wanted. Too few of them is no error of this call: the script
    /// has run. A host without replicas never has any.
    async fn eval_replicated(
        &self,
        call: Call,
        replication: Replication,
    ) -> Result<(Value, Option<Acks>), HostError> {
        let value = self.eval(call).await?;
        let acks = (replication.wanted_if)(&value)
            .then(|| Acks::none(replication.replicas, "the store has no replicas"));
        Ok((value, acks))
    }

    /// Subscribes this client to a channel; success means that every message published from now on
    /// arrives as a [`Wake`], unless a [`Wake::Gap`] says otherwise. Subscribing twice is one
    /// subscription. After an error the channel stays wanted: the host goes on trying, and sends a
    /// gap when it succeeded.
    async fn subscribe(&self, channel: &str) -> Result<(), HostError>;

    /// Ends a subscription. Returns at once; messages that are under way may still arrive.
    fn unsubscribe(&self, channel: &str);

    /// Where a key is, on hosts that are in parts: all keys of one call must be in the same.
    fn partition(&self, _key: &[u8]) -> Partition {
        0
    }

    /// Whether some listeners hear only messages that belong to a part of the host, and others only
    /// those that do not, so that both are to be sent.
    fn has_partition_messages(&self) -> bool {
        false
    }

    /// Some of the keys that contain these bytes, from where an earlier call said to go on. A key
    /// that is there from the first call of a walk to the last is told at least once, unless parts
    /// of the host move meanwhile. `work` bounds what one call looks at, as far as the host can.
    async fn scan(
        &self,
        _from: ScanCursor,
        _containing: &[u8],
        _work: u32,
    ) -> Result<Scanned, HostError> {
        Err(HostError::Rejected {
            code: "UNSUPPORTED".to_owned(),
            message: "this host cannot list its keys".to_owned(),
        })
    }

    /// What tells the server behind this client from all others, if one is connected and may be
    /// asked. Another server may take its place.
    fn identity(&self) -> Option<Arc<str>> {
        None
    }
}

/// A part of a host: its keys are served together, by one clock, and may be out of reach when
/// others are not.
pub type Partition = u16;

/// What a host delivers besides answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A message came in on a subscribed channel.
    Message {
        /// The channel.
        channel: String,
        /// What was published.
        payload: Bytes,
    },
    /// Messages of any subscribed channel may have been missed until now (a reconnect, a full
    /// queue).
    Gap,
    /// Another server has taken over, so what was written last may not be there. Messages may have
    /// been missed too.
    TakenOver,
}

/// A host and the one stream of its wakes.
pub type Connected = (Arc<dyn ScriptHost>, mpsc::Receiver<Wake>);

/// One evaluation of a script.
#[derive(Clone, Debug)]
pub struct Call {
    /// What to run.
    pub script: &'static Script,
    /// `KEYS`; all of one call share a slot on hosts that have slots.
    pub keys: Vec<Bytes>,
    /// `ARGV`.
    pub args: Vec<Bytes>,
}

/// How many replicas must have a change before it counts. At least one is always asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Replicas {
    /// So many.
    pub at_least: u32,
    /// All that are connected, if those are more.
    pub all: bool,
}

/// What is to be waited for after a script.
#[derive(Clone, Copy, Debug)]
pub struct Replication {
    /// How many replicas.
    pub replicas: Replicas,
    /// Whether the script has done something that is worth waiting for.
    pub wanted_if: fn(&Value) -> bool,
}

/// How many replicas have said that they have a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acks {
    /// So many.
    pub acknowledged: u32,
    /// So many were needed.
    pub required: u32,
    /// Why it could not be found out, if so.
    pub problem: Option<Arc<str>>,
}

/// A Lua script with the name it has in logs and its SHA-1, by which Redis knows it.
#[derive(Debug)]
pub struct Script {
    /// For logs and errors.
    pub name: &'static str,
    helpers: &'static str,
    body: &'static str,
    source: OnceLock<String>,
    sha1: OnceLock<String>,
}

/// What a script returned, as Redis converts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `nil` or `false`.
    Nil,
    /// A number, truncated, or `true` as 1.
    Int(i64),
    /// A string, or a status such as `OK`.
    Bytes(Bytes),
    /// A table up to its first `nil`.
    Array(Vec<Value>),
}

/// Why there is no answer.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum HostError {
    /// The host cannot be used now. The script has not run.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// No answer came. The script may have run, may still run, or may never run.
    #[error("the store did not answer: {0}")]
    OutcomeUnknown(String),
    /// The host is out of memory. The script has not changed anything.
    #[error("the store is out of memory")]
    OutOfMemory,
    /// The script raised an error, or the host refused it. Nothing was changed by scripts that read
    /// before they write.
    #[error("the store refused: {code} {message}")]
    Rejected {
        /// The first word of the error reply, such as `WRONGTYPE`.
        code: String,
        /// The rest of it.
        message: String,
    },
}

/// The clients' end of a wake stream: bounded, and a queue that overflows turns into one gap.
#[derive(Clone, Debug)]
pub struct WakeSender {
    queue: mpsc::Sender<Wake>,
}

/// Wakes that may wait for the coordinator; more become one gap.
const WAKES_QUEUED_MAX: usize = 8192;

/// How long a full queue is waited for before the gap is tried again.
const GAP_RETRY: Duration = Duration::from_millis(10);

/// The line of a script above which nothing needs its helpers.
const HELPERS_HERE: &str = "-- The helpers come here.\n";

// === impl Script ===

impl Script {
    /// A script; `body` must not depend on anything but `KEYS`, `ARGV` and `redis`.
    pub const fn new(name: &'static str, body: &'static str) -> Self {
        Self::with_helpers(name, "", body)
    }

    /// A script and its helpers, which only make local functions and constants that are the same in
    /// every run. They come first, or where `body` says so: whoever makes them anew in each run
    /// need not if the run ends before.
    pub const fn with_helpers(
        name: &'static str,
        helpers: &'static str,
        body: &'static str,
    ) -> Self {
        Self {
            name,
            helpers,
            body,
            source: OnceLock::new(),
            sha1: OnceLock::new(),
        }
    }

    /// The helpers and the rest: what is needed once, and what each run does.
    pub fn parts(&self) -> (&'static str, &'static str) {
        (self.helpers, self.body)
    }

    /// The text as a whole.
    pub fn source(&self) -> &str {
        self.source.get_or_init(|| {
            let (before, after) = self
                .body
                .split_once(HELPERS_HERE)
                .unwrap_or(("", self.body));
            [before, self.helpers, after].concat()
        })
    }

    /// The SHA-1 of the source in lower-case hexadecimal digits.
    pub fn sha1(&self) -> &str {
        self.sha1
            .get_or_init(|| hex::encode(Sha1::digest(self.source())))
    }
}

// === impl Replicas ===

impl Replicas {
    /// What satisfies both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            at_least: self.at_least.max(other.at_least),
            all: self.all || other.all,
        }
    }

    /// How many that is if so many are connected.
    pub fn required(self, connected: u32) -> u32 {
        let all = if self.all { connected } else { 0 };
        self.at_least.max(all).max(1)
    }
}

// === impl Acks ===

impl Acks {
    /// Nobody has acknowledged anything, and why.
    pub fn none(replicas: Replicas, problem: impl Into<Arc<str>>) -> Self {
        Self {
            acknowledged: 0,
            required: replicas.required(0),
            problem: Some(problem.into()),
        }
    }

    /// Whether they are enough.
    pub fn are_enough(&self) -> bool {
        self.acknowledged >= self.required
    }
}

// === impl WakeSender ===

impl WakeSender {
    /// A wake stream.
    pub fn channel() -> (Self, mpsc::Receiver<Wake>) {
        let (queue, wakes) = mpsc::channel(WAKES_QUEUED_MAX);
        (Self { queue }, wakes)
    }

    /// Hands a wake over without waiting. If the queue is full the wake is lost and a gap takes its
    /// place as soon as there is room.
    pub fn send(&self, wake: Wake) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.queue.try_send(wake) {
            let queue = self.queue.clone();
            lockkeeper_base::tasks::spawn_detached("wake-gap", async move {
                while let Err(mpsc::error::TrySendError::Full(_)) = queue.try_send(Wake::Gap) {
                    tokio::time::sleep(GAP_RETRY).await;
                }
            });
        }
    }

    /// Whether nobody listens any more.
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }
}
