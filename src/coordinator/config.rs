//! The configuration of a coordinator.

use std::time::Duration;

use lockkeeper_store::{host::Replicas, script};

use crate::{
    session_secrets::SessionSecrets,
    types::{Limits, SessionId},
};

/// The configuration of a coordinator.
#[derive(Clone, Debug)]
pub struct Config {
    /// Bounds of everything that grows.
    pub limits: Limits,
    /// The lease of requests and sessions that name none.
    pub lease: Duration,
    /// How long the head of a line relies on messages before it polls.
    pub poll_interval: Duration,
    /// Polls move by up to this part of the interval, so that coordinators do not poll in step.
    pub poll_jitter: f64,
    /// The longest duration of one store call.
    pub call_timeout: Duration,
    /// Replicas that must acknowledge a change before it counts; none: they are not asked.
    pub replica_acks: Option<Replicas>,
    /// Beginnings of names by which some metrics are counted.
    pub metric_prefixes: Vec<String>,
    /// What the scripts keep, and for how long.
    pub scripts: script::Config,
    /// How long after its issue a resume token is accepted, and how long an ended session is
    /// remembered.
    pub resume_max: Duration,
    /// Sign resume tokens; coordinators that share them can resume each other's sessions.
    pub session_secrets: SessionSecrets,
    /// The present time in seconds since 1970. Nothing but the age of resume tokens depends on it.
    pub unix_seconds: fn() -> u64,
    /// Makes the id of a new session: random, unless a simulation has to be repeatable.
    pub session_id: fn() -> SessionId,
}
