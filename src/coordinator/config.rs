//! What a coordinator is to do.

use std::time::Duration;

use lockkeeper_store::{host::Replicas, script};

use crate::types::Limits;

/// What a coordinator is to do.
#[derive(Clone, Debug)]
pub struct Config {
    /// Bounds of everything that grows.
    pub limits: Limits,
    /// The lease of requests and sessions that name none.
    pub lease: Duration,
    /// How long the head of a queue relies on messages before it looks for itself.
    pub poll_interval: Duration,
    /// Polls come up to this part of the interval earlier or later, so that coordinators do not
    /// poll in step.
    pub poll_jitter: f64,
    /// The longest that one call of the store can take.
    pub call_timeout: Duration,
    /// How many replicas must know of a change before it counts; none: it is not asked.
    pub replica_acks: Option<Replicas>,
    /// What the scripts keep, and for how long.
    pub scripts: script::Config,
    /// Signs resume tokens; coordinators that share it can resume each other's sessions.
    pub session_secret: Vec<u8>,
}
