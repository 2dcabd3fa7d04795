//! A session as other callers see it, and their actions on it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    coordinator::Coordinator,
    events::{Event, What},
    session::{
        held::Held,
        peer::PeerAddress,
        session::{Deadlines, EndedBy, Phase, Session},
    },
    standing::Standing,
    types::{GrantKey, Holding, LockName, LostReason, Owner},
};

/// A session, as other callers may see it.
#[derive(Clone, Debug)]
pub struct SessionSeen {
    /// The digest that identifies it.
    pub digest: String,
    /// Its client name.
    pub client_name: String,
    /// The identity that owns it; empty, and thus anybody's, without credentials.
    pub identity: String,
    /// Origin of its present or last stream.
    pub peer: Option<PeerAddress>,
    /// When this coordinator first knew it.
    pub since: Instant,
    /// The lease of its watched grants.
    pub lease: Duration,
    /// Its stream broke; it can be resumed until then.
    pub detached_until: Option<Instant>,
    /// The number of locks and sets of permits it holds.
    pub grants: usize,
    /// The number of its waits.
    pub waits: usize,
    /// The last renewal of one of its grants failed.
    pub at_risk: bool,
}

/// A holder whose session is served here.
#[derive(Clone, Debug)]
pub struct HolderHere {
    /// What it holds.
    pub name: LockName,
    /// The holder.
    pub owner: Owner,
    /// The digest of its session.
    pub session_digest: String,
    /// The client name of its session.
    pub client_name: String,
    /// When the name was granted to it.
    pub since: Instant,
}

// === impl Coordinator ===

impl Coordinator {
    /// Those who hold these names in the sessions with these digests, as far as they are here.
    pub fn holders_here(&self, names: &HashMap<String, HashSet<LockName>>) -> Vec<HolderHere> {
        if names.is_empty() {
            return Vec::new();
        }
        let sessions = self.core.sessions.all();
        let seen = sessions.iter().flat_map(|session| {
            let of_session = names.get(&session.id.digest()).into_iter().flatten();
            of_session.flat_map(|name| session.holders_of(name))
        });
        seen.collect()
    }
}

// === impl Session ===

impl Session {
    /// The session, as other callers may see it.
    pub(crate) fn seen(&self) -> SessionSeen {
        let state = self.state.lock();
        SessionSeen {
            digest: self.id.digest(),
            client_name: self.client_name.clone(),
            identity: self.account.identity().as_str().to_owned(),
            peer: state.peer,
            since: self.since,
            lease: self.lease,
            detached_until: match state.phase {
                Phase::Detached(until) => Some(until),
                Phase::Live { .. } | Phase::Ended => None,
            },
            grants: state.grants.len(),
            waits: state.waits,
            at_risk: state.failing > 0,
        }
    }

    /// Its first holdings, at most `max`, in the order of their names.
    pub(crate) fn holdings(&self, max: usize) -> Vec<Standing> {
        let state = self.state.lock();
        let holdings = state.grants.values().take(max);
        let seen = holdings.map(|held| Standing {
            event: Event::of(What::Granted, &held.grant),
            since: held.since,
            valid_until: Some(held.end()),
        });
        seen.collect()
    }

    /// Whether it holds a lock or permits.
    pub(crate) fn holds_any(&self) -> bool {
        !self.state.lock().grants.is_empty()
    }

    /// Since when it holds a lock, if it does.
    pub(crate) fn held_since(&self, key: &GrantKey) -> Option<Instant> {
        let state = self.state.lock();
        state.grants.get(key).map(|held| held.since)
    }

    /// Since when an owner of the session holds permits, if it does.
    pub(crate) fn permits_since(&self, name: &LockName, label: &Arc<str>) -> Option<Instant> {
        let state = self.state.lock();
        let of_name = state.grants.of_name(name);
        let permits =
            of_name.filter(|(key, held)| held.grant.permits().is_some() && key.label == *label);
        permits.map(|(_, held)| held.since).min()
    }

    /// Its owners that hold this name.
    fn holders_of(&self, name: &LockName) -> Vec<HolderHere> {
        let state = self.state.lock();
        let of_name = state.grants.of_name(name);
        let holders = of_name.map(|(key, held)| HolderHere {
            name: key.name.clone(),
            owner: held.grant.owner().clone(),
            session_digest: self.id.digest(),
            client_name: self.client_name.clone(),
            since: held.since,
        });
        holders.collect()
    }

    /// Sets the origin of the present stream.
    pub(crate) fn comes_from(&self, peer: PeerAddress) {
        self.state.lock().peer = Some(peer);
    }

    /// Emits its holdings as if they had just been granted.
    pub(crate) fn retell(&self, to: &mut Vec<Event>, wanted: impl Fn(&LockName) -> bool) {
        let state = self.state.lock();
        let wanted = state
            .grants
            .values()
            .filter(|held| wanted(held.grant.name()));
        to.extend(wanted.map(|held| Event::of(What::Granted, &held.grant)));
    }

    /// Ends it by force and takes its grants. Its stream goes on until the client is notified of
    /// the losses and of the end. None if it had ended before.
    pub(crate) fn end_by_force(&self, deadlines: &Deadlines, reason: &str) -> Option<Vec<Holding>> {
        let reason: Arc<str> = reason.into();
        let mut state = self.state.lock();
        match state.ends() {
            Phase::Ended => return None,
            Phase::Live { waits, .. } => waits.cancel(),
            Phase::Detached(_) => {}
        }
        state.is_awaited_no_more(deadlines);
        let grants = self.take_grants(&mut state, deadlines);
        let lost = LostReason::ForceReleased {
            reason: Arc::clone(&reason),
            closed_until: None,
            preempted: false,
        };
        for grant in &grants {
            self.metrics.lost(grant.name(), &lost);
            self.events
                .tell(|| Event::of(What::Lost(lost.clone()), grant));
            state.lost.push_back((grant.clone(), lost.clone()));
        }
        state.ended_by = Some(EndedBy::Operator(reason));
        self.news.notify_one();
        Some(grants)
    }

    /// Loses the grants of a lock with this fencing token, which a forced release took.
    pub(crate) fn lose_forced(
        &self,
        deadlines: &Deadlines,
        name: &LockName,
        token: u64,
        reason: &LostReason,
    ) {
        let is_taken = |held: &Held| {
            let grant = held.grant.lock();
            grant.is_some_and(|grant| grant.fencing_token == token)
        };
        let state = self.state.lock();
        let of_name = state.grants.of_name(name);
        let gone = of_name.filter(|(_, held)| is_taken(held));
        let gone: Vec<GrantKey> = gone.map(|(key, _)| key.clone()).collect();
        drop(state);
        for key in gone {
            self.lose_if(is_taken, deadlines, &key, reason.clone());
        }
    }
}
