//! The grant table of a session.

use std::{collections::HashSet, sync::Arc, time::Duration};

use lockkeeper_access::Quota;
use lockkeeper_store::script::{CallError, Mode};
use tokio::time::Instant;

use crate::{
    error::{Error, Limit},
    events::{Event, What},
    session::{
        held::{Held, Lost},
        session::{Deadlines, Due, Session, State},
    },
    types::{Grant, GrantKey, Holding, LostReason, Terms},
};

// === impl Session ===

impl Session {
    /// The hold count and the serial of a grant, as the session knows them; an error if there is no
    /// room for one more grant. Losses that the client has not read yet take room too, so that they
    /// cannot pile up.
    pub(crate) fn holds(&self, key: &GrantKey) -> Result<(u32, Option<u64>), Error> {
        let state = self.state.lock();
        let known = state.holds(key);
        self.room(&state, usize::from(known.1.is_none()))?;
        Ok(known)
    }

    /// The same for several grants; an error if there is no room for all new ones.
    pub(crate) fn holds_all(&self, keys: &[GrantKey]) -> Result<Vec<(u32, Option<u64>)>, Error> {
        let state = self.state.lock();
        let known: Vec<_> = keys.iter().map(|key| state.holds(key)).collect();
        let new = known.iter().filter(|(_, serial)| serial.is_none()).count();
        self.room(&state, new)?;
        Ok(known)
    }

    /// Registers a grant before the caller is notified. `watched` grants are renewed with the
    /// session's lease from now on; others run out. `adds_to` is the serial of the grant it adds a
    /// hold to. If that one was lost meanwhile, this is no grant; nor is it if others have taken
    /// the room for it. On success `grant` is as the session has it now; on an error it must be
    /// undone.
    pub(crate) fn register(
        self: &Arc<Self>,
        deadlines: &Deadlines,
        grant: &mut Grant,
        adds_to: Option<u64>,
        sent_at: Instant,
    ) -> Result<Lost, Error> {
        let mut state = self.state.lock();
        state.admit(grant, adds_to)?;
        // Which of them are new is looked up only if it matters.
        self.room(&state, 1)
            .or_else(|_full| self.room(&state, usize::from(state.is_new(grant))))?;
        Ok(self.take_in(&mut state, deadlines, grant, sent_at))
    }

    /// Registers a grant that a resume has found: there is room for all that its client names,
    /// besides those that are about to be released. None if the session has lost it meanwhile.
    pub(crate) fn register_found(
        self: &Arc<Self>,
        deadlines: &Deadlines,
        mut grant: Grant,
        sent_at: Instant,
    ) -> Result<Option<Grant>, Error> {
        let mut state = self.state.lock();
        state.live()?;
        if state.has_lost(&GrantKey::of(&grant), Some(grant.serial)) {
            return Ok(None);
        }
        self.take_in(&mut state, deadlines, &mut grant, sent_at);
        Ok(Some(grant))
    }

    /// Registers several grants, each with the serial it adds to, or none of them.
    pub(crate) fn register_all(
        self: &Arc<Self>,
        deadlines: &Deadlines,
        grants: Vec<(Grant, Option<u64>)>,
        sent_at: Instant,
    ) -> Result<Vec<(Grant, Lost)>, Error> {
        let mut state = self.state.lock();
        for (grant, adds_to) in &grants {
            state.admit(grant, *adds_to)?;
        }
        let new = || grants.iter().filter(|(grant, _)| state.is_new(grant));
        self.room(&state, grants.len())
            .or_else(|_full| self.room(&state, new().count()))?;
        let grants = grants.into_iter();
        Ok(grants
            .map(|(mut grant, _)| {
                let lost = self.take_in(&mut state, deadlines, &mut grant, sent_at);
                (grant, lost)
            })
            .collect())
    }

    fn take_in(
        self: &Arc<Self>,
        state: &mut State,
        deadlines: &Deadlines,
        grant: &mut Grant,
        sent_at: Instant,
    ) -> Lost {
        let key = GrantKey::of(grant);
        let before = state.forget(deadlines, &key);
        if let Some(before) = before.as_ref().and_then(|held| held.grant.lock()) {
            // A fair lock that its owner takes again as an exclusive one still has a queue, and the
            // release must wake its head.
            if before.mode == Mode::Fair {
                grant.mode = Mode::Fair;
            }
            if before.serial == grant.serial {
                // A call that names only the owner has found the grant by its field.
                grant.field.clone_from(&before.field);
                grant.note = grant.note.take().or_else(|| before.note.clone());
            }
        }
        let holding = Holding::Lock(grant.clone());
        let (terms, lost) = self.enter(state, deadlines, key, holding, sent_at, before);
        (grant.watched, grant.safe_until) = (terms.watched, terms.safe_until);
        lost
    }

    /// Enters a holding in place of the one that its key had before.
    pub(crate) fn enter(
        self: &Arc<Self>,
        state: &mut State,
        deadlines: &Deadlines,
        key: GrantKey,
        mut grant: Holding,
        sent_at: Instant,
        before: Option<Box<Held>>,
    ) -> (Terms, Lost) {
        let (mut lost, mut since, mut asked) = (Lost::default(), sent_at, None);
        let mut terms = grant.terms();
        // What the store has forgotten meanwhile says nothing about a new grant, least of all its
        // safe window.
        if let Some(before) = before.filter(|before| before.grant.serial() == grant.serial()) {
            let known = before.grant.terms();
            (lost, since, asked) = (before.lost, before.since, before.asked);
            terms.watched |= known.watched;
            terms.safe_until = terms.safe_until.max(known.safe_until);
            terms.min_replica_acks = terms.min_replica_acks.max(known.min_replica_acks);
            grant.set_terms(terms);
        }
        let lease = if terms.watched {
            self.lease
        } else {
            Duration::ZERO
        };
        let (at, weight) = (self.due_at(&grant, sent_at), grant.weight());
        let place = state.grants.next_place();
        let due = deadlines.insert(at, Due::Grant(Arc::clone(self), place));
        let held = Box::new(Held {
            grant,
            lost: lost.clone(),
            lease,
            since,
            due,
            place,
            failing: false,
            in_doubt_until: None,
            renewing: false,
            releasing: false,
            asked,
            counted: self.account.count_anyway(Quota::Grants, weight),
        });
        self.events.tell(|| Event::of(What::Granted, &held.grant));
        state.grants.insert(key, held);
        self.tell_if_safe(state);
        (terms, lost)
    }

    /// Checks that there is room for `new` more grants.
    pub(crate) fn room(&self, state: &State, new: usize) -> Result<(), Error> {
        if new > 0 && state.grants.len() + state.lost.len() + new > self.grants_max {
            return Err(Error::LimitReached(Limit::GrantsPerSession));
        }
        Ok(())
    }

    /// The grant, if the session holds it.
    pub(crate) fn grant(&self, key: &GrantKey) -> Option<Grant> {
        self.state
            .lock()
            .grants
            .get(key)
            .and_then(|held| held.grant.lock().cloned())
    }

    /// The same, and marks that a release is on its way to the store.
    pub(crate) fn release_begins(&self, key: &GrantKey) -> Option<Grant> {
        let mut state = self.state.lock();
        let held = state.grants.get_mut(key)?;
        held.releasing = true;
        held.grant.lock().cloned()
    }

    /// A resume has confirmed the grant with all of its holds: answers that nobody took are no
    /// longer given back.
    pub(crate) fn confirm(&self, key: &GrantKey) {
        if let Some(held) = self.state.lock().grants.get_mut(key) {
            held.lost = Lost::default();
        }
    }

    /// A resume does not name the grant, which is about to be released: no answer on its way may
    /// say that it is held.
    pub(crate) fn disown(&self, key: &GrantKey) {
        if let Some(held) = self.state.lock().grants.get(key) {
            held.lost.set();
        }
    }

    /// The lock grant that an answer on its way refers to. None if it is over or no lock; an error
    /// if it is another grant by now, or was confirmed by a resume.
    pub(crate) fn grant_of(&self, key: &GrantKey, lost: &Lost) -> Result<Option<Grant>, ()> {
        match self.state.lock().grants.get(key) {
            None => Ok(None),
            Some(held) if Arc::ptr_eq(&held.lost.0, &lost.0) => Ok(held.grant.lock().cloned()),
            Some(_) => Err(()),
        }
    }

    /// All holdings of the session.
    pub(crate) fn grants(&self) -> Vec<Holding> {
        self.state
            .lock()
            .grants
            .values()
            .map(|held| held.grant.clone())
            .collect()
    }

    /// Marks that a release is on its way to the store, or that it did not arrive.
    pub(crate) fn set_releasing(&self, key: &GrantKey, releasing: bool) {
        if let Some(held) = self.state.lock().grants.get_mut(key) {
            held.releasing = releasing;
        }
    }

    /// Sets the holds left after a release. At 0 the grant is over; otherwise it may have a longer
    /// lease now.
    pub(crate) fn set_holds(
        self: &Arc<Self>,
        deadlines: &Deadlines,
        key: &GrantKey,
        hold_count: u32,
        until: Option<Instant>,
    ) {
        let mut state = self.state.lock();
        if hold_count == 0 {
            if let Some(held) = state.forget(deadlines, key) {
                self.events
                    .tell(|| Event::of(What::Released, &held.grant).holding(0));
                self.hold_ended(&held);
                self.tell_if_safe(&state);
            }
        } else if let Some(held) = state.grants.get_mut(key) {
            held.releasing = false;
            if let Holding::Lock(grant) = &mut held.grant {
                grant.hold_count = hold_count;
            }
            self.events.tell(|| Event::of(What::Released, &held.grant));
            held.extend(until);
            if !held.grant.terms().watched {
                let at = self.due_at(&held.grant, Instant::now());
                self.reschedule(deadlines, held, at);
            }
        }
    }

    /// Removes a grant that turned out to be gone, and queues the notice.
    pub(crate) fn lose(&self, deadlines: &Deadlines, key: &GrantKey, reason: LostReason) {
        self.lose_if(|_any| true, deadlines, key, reason);
    }

    /// The same, if what is held there is so.
    pub(crate) fn lose_if(
        &self,
        is_gone: impl FnOnce(&Held) -> bool,
        deadlines: &Deadlines,
        key: &GrantKey,
        reason: LostReason,
    ) {
        let mut state = self.state.lock();
        if state.grants.get(key).is_some_and(is_gone)
            && let Some(held) = state.forget(deadlines, key)
        {
            self.hold_ended(&held);
            let Held { grant, lost, .. } = *held;
            lost.set();
            self.metrics.lost(grant.name(), &reason);
            let token = grant.lock().map(|grant| grant.fencing_token);
            let session = self.id.digest();
            tracing::info!(
                lock = grant.name().public(),
                reason = reason.name(),
                detail = reason.detail(),
                token,
                session,
                "grant lost"
            );
            self.events
                .tell(|| Event::of(What::Lost(reason.clone()), &grant));
            state.is_lost(grant, reason);
            self.news.notify_one();
        }
    }

    /// Queues the notice for a lost grant that a resuming client named, whether or not the session
    /// knew of it. `unread`: losses of which watchers have been notified.
    pub(crate) fn lose_named(
        &self,
        deadlines: &Deadlines,
        grant: Holding,
        reason: LostReason,
        unread: &HashSet<GrantKey>,
    ) {
        let key = GrantKey::of_holding(&grant);
        let mut state = self.state.lock();
        let held = state.forget(deadlines, &key);
        if let Some(held) = &held {
            self.hold_ended(held);
            held.lost.set();
        }
        if held.is_some() || !unread.contains(&key) {
            self.events
                .tell(|| Event::of(What::Lost(reason.clone()), &grant));
            self.metrics.lost(grant.name(), &reason);
        }
        state.is_lost(grant, reason);
        self.news.notify_one();
    }

    /// Empties the grant table of a session that ends.
    pub(crate) fn take_grants(&self, state: &mut State, deadlines: &Deadlines) -> Vec<Holding> {
        let keys: Vec<GrantKey> = state.grants.keys().cloned().collect();
        keys.iter()
            .filter_map(|key| state.forget(deadlines, key))
            .map(|held| {
                held.lost.set();
                self.hold_ended(&held);
                held.grant
            })
            .collect()
    }

    pub(crate) fn hold_ended(&self, held: &Held) {
        let (name, since) = (held.grant.name(), held.since);
        self.metrics.hold_ended(name, &self.client_name, since);
    }

    /// A resuming client names its presumed grants and is notified anew of those that are lost;
    /// except for these losses. Returns those that are forgotten.
    pub(crate) fn forget_losses(&self, but: impl Fn(&Holding) -> bool) -> HashSet<GrantKey> {
        let mut forgotten = HashSet::new();
        self.state.lock().lost.retain(|(grant, _)| {
            let stays = but(grant);
            if !stays {
                forgotten.insert(GrantKey::of_holding(grant));
            }
            stays
        });
        forgotten
    }
}

// === impl State ===

impl State {
    /// Checks that a grant may be registered; it may not if the grant it adds a hold to was lost
    /// meanwhile.
    fn admit(&self, grant: &Grant, adds_to: Option<u64>) -> Result<(), Error> {
        self.live()?;
        if adds_to == Some(grant.serial) && self.is_new(grant) {
            let why = "the grant was lost while a hold was added to it".to_owned();
            return Err(CallError::OutcomeUnknown(why).into());
        }
        Ok(())
    }

    /// Queues the notice, and remembers a lock that stays closed until its former holder releases
    /// it.
    fn is_lost(&mut self, grant: Holding, reason: LostReason) {
        if let LostReason::ForceReleased {
            closed_until: Some(until),
            ..
        } = reason
        {
            let now = Instant::now();
            self.closed.retain(|(_, until)| *until > now);
            self.closed.push((grant.clone(), until));
        }
        self.lost.push_back((grant, reason));
    }

    /// Whether the client has yet to learn that this grant is lost. Permits are known by their ids.
    pub(crate) fn has_lost(&self, key: &GrantKey, serial: Option<u64>) -> bool {
        let is_it = |grant: &Holding| {
            GrantKey::of_holding(grant) == *key && serial.is_none_or(|it| it == grant.serial())
        };
        self.lost.iter().any(|(grant, _)| is_it(grant))
    }

    /// The hold count and the serial of a grant; no serial if it is not held.
    fn holds(&self, key: &GrantKey) -> (u32, Option<u64>) {
        let held = self.grants.get(key).and_then(|held| held.grant.lock());
        held.map_or((0, None), |it| (it.hold_count, Some(it.serial)))
    }

    fn is_new(&self, grant: &Grant) -> bool {
        !self.grants.contains(&GrantKey::of(grant))
    }

    pub(crate) fn forget(&mut self, deadlines: &Deadlines, key: &GrantKey) -> Option<Box<Held>> {
        let held = self.grants.remove(key)?;
        deadlines.remove(held.due);
        self.failing -= usize::from(held.failing);
        Some(held)
    }
}
