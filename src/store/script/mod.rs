//! The typed face of `lua/`: names become keys, numbers become outcomes.

mod calls;
pub mod catalog;
mod error;
pub mod keys;
mod metrics;
#[cfg(feature = "modelling")]
#[doc(hidden)]
pub mod modelling;
mod quorum;
mod replicas;
mod store;
mod walk;

pub use calls::{
    Acquired, Asked, Attempt, Batch, Forced, ForcedRecord, HandOver, Hold, Holder, Inspected, Mode,
    Moved, NameKind, Note, OtherCoordinators, Ownership, Refusal, Released, Renewal, Renewals,
    Renewed, SharedWaits, StoreClock, ToHolders, wakes,
};
pub use error::{CallError, StoreLimit, Unsupported};
pub use quorum::QuorumMember;
pub use replicas::ReplicationStatus;
pub use store::{
    AcquiredAll, AttemptAll, CountSet, CountedDown, ElectionInspected, LatchInspected, Member,
    MemberGrant, Members, PermitAttempt, PermitHolder, PermitId, PermitRenewal, PermitRenewals,
    PermitsAcquired, PermitsReleased, PermitsSet, Proclaimed, QueuePositions, Recorded,
    ReleasedMember, Scripts, SemaphoreInspected,
};
pub use walk::WalkCursor;

use std::time::Duration;

/// How long the scripts keep what outlives a grant, and what they refuse.
#[derive(Clone, Debug)]
pub struct Config {
    /// How long the fencing counter of an idle name is kept; zero: forever.
    pub idle_token_retention: Duration,
    /// How long a repeat of a request id gets the first answer.
    pub request_retention: Duration,
    /// How long a waiter of a fair lock keeps its place when its coordinator says nothing any more.
    pub fair_waiter_timeout: Duration,
    /// How long a writer that waits holds new readers back; then they are let in for as long.
    pub writer_hold_back: Duration,
    /// Maximum owners that hold one lock at the same time. Only readers can be more than one.
    pub holders_per_lock_max: u32,
    /// Maximum permits of one semaphore that are taken at the same time.
    pub permits_per_name_max: u32,
    /// Whether numbers without a record of their kind are semaphores and latches. Redisson's
    /// clients write no such record, and neither do other programs that keep a number.
    pub adopts_counters: bool,
    /// Whether an exclusive lock is taken and given back by commands of the store where that is
    /// possible. The owner's field then names the grant.
    pub native_commands: bool,
}

// === impl Config ===

impl Config {
    /// How long the record with this id of an attempt is kept. One that only an undo will look for
    /// is needed for as long as the lease.
    pub(crate) fn record_retention(&self, id: &str, attempt: &str, lease: Duration) -> Duration {
        if id == attempt {
            lease
        } else {
            self.request_retention
        }
    }
}
