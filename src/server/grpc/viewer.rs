//! What a caller may see of others. Who knows an owner can act as it, so owners of others are shown
//! as digests.

use lockkeeper_access::{Access, Identity};
use lockkeeper_coordinator::{Coordinator, Owner};

/// One who looks. Without a caller, where everybody is anonymous, everything is shown.
#[derive(Clone, Debug)]
pub(super) struct Viewer(Option<(Coordinator, Identity)>);

// === impl Viewer ===

impl Viewer {
    pub(super) fn new(coordinator: &Coordinator, access: &Access, caller: &Identity) -> Self {
        let caller = || (coordinator.clone(), caller.clone());
        Self(access.is_on().then(caller))
    }

    /// An owner as it may be shown: the viewer's own as it calls it, others as a digest.
    pub(super) fn owner(&self, owner: &Owner) -> String {
        let Some((coordinator, caller)) = &self.0 else {
            return owner.label.as_ref().to_owned();
        };
        let own = match &owner.session {
            Some(session) => coordinator
                .is_session_of(session, caller)
                .then_some(owner.label.as_ref()),
            None => owner.label_under(caller.mark()),
        };
        own.map_or_else(|| owner.digest(), ToOwned::to_owned)
    }
}
