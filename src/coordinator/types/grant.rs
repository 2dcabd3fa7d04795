//! Holdings of an owner: a lock, or permits of a semaphore.

use std::{sync::Arc, time::Duration};

use lockkeeper_store::script::{Hold, Mode, Note, Ownership, PermitId};
use tokio::time::Instant;

use super::{HolderKnown, LockName, Owner};

/// One owner's hold on one lock.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The lock.
    pub name: LockName,
    /// The mode it is held in.
    pub mode: Mode,
    /// The holder.
    pub owner: Owner,
    /// The field of the lock's hash, if it names this grant and not only the owner.
    pub field: Option<Arc<str>>,
    /// Holds not yet given back.
    pub hold_count: u32,
    /// Grows with every new grant of the name; a reader has the last writer's.
    pub fencing_token: u64,
    /// Distinguishes this grant from every other of the owner on this lock.
    pub serial: u64,
    /// Time to live when the answer was made.
    pub lease: Duration,
    /// Until when no other owner can hold the lock.
    pub safe_until: Instant,
    /// Whether the watchdog renews it.
    pub watched: bool,
    /// Replicas that have acknowledged it; 0 if none were required.
    pub replica_acks: u32,
    /// Replicas that must acknowledge its renewals, whatever the configuration says.
    pub min_replica_acks: u32,
    /// What the owner says of it, as far as this coordinator knows.
    pub note: Option<Arc<Note>>,
}

/// Permits of one semaphore that one acquire took; held, renewed and lost together.
#[derive(Clone, Debug)]
pub struct PermitGrant {
    /// The semaphore.
    pub name: LockName,
    /// The holder.
    pub owner: Owner,
    /// The permits; there is at least one.
    pub ids: Arc<[PermitId]>,
    /// Distinguishes this set from what it was before some permits were given back.
    pub serial: u64,
    /// Time to live when the answer was made.
    pub lease: Duration,
    /// Until when no other owner can hold the permits.
    pub safe_until: Instant,
    /// Whether the watchdog renews them.
    pub watched: bool,
    /// See [`Grant::replica_acks`].
    pub replica_acks: u32,
    /// See [`Grant::min_replica_acks`].
    pub min_replica_acks: u32,
}

/// A holding of a session.
#[derive(Clone, Debug)]
pub(crate) enum Holding {
    Lock(Grant),
    Permits(PermitGrant),
}

/// The terms common to leases of all kinds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) lease: Duration,
    pub(crate) safe_until: Instant,
    pub(crate) watched: bool,
    pub(crate) min_replica_acks: u32,
}

/// Why a grant is no longer held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LostReason {
    /// Its lease ran out, or the store no longer knew of it.
    Expired,
    /// Another owner holds the lock.
    TakenOver,
    /// The store was unreachable until the safe window was over.
    StoreUnreachable,
    /// The store's clock stepped forward, which ended the lease before its time.
    ClockStepped,
    /// The holder offered it, and another session has claimed it.
    HandedOver,
    /// An operator, or a request to yield, took it away by force.
    ForceReleased {
        /// Why.
        reason: Arc<str>,
        /// The end of the grace period, in which nobody else is granted the lock.
        closed_until: Option<Instant>,
        /// Whether it was asked to yield before.
        preempted: bool,
    },
}

/// A hold of an owner, by the field that names its grant if there is one.
pub(crate) fn hold_of<'a>(
    name: &'a LockName,
    mode: Mode,
    owner: &'a Owner,
    field: Option<&'a str>,
) -> Hold<'a> {
    match field {
        Some(field) => Hold::new(name.store_key(), mode, field).of_grant(),
        None => Hold::new(name.store_key(), mode, owner.field()),
    }
}

// === impl Grant ===

impl Grant {
    /// Its hold, as the scripts take it.
    pub(crate) fn hold(&self) -> Hold<'_> {
        let hold = hold_of(&self.name, self.mode, &self.owner, self.field.as_deref());
        hold.noted(self.note.is_some())
    }

    /// Its field of the lock's hash.
    pub(crate) fn shared_field(&self) -> Arc<str> {
        let own = self.field.as_ref().map(Arc::clone);
        own.unwrap_or_else(|| self.owner.shared_field())
    }

    /// What others know of its holder.
    pub(crate) fn holder(&self) -> HolderKnown {
        HolderKnown {
            until: Some(self.safe_until),
            note: self.note.clone(),
        }
    }
}

// === impl LostReason ===

impl LostReason {
    /// As it is written in JSON and in logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Expired => "EXPIRED",
            Self::TakenOver => "TAKEN_OVER",
            Self::StoreUnreachable => "STORE_UNREACHABLE",
            Self::ClockStepped => "CLOCK_STEPPED",
            Self::HandedOver => "HANDED_OVER",
            Self::ForceReleased {
                preempted: true, ..
            } => "PREEMPTED",
            Self::ForceReleased { .. } => "FORCE_RELEASED",
        }
    }

    /// The reason that was given for a forced release or a preemption.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::ForceReleased { reason, .. } => Some(reason),
            Self::Expired
            | Self::TakenOver
            | Self::StoreUnreachable
            | Self::ClockStepped
            | Self::HandedOver => None,
        }
    }

    /// How long nobody else is granted what was lost; `None` if others may have it already.
    pub fn closed_for(&self) -> Option<Duration> {
        let Self::ForceReleased { closed_until, .. } = self else {
            return None;
        };
        closed_until.map(|until| until.saturating_duration_since(Instant::now()))
    }
}

// === impl Holding ===

impl Holding {
    pub(crate) fn name(&self) -> &LockName {
        match self {
            Self::Lock(grant) => &grant.name,
            Self::Permits(grant) => &grant.name,
        }
    }

    pub(crate) fn owner(&self) -> &Owner {
        match self {
            Self::Lock(grant) => &grant.owner,
            Self::Permits(grant) => &grant.owner,
        }
    }

    pub(crate) fn serial(&self) -> u64 {
        match self {
            Self::Lock(grant) => grant.serial,
            Self::Permits(grant) => grant.serial,
        }
    }

    pub(crate) fn terms(&self) -> Terms {
        macro_rules! terms {
            ($grant:expr) => {
                Terms {
                    lease: $grant.lease,
                    safe_until: $grant.safe_until,
                    watched: $grant.watched,
                    min_replica_acks: $grant.min_replica_acks,
                }
            };
        }
        match self {
            Self::Lock(grant) => terms!(grant),
            Self::Permits(grant) => terms!(grant),
        }
    }

    pub(crate) fn set_terms(&mut self, terms: Terms) {
        macro_rules! set {
            ($grant:expr) => {{
                $grant.lease = terms.lease;
                $grant.safe_until = terms.safe_until;
                $grant.watched = terms.watched;
                $grant.min_replica_acks = terms.min_replica_acks;
            }};
        }
        match self {
            Self::Lock(grant) => set!(grant),
            Self::Permits(grant) => set!(grant),
        }
    }

    /// What it takes of the quota of grants.
    pub(crate) fn weight(&self) -> u32 {
        match self {
            Self::Lock(_) => 1,
            Self::Permits(grant) => u32::try_from(grant.ids.len()).unwrap_or(u32::MAX),
        }
    }

    pub(crate) fn lock(&self) -> Option<&Grant> {
        match self {
            Self::Lock(grant) => Some(grant),
            Self::Permits(_) => None,
        }
    }

    pub(crate) fn permits(&self) -> Option<&PermitGrant> {
        match self {
            Self::Lock(_) => None,
            Self::Permits(grant) => Some(grant),
        }
    }
}

// === impl LostReason ===

impl From<Ownership> for LostReason {
    /// The reason of a loss, for a holder of whose lock the store says this.
    fn from(ownership: Ownership) -> Self {
        match ownership {
            Ownership::HeldByAnother => Self::TakenOver,
            Ownership::Expired | Ownership::NeverHeld | Ownership::HeldInAnotherMode => {
                Self::Expired
            }
        }
    }
}
