//! What a session can hold: a lock, or permits of a semaphore.

use std::{sync::Arc, time::Duration};

use lockkeeper_store::script::PermitId;
use tokio::time::Instant;

use super::types::{Grant, LockName, Owner};

/// Permits of one semaphore that one acquire took; held, renewed and lost together.
#[derive(Clone, Debug)]
pub struct PermitGrant {
    /// The semaphore.
    pub name: LockName,
    /// Who holds them.
    pub owner: Owner,
    /// The permits; there is at least one.
    pub ids: Arc<[PermitId]>,
    /// Tells this set of permits from the one that it was before some of them were given back.
    pub serial: u64,
    /// Time to live, as of the answer.
    pub lease: Duration,
    /// Until when nobody else can hold the permits.
    pub safe_until: Instant,
    /// Whether the watchdog renews them.
    pub watched: bool,
    /// As of [`Grant`].
    pub replica_acks: u32,
    /// As of [`Grant`].
    pub min_replica_acks: u32,
}

/// What a session holds.
#[derive(Clone, Debug)]
pub(crate) enum Holding {
    Lock(Grant),
    Permits(PermitGrant),
}

/// What leases of all kinds have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) lease: Duration,
    pub(crate) safe_until: Instant,
    pub(crate) watched: bool,
    pub(crate) min_replica_acks: u32,
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
