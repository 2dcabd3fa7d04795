//! Watching a lock: its state, then what changes, wherever that happens.

use std::{collections::VecDeque, sync::Arc};

use lockkeeper_access::{Account, Counted, Quota};
use lockkeeper_store::script::Holder;

use crate::{
    coordinator::Coordinator,
    core::Core,
    error::Error,
    follow::{followed::Following, task::follow},
    lock::{
        describe::{described, holder_seen},
        outcome::{Description, HolderSeen},
    },
    lock_watch::{
        changes::{Change, GapReason, GrantEnd, changes},
        look::{LockShown, Look},
    },
    types::LockName,
};

/// An event of a lock that is watched.
#[derive(Clone, Debug)]
pub enum LockEvent {
    /// The lock when the watch began; the first event.
    State(Description),
    /// A grant.
    Granted {
        /// The holder.
        holder: HolderSeen,
        /// The newest fencing token, which is the grant's unless it is a reader's.
        fencing_token: u64,
    },
    /// The end of a grant.
    Ended {
        /// The holder, as last seen.
        holder: HolderSeen,
        /// The fencing token, as in [`LockEvent::Granted`].
        fencing_token: u64,
        /// How it ended.
        end: GrantEnd,
        /// The reason that was given for a forced release, for people.
        detail: String,
    },
    /// Nobody holds the lock any more.
    Freed {
        /// The newest fencing token; 0 if none is known.
        fencing_token: u64,
    },
    /// Another number of waiters.
    Waiters(usize),
    /// Something may not have been seen.
    Gap(GapReason),
}

/// A watcher of one lock.
#[derive(Debug)]
pub struct LockWatcher {
    core: Arc<Core>,
    name: LockName,
    following: Following<LockShown>,
    /// The last look at which the store answered.
    last: Option<Arc<Look>>,
    /// The number of the last look.
    number: Option<u64>,
    /// The store has not answered since.
    is_blind: bool,
    pending: VecDeque<LockEvent>,
    _counted: Counted,
}

// === impl Coordinator ===

impl Coordinator {
    /// Watches a lock, on this coordinator and on all others of the store.
    pub fn watch_lock(&self, name: LockName, account: &Account) -> Result<LockWatcher, Error> {
        let core = Arc::clone(&self.core);
        core.check_serving()?;
        let counted = account.count(Quota::Waiters, 1)?;
        let following = follow(&core, &name, account)?;
        Ok(LockWatcher {
            core,
            name,
            following,
            last: None,
            number: None,
            is_blind: false,
            pending: VecDeque::new(),
            _counted: counted,
        })
    }
}

// === impl LockWatcher ===

impl LockWatcher {
    /// The next event. Fails if the store cannot be read at first, or if the name is no lock's;
    /// later it waits until the store can be read again. A future that is dropped loses no event.
    pub async fn next(&mut self) -> Result<LockEvent, Error> {
        let core = Arc::clone(&self.core);
        let next = async {
            loop {
                if let Some(event) = self.pending.pop_front() {
                    return Ok(event);
                }
                self.follow().await?;
            }
        };
        tokio::select! {
            biased;
            () = core.draining.cancelled() => Err(Error::Draining),
            next = next => next,
        }
    }

    /// Waits for the next look, and queues what it shows.
    async fn follow(&mut self) -> Result<(), Error> {
        let looks = &mut self.following.changes;
        let shown = looks.borrow_and_update().clone();
        let Some(look) = shown.filter(|look| Some(look.heard.number) > self.number) else {
            // The task that looks ends after its watchers.
            return looks.changed().await.map_err(|_ended| Error::Draining);
        };
        let Some(last) = self.last.clone() else {
            let seen = look.seen.as_ref().map_err(Clone::clone)?;
            let state = described(&self.core, &self.name, seen, 0);
            self.pending.push_back(LockEvent::State(state));
            (self.number, self.last) = (Some(look.heard.number), Some(look));
            return Ok(());
        };
        if let Err(error) = &look.seen {
            if !error.is_transient() {
                return Err(error.clone().into());
            }
            (self.number, self.is_blind) = (Some(look.heard.number), true);
            return Ok(());
        }
        let mut events = self.gaps(&look);
        // A quorum takes tokens for attempts that fail, too.
        for change in changes(&last, &look, self.core.scripts.keeps_order()) {
            events.push(self.event(change, &last, &look).await);
        }
        // A forced release takes a token without a grant.
        let is_forced = |event: &LockEvent| {
            let forced = |end: &GrantEnd| matches!(end, GrantEnd::Forced { .. });
            matches!(event, LockEvent::Ended { end, .. } if forced(end))
        };
        if events.iter().any(is_forced) {
            events.retain(|event| !matches!(event, LockEvent::Gap(GapReason::Folded)));
        }
        if look.waiter_count != last.waiter_count {
            events.push(LockEvent::Waiters(look.waiter_count));
        }
        (self.number, self.is_blind) = (Some(look.heard.number), false);
        self.last = Some(look);
        self.pending.extend(events);
        Ok(())
    }

    fn gaps(&self, look: &Look) -> Vec<LockEvent> {
        let gaps = [
            (
                self.number.is_some_and(|it| look.heard.number > it + 1),
                GapReason::Behind,
            ),
            (self.is_blind, GapReason::StoreUnreachable),
            (look.heard.gap, GapReason::Unheard),
        ];
        let gaps = gaps.into_iter().filter(|(is_one, _)| *is_one);
        gaps.map(|(_, reason)| LockEvent::Gap(reason)).collect()
    }

    async fn event(&self, change: Change, last: &Look, look: &Look) -> LockEvent {
        let token = |look: &Look| look.seen.as_ref().map_or(0, |seen| seen.token);
        match change {
            Change::Folded => LockEvent::Gap(GapReason::Folded),
            Change::Freed => LockEvent::Freed {
                fencing_token: token(look),
            },
            Change::Granted(holder) => LockEvent::Granted {
                holder: holder_seen(&self.core, &self.name, &holder),
                fencing_token: token(look),
            },
            Change::Ended(holder, end) => self.ended(&holder, token(last), end).await,
        }
    }

    async fn ended(&self, holder: &Holder, fencing_token: u64, end: GrantEnd) -> LockEvent {
        let forced = self.core.scripts.forced(self.name.store_key()).await;
        // Without an answer it counts as not forced.
        let forced = forced.ok().flatten();
        let forced = forced.filter(|it| it.token == fencing_token);
        let (end, detail) = match forced {
            Some(forced) => {
                let preempted = forced.preempted;
                (GrantEnd::Forced { preempted }, forced.reason)
            }
            None => (end, String::new()),
        };
        LockEvent::Ended {
            holder: holder_seen(&self.core, &self.name, holder),
            fencing_token,
            end,
            detail,
        }
    }
}
