//! How the holders of a session are asked to yield.

use std::sync::Arc;

use tokio::time::Instant;

use crate::{
    session::{
        asked::{Asked, YieldRequest},
        session::{Phase, Session, State},
    },
    types::{Grant, LockName, Owner},
};

// === impl Session ===

impl Session {
    /// Asks an owner to release its grants of a lock with this token. False if it has none, or if
    /// the session has no stream to be asked through.
    pub(crate) fn ask_to_yield(
        &self,
        name: &LockName,
        owner: &Owner,
        token: u64,
        request: &Arc<YieldRequest>,
    ) -> bool {
        let mut state = self.state.lock();
        if !matches!(state.phase, Phase::Live { .. }) {
            return false;
        }
        let mut is_held = false;
        let of_name = state.grants.of_name(name);
        let places: Vec<_> = of_name.map(|(_, held)| held.place).collect();
        for place in places {
            let Some(held) = state.grants.at(place) else {
                continue;
            };
            let grant = held.grant.lock();
            if !grant.is_some_and(|it| it.owner == *owner && it.fencing_token == token) {
                continue;
            }
            is_held = true;
            // A repeat is no news.
            let known = held.asked.as_ref();
            if known.is_none_or(|it| it.request.id != request.id) {
                held.asked = Some(Asked {
                    request: Arc::clone(request),
                    is_delivered: false,
                });
                self.news.notify_one();
            }
        }
        is_held
    }
}

// === impl State ===

impl State {
    /// The next request that the client has not received.
    pub(crate) fn next_asked(&mut self) -> Option<(Grant, Arc<YieldRequest>)> {
        let now = Instant::now();
        self.grants.values_mut().find_map(|held| {
            let grant = held.grant.lock()?;
            let asked = held.asked.as_mut()?;
            let is_due = !asked.is_delivered && asked.request.until > now;
            is_due.then(|| {
                asked.is_delivered = true;
                (grant.clone(), Arc::clone(&asked.request))
            })
        })
    }

    /// Another stream serves the session: the last one may not have delivered all requests.
    pub(crate) fn ask_again(&mut self) {
        for asked in self.grants.values_mut().filter_map(|it| it.asked.as_mut()) {
            asked.is_delivered = false;
        }
    }
}
