//! The waits of an owner, wherever it waits.

use std::sync::Arc;

use tokio::time::Instant;

use crate::types::{Goal, LockName, Owner, SessionId};

/// Those whose waits are shared together: the owners of a session, or an owner without one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Party {
    Session(SessionId),
    /// The field of the owner in the store.
    Owner(Arc<str>),
}

/// Identifies a wait: its coordinator, and its ticket there.
pub(crate) type WaitId = (Arc<str>, u64);

/// What tells a hold from a later one of the same owner: the fencing token and the hold count.
pub(crate) type Hold = (u64, u32);

/// The state of a cycle of waits, each with the hold that it waits for. It is the same cycle as
/// long as this is the same.
pub(crate) type State = Vec<(WaitId, Hold)>;

/// A wait for a lock or for permits.
#[derive(Clone, Debug)]
pub(crate) struct Wait {
    pub(crate) id: WaitId,
    pub(crate) owner: Owner,
    pub(crate) name: LockName,
    pub(crate) goal: Goal,
    pub(crate) since: Instant,
    /// When it began by the store's clock, in milliseconds: the same for all who compare waits.
    /// None before its coordinator has shared it once.
    pub(crate) began: Option<u64>,
    pub(crate) ends_on_deadlock: bool,
}

/// The waits of one party.
#[derive(Clone, Debug)]
pub(crate) struct Waits {
    pub(crate) client_name: String,
    pub(crate) all: Vec<Wait>,
    /// There are no others.
    pub(crate) complete: bool,
    /// They were all under way then.
    pub(crate) alive_at: Instant,
}

// === impl Party ===

impl Party {
    pub(crate) fn of(owner: &Owner) -> Self {
        match &owner.session {
            Some(session) => Self::Session(session.clone()),
            None => Self::Owner(owner.shared_field()),
        }
    }

    /// An owner of this party.
    pub(crate) fn owner(&self, label: &str) -> Owner {
        match self {
            Self::Session(session) => Owner::from_field(&[session.as_str(), ":", label].concat()),
            Self::Owner(field) => Owner::from_field(field),
        }
    }

    pub(crate) fn digest(&self) -> String {
        match self {
            Self::Session(session) => session.digest(),
            Self::Owner(field) => Owner::from_field(field).digest(),
        }
    }
}

// === impl Waits ===

impl Waits {
    /// The one wait of an owner that is one task, as far as can be known: its caller has named it,
    /// and it waits for nothing else.
    pub(crate) fn only_wait_of(&self, owner: &Owner) -> Option<&Wait> {
        if !self.complete || !is_named(owner) {
            return None;
        }
        let mut waits = self.all.iter().filter(|wait| is_same(&wait.owner, owner));
        waits.next().filter(|_| waits.next().is_none())
    }
}

/// Whether two owners are one. Their labels differ if one was read from the store.
pub(crate) fn is_same(one: &Owner, other: &Owner) -> bool {
    one.field() == other.field()
}

/// Several tasks of a session that name no owner share the default one.
fn is_named(owner: &Owner) -> bool {
    owner.session.is_none() || *owner.label != *Owner::DEFAULT_LABEL
}
