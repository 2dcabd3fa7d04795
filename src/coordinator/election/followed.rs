//! The elections that are observed at this coordinator.

use std::{collections::HashMap, sync::Arc};

use lockkeeper_store::{
    host::{Subscriptions, Wake},
    script::keys,
};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::{
    error::{Error, Limit},
    types::LockName,
};

/// The elections that are observed here.
#[derive(Debug)]
pub(crate) struct Elections {
    pub(crate) host: Subscriptions,
    observers_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By their channels.
    followed: HashMap<Arc<str>, Arc<Followed>>,
    observers: usize,
}

/// What the store last showed of an election: the newest revision, and whether its leader leads;
/// none before the first look.
pub(crate) type Shown = Option<(u64, bool)>;

/// An election that one task looks at.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    pub(crate) shown: watch::Sender<Shown>,
    pub(crate) hint: Notify,
}

// === impl Elections ===

impl Elections {
    pub(crate) fn new(host: Subscriptions, observers_max: usize) -> Self {
        Self {
            host,
            observers_max,
            state: Mutex::default(),
        }
    }

    /// Turns a wake of the host into a look.
    pub(crate) fn follow(&self, wake: &Wake) {
        let state = self.state.lock();
        match wake {
            Wake::Message { channel, .. } => {
                if let Some(followed) = state.followed.get(channel.as_str()) {
                    followed.hint.notify_one();
                }
            }
            Wake::Gap | Wake::TakenOver => {
                let followed = state.followed.values();
                followed.for_each(|it| it.hint.notify_one());
            }
        }
    }

    /// Looks at an election that may have changed here.
    pub(crate) fn hint(&self, name: &LockName) {
        let state = self.state.lock();
        if !state.followed.is_empty()
            && let Some(followed) = state
                .followed
                .get(keys::election(name.store_key()).as_str())
        {
            followed.hint.notify_one();
        }
    }

    /// Counts one more observer, which must [`leave`](Self::leave), and returns what shows it
    /// changes. The first observer of an election also gets what a task is to look at.
    pub(crate) fn join(
        &self,
        channel: &Arc<str>,
    ) -> Result<(watch::Receiver<Shown>, Option<Arc<Followed>>), Error> {
        let mut state = self.state.lock();
        if state.observers >= self.observers_max {
            return Err(Error::LimitReached(Limit::Waiters));
        }
        state.observers += 1;
        if let Some(followed) = state.followed.get(channel) {
            return Ok((followed.shown.subscribe(), None));
        }
        let followed = Arc::<Followed>::default();
        let changes = followed.shown.subscribe();
        state
            .followed
            .insert(Arc::clone(channel), Arc::clone(&followed));
        Ok((changes, Some(followed)))
    }

    /// An observer is gone.
    pub(crate) fn leave(&self) {
        self.state.lock().observers -= 1;
    }

    /// Stops following an election that nobody observes. False if there is an observer again.
    pub(crate) fn forget(&self, channel: &str) -> bool {
        let followed = &mut self.state.lock().followed;
        let unobserved = followed
            .get(channel)
            .is_none_or(|it| it.shown.receiver_count() == 0);
        if unobserved {
            followed.remove(channel);
        }
        unobserved
    }
}
