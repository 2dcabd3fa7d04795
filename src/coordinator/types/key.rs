//! Keys of a session's grant table.

use std::sync::Arc;

use lockkeeper_store::script::{Mode, PermitId};

use super::{Grant, Holding, LockName, PermitGrant};

/// The key of a grant in a session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GrantKey {
    pub(crate) name: LockName,
    pub(crate) slot: Slot,
    /// The owner within the session.
    pub(crate) label: Arc<str>,
}

/// The separate holdings that an owner can have by one name. They are an exclusive or fair lock,
/// either side of a read/write lock, and any number of permit grants, distinguished by the least
/// id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Slot {
    Sole,
    Read,
    Write,
    Permits(PermitId),
}

// === impl GrantKey ===

impl GrantKey {
    pub(crate) fn new(name: &LockName, mode: Mode, label: &Arc<str>) -> Self {
        let slot = match mode {
            Mode::Exclusive | Mode::Fair => Slot::Sole,
            Mode::Read => Slot::Read,
            Mode::Write => Slot::Write,
        };
        Self {
            name: name.clone(),
            slot,
            label: Arc::clone(label),
        }
    }

    /// The lowest key of a name.
    pub(crate) fn first_of(name: &LockName) -> Self {
        Self {
            name: name.clone(),
            slot: Slot::Sole,
            label: Arc::default(),
        }
    }

    pub(crate) fn of(grant: &Grant) -> Self {
        Self::new(&grant.name, grant.mode, &grant.owner.label)
    }

    pub(crate) fn of_permits(grant: &PermitGrant) -> Self {
        let least = grant.ids.iter().min().copied().unwrap_or_default();
        Self {
            name: grant.name.clone(),
            slot: Slot::Permits(least),
            label: Arc::clone(&grant.owner.label),
        }
    }

    pub(crate) fn of_holding(holding: &Holding) -> Self {
        match holding {
            Holding::Lock(grant) => Self::of(grant),
            Holding::Permits(grant) => Self::of_permits(grant),
        }
    }
}
