//! Where scripts run. A host evaluates Lua scripts and delivers messages of channels; it speaks
//! keys, arguments, bytes and integers, and does not know what they mean.

mod call;
mod commands;
pub mod embedded;
mod merged_wakes;
mod metrics;
pub mod redis;
mod replicas;
mod scan;
mod wake;
mod words;

pub use call::{Call, Script, Value};
pub use commands::{Commands, Numbers};
pub use merged_wakes::Subscriptions;
pub use metrics::Metrics;
pub use replicas::{Acks, Replicas, Replication};
pub use scan::{ScanCursor, Scanned};
pub use wake::{Wake, WakeSender};
pub use words::{Word, Words};

pub use crate::words;

use std::{future::ready, sync::Arc};

use async_trait::async_trait;
use futures::future::BoxFuture;
use tokio::{sync::mpsc, time::Instant};

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

    /// Whether [`ScriptHost::run`] may be asked. A host may find out that it may not.
    fn runs_commands(&self) -> bool {
        false
    }

    /// Runs commands without a script, bounded in time from `begun` as [`ScriptHost::eval`] is.
    /// After [`HostError::Rejected`] none of them has changed anything.
    fn run<'a>(
        &'a self,
        _commands: &'a Commands<'a>,
        _begun: Instant,
    ) -> BoxFuture<'a, Result<Numbers, HostError>> {
        let refused = HostError::Rejected {
            code: "UNSUPPORTED".to_owned(),
            message: "this host runs scripts only".to_owned(),
        };
        Box::pin(ready(Err(refused)))
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

    /// The servers that share the keys of this host, as far as they are known; none if one server
    /// has all of them.
    fn servers(&self) -> Vec<Server> {
        Vec::new()
    }

    /// Whether some listeners hear only messages that belong to a part of the host, and others only
    /// those that do not, so that both are to be sent.
    fn has_partition_messages(&self) -> bool {
        false
    }

    /// Some of the keys that contain these bytes, from where an earlier call said to go on. A key
    /// that is there from the first call of a walk to the last is returned at least once, unless
    /// parts of the host move meanwhile. `work` bounds what one call looks at, as far as the host
    /// can.
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

    /// Resolves when the first attempt to connect has succeeded or failed. Until then calls wait
    /// for it, for as long as they may take.
    async fn first_attempt(&self) {}

    /// Identifies the server behind this client, if one is connected and may be asked. Another
    /// server may take its place.
    fn identity(&self) -> Option<Arc<str>> {
        None
    }
}

/// A part of a host: its keys are served together, by one clock, and may be out of reach when
/// others are not.
pub type Partition = u16;

/// A server that has a share of a host's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// For people.
    pub name: String,
    /// A key with this text in braces is one of its share.
    pub tag: String,
}

/// A host and the one stream of its wakes.
pub type Connected = (Arc<dyn ScriptHost>, mpsc::Receiver<Wake>);

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
