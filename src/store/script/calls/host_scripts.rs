//! The scripts on one host: how each is called.

use std::sync::Arc;

use lockkeeper_base::spans;
use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use super::{
    encoding::{DONE, LIMIT_REACHED, REPEATED, integer, numbers},
    seen_counters::SeenCounters,
};
use crate::{
    host::{
        Call, Commands, HostError, Numbers, Partition, Replicas, Replication, Script, ScriptHost,
        Server, Value, Words,
    },
    script::{
        CallError, Config, ReplicationStatus,
        metrics::{Failure, StoreMetrics},
    },
};

const PUBLISH: &str = "PUBLISH";
/// Both kinds of messages that a cluster knows; see `lua/lib/publish.lua`.
const PUBLISH_BOTH: &str = "SPUBLISH";

/// The scripts on one host.
#[derive(Clone, Debug)]
pub(crate) struct HostScripts {
    pub(super) host: Arc<dyn ScriptHost>,
    pub(super) config: Config,
    /// Counts the replicas that acknowledge what is done, if that is wanted.
    tally: ReplicationStatus,
    metrics: StoreMetrics,
    pub(super) started: Instant,
    pub(super) counters: Arc<SeenCounters>,
}

// === impl HostScripts ===

impl HostScripts {
    pub(crate) fn new(host: Arc<dyn ScriptHost>, config: Config, metrics: StoreMetrics) -> Self {
        Self {
            host,
            config,
            tally: ReplicationStatus::default(),
            metrics,
            started: Instant::now(),
            counters: Arc::new(SeenCounters::new()),
        }
    }

    /// The same scripts, each of which waits for these replicas after a change, and what those have
    /// acknowledged.
    #[must_use]
    pub(crate) fn replicated(&self, replicas: Option<Replicas>) -> (Self, ReplicationStatus) {
        let tally = ReplicationStatus::of(replicas);
        let scripts = Self {
            tally: tally.clone(),
            ..self.clone()
        };
        (scripts, tally)
    }

    /// How long the scripts keep things.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Whether the keys of these names cannot all be used in one call.
    pub(crate) fn are_apart<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> bool {
        let mut partitions = names.into_iter().map(|name| self.partition(name));
        let first = partitions.next();
        partitions.any(|partition| Some(partition) != first)
    }

    /// The part of the store that the keys of a name are in.
    pub(crate) fn partition(&self, name: &str) -> Partition {
        // The key of a lock is its name.
        self.host.partition(name.as_bytes())
    }

    /// The servers that share the store's keys.
    pub(crate) fn servers(&self) -> Vec<Server> {
        self.host.servers()
    }

    /// Whether scripts publish messages of both kinds.
    pub(crate) fn publishes_both(&self) -> bool {
        self.host.has_partition_messages()
    }

    /// The command that scripts publish by.
    pub(crate) fn publish(&self) -> &'static str {
        if self.publishes_both() {
            PUBLISH_BOTH
        } else {
            PUBLISH
        }
    }

    /// Runs a script, and waits for replicas if that is wanted.
    pub(crate) async fn call(&self, call: Call) -> Result<Value, CallError> {
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
    pub(crate) async fn ask(&self, call: Call) -> Result<Value, CallError> {
        let (script, begun) = (call.script, Instant::now());
        let answer = self.host.eval(call).instrument(span_of(script)).await;
        self.metrics.called(script, begun, &answer);
        Ok(answer?)
    }

    /// Whether replicas are waited for after a change.
    pub(super) fn waits_for_replicas(&self) -> bool {
        self.tally.wanted().is_some()
    }

    /// Runs commands without a script, which are counted as `of`.
    pub(super) async fn run(
        &self,
        of: &'static Script,
        commands: &Commands<'_>,
    ) -> Result<Numbers, HostError> {
        let begun = Instant::now();
        let running = self.host.run(commands, begun).instrument(span_of(of));
        let answer = running.await;
        self.metrics.called(of, begun, &answer);
        answer
    }

    /// Runs a script that returns numbers only.
    pub(crate) async fn eval(
        &self,
        script: &'static Script,
        keys: Words,
        args: Words,
    ) -> Result<Vec<i64>, CallError> {
        let reply = self.call(Call { script, keys, args }).await?;
        numbers(script, &reply)
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

/// Whether a script that changes locks may have changed one: it did not refuse. A single number or
/// text is never a refusal. Renewals begin with the store's clock.
fn has_changed(reply: &Value) -> bool {
    match reply {
        Value::Array(values) => values
            .first()
            .and_then(integer)
            .is_some_and(|first| matches!(first, DONE | REPEATED) || first > LIMIT_REACHED),
        Value::Int(_) | Value::Bytes(_) => true,
        Value::Nil => false,
    }
}
