//! What a session can hold: a lock, or permits of a semaphore.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::types::{Grant, LockName, Owner};
use crate::script::PermitId;

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
        let (lease, safe_until, watched) = match self {
            Self::Lock(grant) => (grant.lease, grant.safe_until, grant.watched),
            Self::Permits(grant) => (grant.lease, grant.safe_until, grant.watched),
        };
        Terms {
            lease,
            safe_until,
            watched,
        }
    }

    pub(crate) fn set_terms(&mut self, terms: Terms) {
        let (lease, safe_until, watched) = match self {
            Self::Lock(grant) => (&mut grant.lease, &mut grant.safe_until, &mut grant.watched),
            Self::Permits(grant) => (&mut grant.lease, &mut grant.safe_until, &mut grant.watched),
        };
        (*lease, *safe_until, *watched) = (terms.lease, terms.safe_until, terms.watched);
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
