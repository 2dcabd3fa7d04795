//! What is held: a lock or permits, in the words of the protocol.

use std::time::Duration;

use lockkeeper_api::pb::{
    Grant, PermitGrant, RenewPermitsRequest, RenewRequest, SessionOpened, session_request::Request,
};

/// One thing that is held, renewed and lost by itself.
#[derive(Clone, Debug)]
pub(super) enum Thing {
    Lock(Grant),
    Permits(PermitGrant),
}

// === impl Thing ===

impl Thing {
    /// All that a resumed session still has.
    pub(super) fn resumed(opened: &SessionOpened) -> Vec<Self> {
        let locks = opened.grants.iter().cloned().map(Self::Lock);
        let permits = opened.permits.iter().cloned().map(Self::Permits);
        locks.chain(permits).collect()
    }

    pub(super) fn lock(&self) -> Option<&Grant> {
        match self {
            Self::Lock(grant) => Some(grant),
            Self::Permits(_) => None,
        }
    }

    pub(super) fn permits(&self) -> Option<&PermitGrant> {
        match self {
            Self::Lock(_) => None,
            Self::Permits(grant) => Some(grant),
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Lock(grant) => &grant.name,
            Self::Permits(grant) => &grant.name,
        }
    }

    pub(super) fn lease(&self) -> Duration {
        to_std(match self {
            Self::Lock(grant) => grant.lease,
            Self::Permits(grant) => grant.lease,
        })
    }

    pub(super) fn valid_for(&self) -> Duration {
        to_std(match self {
            Self::Lock(grant) => grant.valid_for,
            Self::Permits(grant) => grant.valid_for,
        })
    }

    /// Whether it is renewed as long as its session lives; else its lease was asked for.
    pub(super) fn is_watched(&self) -> bool {
        match self {
            Self::Lock(grant) => grant.watched,
            Self::Permits(grant) => grant.watched,
        }
    }

    /// Whether both are the same grant, as it was known at two times. Within a session the name and
    /// the owner tell of a lock; the store may have forgotten the token.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Lock(one), Self::Lock(two)) => one.name == two.name && one.owner == two.owner,
            (Self::Permits(one), Self::Permits(two)) => {
                let shared = |id| two.permit_ids.contains(id);
                one.permit_ids.iter().any(shared)
            }
            _ => false,
        }
    }

    /// What renews it, by its own lease or by another.
    pub(super) fn renewal(&self, lease: Option<Duration>) -> Request {
        let lease = lease.and_then(|it| it.try_into().ok());
        match self {
            Self::Lock(grant) => Request::Renew(RenewRequest {
                name: grant.name.clone(),
                owner: grant.owner.clone(),
                mode: grant.mode,
                lease,
                ..RenewRequest::default()
            }),
            Self::Permits(grant) => Request::RenewPermits(RenewPermitsRequest {
                name: grant.name.clone(),
                owner: grant.owner.clone(),
                permit_ids: grant.permit_ids.clone(),
                lease,
                ..RenewPermitsRequest::default()
            }),
        }
    }
}

impl From<Grant> for Thing {
    fn from(grant: Grant) -> Self {
        Self::Lock(grant)
    }
}

impl From<PermitGrant> for Thing {
    fn from(grant: PermitGrant) -> Self {
        Self::Permits(grant)
    }
}

pub(super) fn to_std(duration: Option<prost_types::Duration>) -> Duration {
    let duration = duration.and_then(|duration| duration.try_into().ok());
    duration.unwrap_or_default()
}
