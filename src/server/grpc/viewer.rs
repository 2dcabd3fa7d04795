//! What a caller may see of others. A known owner can be impersonated, so owners of other callers
//! are shown as digests.

use lockkeeper_access::{Access, Identity};
use lockkeeper_coordinator::{Coordinator, Owner};

/// The reader of an answer. None where every caller is anonymous: then everything is shown.
#[derive(Clone, Debug)]
pub(super) struct Viewer(Option<(Coordinator, Identity)>);

// === impl Viewer ===

impl Viewer {
    pub(super) fn new(coordinator: &Coordinator, access: &Access, caller: &Identity) -> Self {
        let caller = || (coordinator.clone(), caller.clone());
        Self(access.is_on().then(caller))
    }

    /// An owner as the viewer may see it: its own by name, others as a digest.
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
