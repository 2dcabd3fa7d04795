//! One function per script: typed arguments, typed replies. The numbers that scripts return have
//! their meaning here and nowhere else.

mod force;
mod inspect;
mod latch;
mod lock;
mod multi;
mod names;
mod partitions;
mod permits;
mod renew;
mod vote;

pub use force::{Forced, ForcedRecord};
pub use inspect::{Holder, Inspected};
pub use latch::{CountSet, CountedDown, LatchInspected};
pub use lock::{Acquired, Attempt, Refusal, Released, Vouched};
pub use multi::{AcquiredAll, AttemptAll, Member, Members, ReleasedMember, Taken};
pub use names::NameKind;
pub use partitions::{Batch, StoreClock};
pub use permits::{
    PermitAttempt, PermitHolder, PermitId, PermitRenewal, PermitRenewals, PermitsAcquired,
    PermitsReleased, PermitsSet, SemaphoreInspected,
};
pub use renew::{Renewal, Renewals, Renewed};

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use lockkeeper_base::spans;
use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use super::{
    CallError, Config, Tally, keys,
    metrics::{Failure, Metrics, StoreMetrics},
};
use crate::host::{Call, HostError, Partition, Replicas, Replication, Script, ScriptHost, Value};

/// Wakes one waiter in every process that listens. Redisson reads messages as numbers.
const WAKE_ONE: &str = "0";
/// Wakes all waiters: a writer has gone, and any number of readers may come.
const WAKE_ALL: &str = "1";
/// Wakes nobody: a vote was taken back that had not decided anything. No other message says this.
const WAKE_NOBODY: &str = "-1";
const PUBLISH: &str = "PUBLISH";
/// Both kinds of messages that a cluster knows; see `lua/lib/publish.lua`.
const PUBLISH_BOTH: &str = "SPUBLISH";

const NOT_DONE: i64 = 0;
const DONE: i64 = 1;
const REQUEST_OVER: i64 = 2;
const REQUEST_ID_REUSED: i64 = 3;
const WRONG_KIND: i64 = 4;
const REPEATED: i64 = 5;
const SELF_DEADLOCK: i64 = 6;
const NO_SEMAPHORE: i64 = 7;
const TOO_MANY_PERMITS: i64 = 8;

/// The scripts on one host.
#[derive(Clone, Debug)]
pub struct HostScripts {
    host: Arc<dyn ScriptHost>,
    config: Config,
    /// Counts the replicas that acknowledge what is done, if that is wanted.
    tally: Tally,
    metrics: StoreMetrics,
}

/// How a lock is held. Exclusive and fair locks are one hash, which Redisson calls `RLock` and
/// `RFairLock`; the other two are sides of an `RReadWriteLock`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// One owner at a time, in no defined order.
    #[default]
    Exclusive,
    /// One owner at a time, in the order of asking.
    Fair,
    /// Together with other readers.
    Read,
    /// Alone, but for the same owner's reads.
    Write,
}

impl Mode {
    /// As it is written for people and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Fair => "fair",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// One owner's hold on one lock.
#[derive(Clone, Copy, Debug)]
pub struct Hold<'a> {
    /// The lock.
    pub name: &'a str,
    /// How it is held.
    pub mode: Mode,
    /// The owner, as a field of the lock's hash; for a write hold without Redisson's suffix.
    pub owner: &'a str,
}

/// What the store knows of a lock that the caller does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Another owner holds it.
    HeldByAnother,
    /// Nobody holds it, but it has been granted before: the lease ran out, or it was given back.
    Expired,
    /// No grant of the name is known.
    NeverHeld,
    /// The caller holds the other side of the read/write lock.
    HeldInAnotherMode,
}

/// Whether a message is a reason to look again.
pub fn wakes(message: &[u8]) -> bool {
    message != WAKE_NOBODY.as_bytes()
}

// === impl HostScripts ===

impl HostScripts {
    /// The scripts on a host.
    pub fn new(host: Arc<dyn ScriptHost>, config: Config) -> Self {
        Self::counted(host, config, Metrics::new(1).of_store(0))
    }

    /// The scripts on a host whose calls are counted.
    pub(super) fn counted(
        host: Arc<dyn ScriptHost>,
        config: Config,
        metrics: StoreMetrics,
    ) -> Self {
        Self {
            host,
            config,
            tally: Tally::default(),
            metrics,
        }
    }

    /// The same scripts, each of which waits for so many replicas after it has changed something,
    /// and what those have acknowledged.
    #[must_use]
    pub fn replicated(&self, replicas: Option<Replicas>) -> (Self, Tally) {
        let tally = Tally::of(replicas);
        let scripts = Self {
            host: Arc::clone(&self.host),
            config: self.config.clone(),
            tally: tally.clone(),
            metrics: self.metrics.clone(),
        };
        (scripts, tally)
    }

    /// How long the scripts keep things.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether the keys of these names cannot all be used in one call.
    pub fn are_apart<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> bool {
        let mut partitions = names.into_iter().map(|name| self.partition(name));
        let first = partitions.next();
        partitions.any(|partition| Some(partition) != first)
    }

    /// The part of the store that the keys of a name are in.
    pub fn partition(&self, name: &str) -> Partition {
        self.host.partition(&keys::lock(name))
    }

    /// The command that scripts publish by.
    fn publish(&self) -> Bytes {
        let command = if self.host.has_partition_messages() {
            PUBLISH_BOTH
        } else {
            PUBLISH
        };
        Bytes::from_static(command.as_bytes())
    }

    /// Asks the store for nothing; success means that it answers.
    pub async fn probe(&self) -> Result<(), CallError> {
        self.renew(&[]).await.complete().map(drop)
    }

    /// Runs a script, and waits for replicas if that is wanted.
    async fn call(&self, call: Call) -> Result<Value, CallError> {
        let Some(replicas) = self.tally.wanted() else {
            return self.ask(call).await;
        };
        let (script, begun) = (call.script, Instant::now());
        let replication = Replication {
            replicas,
            wanted_if: has_changed,
        };
        // Boxed, as it is rare: every call would carry its state otherwise.
        let asked = self.host.eval_replicated(call, replication);
        let answer = Box::pin(asked.instrument(span_of(script))).await;
        self.metrics.called(script, begun, &answer);
        let (reply, acks) = answer?;
        if acks.as_ref().is_some_and(|acks| !acks.are_enough()) {
            self.metrics.failed(Failure::NotReplicated);
        }
        self.tally.count(acks);
        Ok(reply)
    }

    /// Runs a script, whatever replicas there are.
    async fn ask(&self, call: Call) -> Result<Value, CallError> {
        let (script, begun) = (call.script, Instant::now());
        let answer = self.host.eval(call).instrument(span_of(script)).await;
        self.metrics.called(script, begun, &answer);
        Ok(answer?)
    }

    /// Runs a script that returns numbers only.
    async fn eval(
        &self,
        script: &'static Script,
        keys: Vec<Bytes>,
        args: Vec<Bytes>,
    ) -> Result<Vec<i64>, CallError> {
        let reply = self.call(Call { script, keys, args }).await?;
        let Value::Array(values) = &reply else {
            return Err(malformed(script, &reply));
        };
        let numbers = values.iter().map(|value| match value {
            Value::Int(number) => Some(*number),
            Value::Nil | Value::Bytes(_) | Value::Array(_) => None,
        });
        numbers
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| malformed(script, &reply))
    }
}

// === impl Hold ===

impl<'a> Hold<'a> {
    /// A hold.
    pub fn new(name: &'a str, mode: Mode, owner: &'a str) -> Self {
        Self { name, mode, owner }
    }

    /// The field of the lock's hash.
    fn field(&self) -> Bytes {
        match self.mode {
            Mode::Write => keys::write_field(self.owner),
            Mode::Exclusive | Mode::Fair | Mode::Read => text(self.owner),
        }
    }
}

/// The span of a script's call, if it belongs to a trace.
fn span_of(script: &'static Script) -> Span {
    if !spans::is_traced() {
        return Span::none();
    }
    tracing::trace_span!(
        target: spans::TARGET,
        "script",
        otel.name = script.name,
        otel.kind = "client",
        db.system.name = "redis",
        db.operation.name = "EVALSHA",
        db.stored_procedure.name = script.name,
    )
}

/// Whether a script that changes locks may have changed one: it did not refuse. Renewals begin with
/// the store's clock.
fn has_changed(reply: &Value) -> bool {
    let Value::Array(values) = reply else {
        return false;
    };
    match values.first() {
        Some(Value::Int(first)) => matches!(*first, DONE | REPEATED) || *first > TOO_MANY_PERMITS,
        _ => false,
    }
}

/// The error of a reply that is no outcome.
fn refusal(script: &Script, reply: &[i64]) -> CallError {
    match reply {
        [REQUEST_OVER] => CallError::RequestOver,
        [REQUEST_ID_REUSED] => CallError::RequestIdReused,
        [WRONG_KIND] => CallError::WrongKind,
        [SELF_DEADLOCK] => CallError::SelfDeadlock,
        _ => malformed(script, &reply),
    }
}

fn malformed(script: &Script, reply: &impl std::fmt::Debug) -> CallError {
    CallError::from(HostError::Rejected {
        code: "MALFORMED".to_owned(),
        message: format!("reply of {}: {reply:?}", script.name),
    })
}

fn text(value: &str) -> Bytes {
    Bytes::copy_from_slice(value.as_bytes())
}

fn number(value: impl Into<u64>) -> Bytes {
    text(itoa::Buffer::new().format(value.into()))
}

/// Milliseconds, rounded down, as Redis counts leases.
fn millis(value: Duration) -> Bytes {
    text(itoa::Buffer::new().format(value.as_millis()))
}

fn duration(millis: i64) -> Duration {
    Duration::from_millis(unsigned(millis))
}

fn time_to_live(pttl: i64) -> Option<Duration> {
    u64::try_from(pttl).ok().map(Duration::from_millis)
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// A hold count; Redisson owners may have inflated ones, so a huge number is shown as the largest.
fn count(value: i64) -> u32 {
    u32::try_from(value.max(0)).unwrap_or(u32::MAX)
}
