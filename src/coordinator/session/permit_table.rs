//! Permits in the grant table of a session. One acquire of several permits is one grant, of which
//! some may be given back.

use std::sync::Arc;

use lockkeeper_store::script::PermitId;
use tokio::time::Instant;

use crate::{
    error::Error,
    events::{Event, What},
    session::{
        held::Lost,
        session::{Deadlines, Due, Session, State},
    },
    types::{GrantKey, Holding, LockName, Owner, PermitGrant},
};

// === impl Session ===

impl Session {
    /// Checks that the session may take one more grant.
    pub(crate) fn may_take_permits(&self) -> Result<(), Error> {
        let state = self.state.lock();
        state.live()?;
        self.room(&state, 1)
    }

    /// As [`Session::register`].
    pub(crate) fn register_permits(
        self: &Arc<Self>,
        deadlines: &Deadlines,
        grant: PermitGrant,
        sent_at: Instant,
    ) -> Result<(PermitGrant, Lost), Error> {
        let mut state = self.state.lock();
        state.live()?;
        let is_new = !state.grants.contains(&GrantKey::of_permits(&grant));
        self.room(&state, usize::from(is_new))?;
        Ok(self.take_in_permits(&mut state, deadlines, grant, sent_at))
    }

    /// As [`Session::register_found`].
    pub(crate) fn register_found_permits(
        self: &Arc<Self>,
        deadlines: &Deadlines,
        grant: PermitGrant,
        sent_at: Instant,
    ) -> Result<Option<PermitGrant>, Error> {
        let mut state = self.state.lock();
        state.live()?;
        if state.has_lost(&GrantKey::of_permits(&grant), None) {
            return Ok(None);
        }
        let (grant, _) = self.take_in_permits(&mut state, deadlines, grant, sent_at);
        Ok(Some(grant))
    }

    fn take_in_permits(
        self: &Arc<Self>,
        state: &mut State,
        deadlines: &Deadlines,
        mut grant: PermitGrant,
        sent_at: Instant,
    ) -> (PermitGrant, Lost) {
        let key = GrantKey::of_permits(&grant);
        let holding = Holding::Permits(grant.clone());
        let before = state.forget(deadlines, &key);
        let (terms, lost) = self.enter(state, deadlines, key, holding, sent_at, before);
        (grant.watched, grant.safe_until) = (terms.watched, terms.safe_until);
        (grant, lost)
    }

    /// The owner's grants that contain one of these permits; all of them without ids.
    pub(crate) fn permits_of(
        &self,
        name: &LockName,
        owner: &Owner,
        ids: &[PermitId],
    ) -> Vec<PermitGrant> {
        let state = self.state.lock();
        let of_name = state.grants.of_name(name);
        let grants = of_name.filter_map(|(_, held)| held.grant.permits());
        let wanted = |grant: &&PermitGrant| {
            let named = ids.is_empty() || grant.ids.iter().any(|id| ids.contains(id));
            named && grant.owner.label == owner.label
        };
        grants.filter(wanted).cloned().collect()
    }

    /// Removes permits that were given back: some of a grant, or all.
    pub(crate) fn drop_permits(
        self: &Arc<Self>,
        deadlines: &Deadlines,
        grants: &[PermitGrant],
        ids: &[PermitId],
    ) {
        for grant in grants {
            let mut state = self.state.lock();
            let key = GrantKey::of_permits(grant);
            let left = |id: &&PermitId| !ids.is_empty() && !ids.contains(id);
            let left: Arc<[PermitId]> = grant.ids.iter().filter(left).copied().collect();
            if left.is_empty() {
                if let Some(held) = state.forget(deadlines, &key) {
                    self.events
                        .tell(|| Event::of(What::Released, &held.grant).holding(0));
                    self.hold_ended(&held);
                    self.tell_if_safe(&state);
                }
                continue;
            }
            let Some(mut held) = state.grants.remove(&key) else {
                continue;
            };
            let given_back = u32::try_from(grant.ids.len() - left.len()).unwrap_or(u32::MAX);
            drop(held.counted.split(given_back));
            let mut rest = grant.clone();
            rest.ids = left;
            // A renewal in progress asks for permits that are gone; its answer will be that of
            // another grant.
            rest.serial = held.grant.serial() + 1;
            let at = if held.renewing {
                Instant::now()
            } else {
                deadlines.due_at(held.due)
            };
            deadlines.remove(held.due);
            let rest_key = GrantKey::of_permits(&rest);
            let due = Due::Grant(Arc::clone(self), state.grants.next_place());
            held.due = deadlines.insert(at, due);
            let terms = held.grant.terms();
            held.grant = Holding::Permits(rest);
            held.grant.set_terms(terms);
            self.events.tell(|| Event::of(What::Released, &held.grant));
            (held.renewing, held.releasing) = (false, false);
            state.grants.insert(rest_key, held);
        }
    }
}
