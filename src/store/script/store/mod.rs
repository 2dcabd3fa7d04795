//! The coordinator's handle: one store, or a quorum of several.

mod election;
mod fleet;
mod holders;
mod latch;
mod locks;
mod members;
mod multi;
mod permit_inspect;
mod permit_outcomes;
mod permits;
mod scripts;
mod sessions;
mod turns;
mod waits;

pub use election::{ElectionInspected, Proclaimed, Recorded};
pub use latch::{CountSet, CountedDown, LatchInspected};
pub use locks::QueuePositions;
pub use members::{Member, Members};
pub use multi::{AcquiredAll, AttemptAll, MemberGrant, ReleasedMember};
pub use permit_outcomes::{
    PermitAttempt, PermitHolder, PermitId, PermitRenewal, PermitRenewals, PermitsAcquired,
    PermitsReleased, PermitsSet, SemaphoreInspected,
};
pub use scripts::Scripts;
