//! A session as others see it, and what others do to it.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    events::{Event, What},
    session::{
        held::Held,
        peer::PeerAddress,
        session::{Deadlines, Phase, Session},
    },
    types::{GrantKey, LockName, LostReason},
};

/// A session, as others may see it.
#[derive(Clone, Debug)]
pub struct SessionSeen {
    /// What tells it from others.
    pub digest: String,
    /// The client's name for it.
    pub client_name: String,
    /// Whom it belongs to; empty: anybody, where no credentials are asked for.
    pub identity: String,
    /// Where its stream comes from, or its last one.
    pub peer: Option<PeerAddress>,
    /// Since when this coordinator knows it.
    pub since: Instant,
    /// The lease of its watched grants.
    pub lease: Duration,
    /// Its stream broke, and it can be resumed until then.
    pub detached_until: Option<Instant>,
    /// How many locks and sets of permits it holds.
    pub grants: usize,
    /// How many of its calls wait.
    pub waits: usize,
}

// === impl Session ===

impl Session {
    /// Itself, as others may see it.
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
        }
    }

    /// Where the stream comes from that it has now.
    pub(crate) fn comes_from(&self, peer: PeerAddress) {
        self.state.lock().peer = Some(peer);
    }

    /// What it holds, as if that had just been granted.
    pub(crate) fn retell(&self, to: &mut Vec<Event>, wanted: impl Fn(&LockName) -> bool) {
        let state = self.state.lock();
        let wanted = state
            .grants
            .values()
            .filter(|held| wanted(held.grant.name()));
        to.extend(wanted.map(|held| Event::of(What::Granted, &held.grant)));
    }

    /// The grants of a lock that have this fencing token were taken away.
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
        let of_name = state.grants.range(GrantKey::first_of(name)..);
        let of_name = of_name.take_while(|(key, _)| key.name == *name);
        let gone = of_name.filter(|(_, held)| is_taken(held));
        let gone: Vec<GrantKey> = gone.map(|(key, _)| key.clone()).collect();
        drop(state);
        for key in gone {
            self.lose(deadlines, &key, reason.clone());
        }
    }
}
