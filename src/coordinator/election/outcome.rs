//! What becomes of elections.

use std::time::Duration;

use lockkeeper_store::script::Recorded;

use crate::{lock::delivery::Delivery, summary::Summary, types::Owner};

/// A leadership on its way to the candidate. It ends again if its delivery is dropped.
#[derive(Debug)]
pub struct Elected {
    /// The grant of the election's lock.
    pub delivery: Delivery,
    /// The number of the proclaimed value.
    pub revision: u64,
}

/// A term and a value that its leader proclaimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leadership {
    /// The fencing token of the leader's grant.
    pub term: u64,
    /// The value.
    pub value: String,
    /// Its number in the record of the election.
    pub revision: u64,
    /// The leader.
    pub owner: Owner,
    /// The client name of its session.
    pub client_name: String,
}

/// An election at the moment the store was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderSeen {
    /// The leader and its newest value.
    pub leader: Option<Leadership>,
    /// What is left of its lease; none if it has no time to live.
    pub remaining: Option<Duration>,
}

/// What an observer sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observed {
    /// A term or a new value.
    Leader(Leadership),
    /// Nobody leads.
    NoLeader,
    /// Terms or values before the next ones were missed.
    Missed,
}

// === impl Elected ===

impl Elected {
    pub(crate) fn summary(&self) -> Summary {
        self.delivery.summary()
    }
}

// === impl Leadership ===

impl From<Recorded> for Leadership {
    fn from(recorded: Recorded) -> Self {
        Self {
            term: recorded.term,
            value: recorded.value,
            revision: recorded.revision,
            owner: Owner::from_field(&recorded.owner),
            client_name: recorded.client_name,
        }
    }
}
