//! The names that are followed at this coordinator.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use lockkeeper_access::{Account, Identity};
use lockkeeper_store::{
    host::{Subscriptions, Wake},
    script,
};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::{
    error::{Error, Limit},
    types::LockName,
    waiters::callers::Callers,
};

/// The names that are followed here, and what the store last showed of each.
#[derive(Debug)]
pub(crate) struct Follows<S> {
    pub(crate) host: Subscriptions,
    followers_max: usize,
    in_use: AtomicBool,
    state: Mutex<State<S>>,
}

#[derive(Debug)]
struct State<S> {
    /// By each of their channels.
    followed: HashMap<Arc<str>, Arc<Followed<S>>>,
    followers: usize,
    callers: Callers,
}

/// A name that one task looks at.
#[derive(Debug, Default)]
pub(crate) struct Followed<S> {
    pub(crate) shown: watch::Sender<S>,
    pub(crate) hint: Notify,
    pub(crate) heard: Mutex<Heard>,
}

/// What was heard of a name since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// A release was announced, or ended here.
    pub(crate) release: bool,
    /// Messages may have been missed.
    pub(crate) gap: bool,
    /// The looks before this one.
    pub(crate) number: u64,
}

/// A follower of a name.
#[derive(Debug)]
pub(crate) struct Following<S> {
    follows: Arc<Follows<S>>,
    /// The name and whose place it is, if the followers of a name are limited.
    place: Option<(LockName, Identity)>,
    pub(crate) changes: watch::Receiver<S>,
}

/// A new follower, and what a task is to look at if it is the first of the name.
type Joined<S> = (Following<S>, Option<Arc<Followed<S>>>);

// === impl Follows ===

impl<S: Default> Follows<S> {
    pub(crate) fn new(host: Subscriptions, followers_max: usize) -> Arc<Self> {
        Arc::new(Self {
            host,
            followers_max,
            in_use: AtomicBool::new(false),
            state: Mutex::new(State {
                followed: HashMap::new(),
                followers: 0,
                callers: Callers::default(),
            }),
        })
    }

    /// Whether any name is followed. Mostly none is.
    pub(crate) fn is_in_use(&self) -> bool {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Turns a wake of the host into a look.
    pub(crate) fn follow(&self, wake: &Wake) {
        match wake {
            Wake::Message { channel, payload } => self.hint(channel, script::wakes(payload)),
            Wake::Gap | Wake::TakenOver => {
                let state = self.state.lock();
                let gap = Heard {
                    gap: true,
                    ..Heard::default()
                };
                state.followed.values().for_each(|it| it.hear(gap));
            }
        }
    }

    /// Looks at the name of this channel, which may have changed.
    pub(crate) fn hint(&self, channel: &str, release: bool) {
        if self.is_in_use()
            && let Some(followed) = self.state.lock().followed.get(channel)
        {
            followed.hear(Heard {
                release,
                ..Heard::default()
            });
        }
    }

    /// Counts one more follower of the name with these channels, within a maximum for the name if
    /// there is one. The first follower also gets what a task is to look at.
    pub(crate) fn join(
        self: &Arc<Self>,
        (name, channels): (&LockName, &[Arc<str>]),
        per_name_max: Option<usize>,
        account: &Account,
    ) -> Result<Joined<S>, Error> {
        let mut state = self.state.lock();
        if state.followers >= self.followers_max {
            return Err(Error::LimitReached(Limit::Waiters));
        }
        let known = channels.first().and_then(|it| state.followed.get(it));
        let is_new = known.is_none();
        let followed = known.map_or_else(Arc::default, Arc::clone);
        let place = match per_name_max {
            Some(max) if followed.shown.receiver_count() >= max => {
                return Err(Error::LimitReached(Limit::WaitersPerLock));
            }
            Some(_) => state.callers.join(name, account)?,
            None => None,
        };
        let following = Following {
            follows: Arc::clone(self),
            place: place.map(|caller| (name.clone(), caller)),
            changes: followed.shown.subscribe(),
        };
        state.followers += 1;
        if is_new {
            for channel in channels {
                let channel = Arc::clone(channel);
                state.followed.insert(channel, Arc::clone(&followed));
            }
            self.in_use.store(true, Ordering::Relaxed);
        }
        Ok((following, is_new.then_some(followed)))
    }

    /// Stops following a name that nobody follows. False if there is a follower again.
    pub(crate) fn forget(&self, channels: &[Arc<str>]) -> bool {
        let mut state = self.state.lock();
        let known = channels.first().and_then(|it| state.followed.get(it));
        let is_over = known.is_none_or(|it| it.shown.receiver_count() == 0);
        if is_over {
            for channel in channels {
                state.followed.remove(channel);
            }
            let in_use = !state.followed.is_empty();
            self.in_use.store(in_use, Ordering::Relaxed);
        }
        is_over
    }
}

// === impl Followed ===

impl<S> Followed<S> {
    fn hear(&self, heard: Heard) {
        let mut known = self.heard.lock();
        known.release |= heard.release;
        known.gap |= heard.gap;
        self.hint.notify_one();
    }
}

impl<S> Drop for Following<S> {
    fn drop(&mut self) {
        let mut state = self.follows.state.lock();
        state.followers -= 1;
        if let Some((name, caller)) = &self.place {
            state.callers.leave(name, caller);
        }
    }
}
