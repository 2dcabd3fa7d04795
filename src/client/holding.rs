//! Holdings: a lock or permits, as messages of the protocol.

use std::time::Duration;

use lockkeeper_api::pb::{
    Grant, LockMode, LockSpec, PermitGrant, ReleaseAllRequest, ReleasePermitsRequest,
    ReleaseRequest, RenewPermitsRequest, RenewRequest, SessionOpened, session_request::Request,
};

use crate::duration::to_std;

/// One grant, which is renewed and lost independently of others.
#[derive(Clone, Debug)]
pub(crate) enum Holding {
    Lock(Grant),
    Permits(PermitGrant),
}

/// Identifies a grant in the messages of one session. A lock of one owner has one key for all
/// modes but those of a read/write lock: the coordinator counts its holds together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum GrantKey {
    Lock {
        name: String,
        owner: String,
        mode: i32,
    },
    Permit(String),
}

/// A field that both kinds of grants have.
macro_rules! field {
    ($self:ident.$field:ident) => {
        match $self {
            Self::Lock(grant) => &grant.$field,
            Self::Permits(grant) => &grant.$field,
        }
    };
}

// === impl Holding ===

impl Holding {
    /// Everything that a resumed session still holds.
    pub(crate) fn resumed(opened: &SessionOpened) -> Vec<Self> {
        let locks = opened.grants.iter().cloned().map(Self::Lock);
        let permits = opened.permits.iter().cloned().map(Self::Permits);
        locks.chain(permits).collect()
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

    pub(crate) fn name(&self) -> &str {
        field!(self.name)
    }

    pub(crate) fn lease(&self) -> Duration {
        to_std(*field!(self.lease))
    }

    pub(crate) fn valid_for(&self) -> Duration {
        to_std(*field!(self.valid_for))
    }

    /// Whether it is renewed as long as its session lives; else its request had a lease.
    pub(crate) fn is_watched(&self) -> bool {
        *field!(self.watched)
    }

    /// One key of a lock, one for each of several permits.
    pub(crate) fn keys(&self) -> Vec<GrantKey> {
        match self {
            Self::Lock(grant) => vec![grant.into()],
            Self::Permits(grant) => {
                let ids = grant.permit_ids.iter().cloned();
                ids.map(GrantKey::Permit).collect()
            }
        }
    }

    /// 0 for permits.
    pub(crate) fn fencing_token(&self) -> u64 {
        self.lock().map_or(0, |grant| grant.fencing_token)
    }

    /// How often the owner of a lock holds it; 0 for permits.
    pub(crate) fn hold_count(&self) -> usize {
        let count = self.lock().map_or(0, |grant| grant.hold_count);
        usize::try_from(count).unwrap_or(usize::MAX)
    }

    /// Whether this is an older grant of the same lock and owner.
    pub(crate) fn is_older_than(&self, other: &Self) -> bool {
        self.fencing_token() < other.fencing_token()
    }

    /// The request that renews it, for `lease` or its former one.
    pub(crate) fn renewal(&self, lease: Option<Duration>) -> Request {
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

impl From<Grant> for Holding {
    fn from(grant: Grant) -> Self {
        Self::Lock(grant)
    }
}

impl From<PermitGrant> for Holding {
    fn from(grant: PermitGrant) -> Self {
        Self::Permits(grant)
    }
}

impl From<&Grant> for GrantKey {
    fn from(grant: &Grant) -> Self {
        Self::lock(&grant.name, &grant.owner, grant.mode)
    }
}

// === impl GrantKey ===

impl GrantKey {
    fn lock(name: &str, owner: &str, mode: i32) -> Self {
        Self::Lock {
            name: name.to_owned(),
            owner: owner.to_owned(),
            mode: key_mode(mode),
        }
    }
}

/// The grant that a request renews.
pub(crate) fn renewed_key(request: &Request) -> Option<GrantKey> {
    match request {
        Request::Renew(it) => Some(GrantKey::lock(&it.name, &it.owner, it.mode)),
        Request::RenewPermits(it) => it.permit_ids.first().cloned().map(GrantKey::Permit),
        _ => None,
    }
}

/// The request that releases what one request acquired.
pub(crate) fn release_of(holdings: &[Holding]) -> Request {
    match holdings {
        [Holding::Permits(grant), ..] => Request::ReleasePermits(ReleasePermitsRequest {
            name: grant.name.clone(),
            owner: grant.owner.clone(),
            permit_ids: grant.permit_ids.clone(),
            ..ReleasePermitsRequest::default()
        }),
        [Holding::Lock(grant)] => Request::Release(ReleaseRequest {
            name: grant.name.clone(),
            owner: grant.owner.clone(),
            mode: grant.mode,
            ..ReleaseRequest::default()
        }),
        several => {
            let grants = || several.iter().filter_map(Holding::lock);
            let owner = grants().next().map(|it| it.owner.clone());
            let locks = grants().map(|grant| LockSpec {
                name: grant.name.clone(),
                mode: grant.mode,
            });
            Request::ReleaseAll(ReleaseAllRequest {
                owner: owner.unwrap_or_default(),
                locks: locks.collect(),
                ..ReleaseAllRequest::default()
            })
        }
    }
}

/// The mode that the coordinator takes: an unspecified one is exclusive.
pub(crate) fn effective_mode(mode: i32) -> i32 {
    if mode == LockMode::Unspecified as i32 {
        LockMode::Exclusive.into()
    } else {
        mode
    }
}

/// The mode in a key. A fair hold and an exclusive one of the same owner are one grant.
fn key_mode(mode: i32) -> i32 {
    if mode == LockMode::Fair as i32 {
        LockMode::Exclusive.into()
    } else {
        effective_mode(mode)
    }
}
