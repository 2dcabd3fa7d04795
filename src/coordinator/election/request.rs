//! Validated requests of candidates and leaders.

use std::{sync::Arc, time::Duration};

use crate::{
    lock::request::Acquire,
    types::{Invalid, LockName, Owner, SessionId, over},
    yields::RequestYield,
};

/// Maximum bytes of a value.
const VALUE_BYTES_MAX: usize = 1024;

/// What a leader says of itself, such as its address: one line of at most 1024 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionValue(Arc<str>);

/// A request to lead.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The election's lock, in fair mode, for an owner in a session. Its `wait` is not used.
    pub acquire: Acquire,
    /// None: unlimited.
    pub wait: Option<Duration>,
    /// The first value of the term.
    pub value: ElectionValue,
}

/// A new value of a leader.
#[derive(Clone, Debug)]
pub struct Proclaim {
    /// The election.
    pub name: LockName,
    /// The leader; in a session.
    pub owner: Owner,
    /// The fencing token of its grant.
    pub term: u64,
    /// The value.
    pub value: ElectionValue,
}

/// A leadership to hand over.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The candidate that leads next, by its owner label or by the digest of its owner or session;
    /// empty: the first in line.
    pub to: String,
    /// What the leader is asked.
    pub ask: RequestYield,
}

// === impl Transfer ===

impl Transfer {
    /// Whether a waiter is the candidate: by its label, or by what others may see of it.
    pub(crate) fn is_to(&self, waiter: &Owner) -> bool {
        let Some(session) = &waiter.session else {
            return false;
        };
        *waiter.label == *self.to
            || [waiter.digest(), SessionId::digest(session)].contains(&self.to)
    }
}

// === impl ElectionValue ===

impl ElectionValue {
    /// Validates a value.
    pub fn parse(value: &str) -> Result<Self, Invalid> {
        match over(value, VALUE_BYTES_MAX) {
            Some(why) => Err(Invalid::new("value", why)),
            None => Ok(Self(value.into())),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}
