//! What a caller may see of others, and still be granted. A known owner can be impersonated, so
//! owners of other callers are shown as digests.

use lockkeeper_access::{Access, Identity, Right};
use lockkeeper_coordinator::{Answer, Coordinator, Error, LockName, Owner};

/// The reader of an answer. None where every caller is anonymous: then everything is shown.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(Default))]
pub(super) struct Viewer(Option<(Coordinator, Access, Identity)>);

// === impl Viewer ===

impl Viewer {
    pub(super) fn new(coordinator: &Coordinator, access: &Access, caller: &Identity) -> Self {
        let caller = || (coordinator.clone(), access.clone(), caller.clone());
        Self(access.is_on().then(caller))
    }

    /// Whether it may see who holds this name.
    pub(super) fn describes(&self, name: &LockName) -> bool {
        let may = |(_, access, caller): &(Coordinator, Access, Identity)| {
            access.allows(caller, Right::Describe, name.public())
        };
        self.0.as_ref().is_none_or(may)
    }

    /// The answer, see [`Answer::permitted`].
    pub(super) fn allowed(&self, answer: Answer) -> Result<Answer, Error> {
        let Some((_, access, caller)) = &self.0 else {
            return Ok(answer);
        };
        answer.permitted(access, caller)
    }

    /// An owner as the viewer may see it: its own by name, others as a digest.
    pub(super) fn owner(&self, owner: &Owner) -> String {
        let Some((coordinator, _, caller)) = &self.0 else {
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
