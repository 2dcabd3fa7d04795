//! The lines of one coordinator: joining, leaving, and following the store's wakes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use lockkeeper_access::Account;
use lockkeeper_base::tasks::Tasks;
use lockkeeper_store::{
    host::{Subscriptions, Wake},
    script::{self, Mode, keys},
};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};
use tracing::Span;

use crate::{
    error::{Error, Limit},
    events::{Event, Events, What},
    metrics::{
        families::Shared,
        labels::{Heard, Source},
    },
    types::{Goal, HolderKnown, LockName, Owner},
    waiters::callers::Callers,
    waiters::line::{Channel, Line, Subscription, Waiter},
};

/// Minimum interval between position notifications; each thousand waiters add a second.
const POSITIONS_INTERVAL: Duration = Duration::from_secs(1);

const POSITIONS_PER_INTERVAL: usize = 1000;

/// The lines of one coordinator.
#[derive(Debug)]
pub(crate) struct Waiters {
    pub(crate) host: Subscriptions,
    pub(crate) events: Arc<Events>,
    pub(crate) tasks: Tasks,
    pub(crate) per_lock_max: usize,
    pub(crate) max: usize,
    pub(crate) metrics: Shared,
    pub(crate) state: Mutex<State>,
    pub(crate) positions_changed: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) channels: BTreeMap<Arc<str>, Channel>,
    /// Waiters of fair locks; each has its own channel.
    pub(crate) fair: BTreeMap<LockName, FairWaiters>,
    pub(crate) waiting: usize,
    pub(crate) callers: Callers,
    pub(crate) next_ticket: u64,
    /// Channels whose waiters need a new position.
    pub(crate) moved: BTreeSet<Arc<str>>,
}

/// The waiters of one fair lock here, in order of arrival, and how many of its next releases are
/// not offered to them.
#[derive(Debug, Default)]
pub(crate) struct FairWaiters {
    pub(crate) waiters: BTreeMap<u64, Arc<Waiter>>,
    pub(crate) not_offered: u32,
}

/// A ticket in a line; dropping it leaves the line.
#[derive(Debug)]
pub(crate) struct QueueTicket {
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) channel: Arc<str>,
    pub(crate) ticket: u64,
    pub(crate) waiter: Arc<Waiter>,
    /// The waiter left with what it waited for, and nothing remains for the next.
    pub(crate) took_all: bool,
}

// === impl Waiters ===

impl Waiters {
    pub(crate) fn new(
        host: Subscriptions,
        events: Arc<Events>,
        tasks: Tasks,
        per_lock_max: usize,
        max: usize,
        metrics: Shared,
    ) -> Arc<Self> {
        let state = Mutex::default();
        let positions_changed = Notify::new();
        Arc::new(Self {
            host,
            events,
            tasks,
            per_lock_max,
            max,
            metrics,
            state,
            positions_changed,
        })
    }

    /// Queues a call after an attempt that found the lock held by `holder`; `place` is the
    /// position in the store's queue, if known. The first waiter of a channel makes the coordinator
    /// subscribe, and retries when that is confirmed.
    pub(crate) fn join(
        self: &Arc<Self>,
        name: &LockName,
        goal: Goal,
        (owner, account): (Owner, &Account),
        holder: HolderKnown,
        place: Option<u32>,
    ) -> Result<QueueTicket, Error> {
        self.join_up_to(self.max, name, goal, (owner, account), holder, place)
    }

    /// The same for a waiter that leaves another line for this one, so it is counted already.
    pub(crate) fn move_to(
        self: &Arc<Self>,
        name: &LockName,
        goal: Goal,
        caller: (Owner, &Account),
        holder: HolderKnown,
    ) -> Result<QueueTicket, Error> {
        self.join_up_to(self.max + 1, name, goal, caller, holder, None)
    }

    fn join_up_to(
        self: &Arc<Self>,
        max: usize,
        name: &LockName,
        goal: Goal,
        (owner, account): (Owner, &Account),
        holder: HolderKnown,
        place: Option<u32>,
    ) -> Result<QueueTicket, Error> {
        let channel = channel(name, goal, &owner);
        let mut state = self.state.lock();
        if state.waiting >= max {
            return Err(Error::LimitReached(Limit::Waiters));
        }
        let state = &mut *state;
        let known = state.channels.get_key_value(channel.as_str());
        let ahead = known
            .and_then(|(_, channel)| channel.lines.get(&goal))
            .map_or(0, |line| line.waiters.len());
        let fair = state.fair.get(name).map_or(0, |fair| fair.waiters.len());
        if ahead.max(fair) >= self.per_lock_max {
            return Err(Error::LimitReached(Limit::WaitersPerLock));
        }
        let caller = state.callers.join(name, account)?;
        let known_to_others = known.is_some();
        let channel = known.map_or_else(|| channel.into(), |(channel, _)| Arc::clone(channel));
        if !known_to_others {
            self.subscribe(&channel);
        }
        if goal != Goal::Latch {
            self.metrics.wait_began(name);
        }
        state.waiting += 1;
        state.next_ticket += 1;
        let ticket = state.next_ticket;
        let place = place.unwrap_or_else(|| position(ahead.max(fair)));
        let waiter = Arc::new(Waiter::new(name, goal, (owner, caller), ahead == 0, place));
        let entry = state.channels.entry(Arc::clone(&channel));
        let lines = &mut entry.or_default().lines;
        // A message may have arrived between the attempt and now. If the line had a waiter then,
        // the head has followed it. If not, the unconfirmed subscription is a hint of its own, or
        // only this waiter would follow the message.
        let line = lines.entry(goal).or_insert_with(|| {
            if known_to_others {
                waiter.news.notify_one();
            }
            Line {
                hint: known_to_others,
                ..Line::default()
            }
        });
        line.holder = holder;
        line.waiters.insert(ticket, Arc::clone(&waiter));
        self.events.tell(|| waiter.event(What::WaitBegan));
        if goal == Goal::Lock(Mode::Fair) {
            let others = state.fair.entry(name.clone()).or_default();
            others.waiters.insert(ticket, Arc::clone(&waiter));
        }
        Ok(QueueTicket {
            waiters: Arc::clone(self),
            channel,
            ticket,
            waiter,
            took_all: false,
        })
    }

    /// The waiters for a lock here, in order, at most `max` per mode, and the number of those
    /// without a queue entry in the store.
    pub(crate) fn list(&self, name: &LockName, max: usize) -> (Vec<Arc<Waiter>>, usize) {
        let state = self.state.lock();
        let channels = [
            keys::channel(name.store_key()),
            keys::rw_channel(name.store_key()),
        ];
        let lines = channels
            .iter()
            .filter_map(|channel| state.channels.get(channel.as_str()))
            .flat_map(|channel| channel.lines.values().map(|line| &line.waiters));
        let count = lines.clone().map(BTreeMap::len).sum();
        let listed = lines
            .chain(state.fair.get(name).map(|fair| &fair.waiters))
            .flat_map(|waiters| waiters.values().take(max).cloned());
        (listed.collect(), count)
    }

    /// The waiters here for permits or for a latch, in order, at most `max`, and their number.
    pub(crate) fn list_for(
        &self,
        name: &LockName,
        goal: Goal,
        max: usize,
    ) -> (Vec<Arc<Waiter>>, usize) {
        let channel = match goal {
            Goal::Permits => keys::permit_channel(name.store_key()),
            Goal::Latch => keys::latch_channel(name.store_key()),
            Goal::Lock(_) => return self.list(name, max),
        };
        let state = self.state.lock();
        let line = state
            .channels
            .get(channel.as_str())
            .and_then(|channel| channel.lines.get(&goal));
        line.map_or((Vec::new(), 0), |line| {
            let listed = line.waiters.values().take(max).cloned();
            (listed.collect(), line.waiters.len())
        })
    }

    /// Wakes the heads on a channel, for a change that publishes nothing.
    pub(crate) fn hint(&self, channel: &str) {
        if let Some(channel) = self.state.lock().channels.get_mut(channel) {
            channel.wake();
        }
    }

    /// Whether another waiter here relies on what this one left in the store. That is the same
    /// owner's entry in the queue of a fair lock, or the mark of a writer.
    pub(crate) fn others_want(&self, name: &LockName, mode: Mode, owner: &Owner) -> bool {
        let goal = Goal::Lock(mode);
        let state = self.state.lock();
        state
            .channels
            .get(channel(name, goal, owner).as_str())
            .is_some_and(|channel| channel.lines.contains_key(&goal))
    }

    /// Emits all wanted waits here, as if they had just begun.
    pub(crate) fn retell(&self, to: &mut Vec<Event>, wanted: impl Fn(&LockName) -> bool) {
        let state = self.state.lock();
        let lines = state.channels.values().flat_map(|it| it.lines.values());
        let waiters = lines.flat_map(|line| line.waiters.values());
        let wanted = waiters.filter(|waiter| wanted(&waiter.name));
        to.extend(wanted.map(|waiter| waiter.event(What::WaitBegan)));
    }

    /// The number of waiters at this coordinator.
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().waiting
    }

    /// Turns a wake of the host into hints.
    pub(crate) fn follow(&self, wake: &Wake) {
        let mut state = self.state.lock();
        match wake {
            // Every other message of a lock's channel means that it was released, whatever its
            // number.
            Wake::Message { payload, .. } if !script::wakes(payload) => {}
            Wake::Message { channel, .. } => {
                if let Some(channel) = state.channels.get_mut(channel.as_str())
                    && !channel.own_releases.announced()
                {
                    self.metrics.woken(Source::Message);
                    channel.released = Some((Instant::now(), Heard::Message, Span::none()));
                    channel.wake();
                }
            }
            Wake::Gap | Wake::TakenOver => {
                self.metrics.woken(Source::Gap);
                for channel in state.channels.values_mut() {
                    channel.own_releases.forget();
                    channel.wake();
                }
            }
        }
    }

    /// Notifies waiters of a new position or a longer lease, at most once an interval, until
    /// stopped.
    pub(crate) async fn tell_positions(self: Arc<Self>) {
        let stop = self.tasks.stop().clone();
        loop {
            let changed = stop.run_until_cancelled(self.positions_changed.notified());
            if changed.await.is_none() {
                return;
            }
            let crowd = self.waiting() / POSITIONS_PER_INTERVAL;
            let interval = POSITIONS_INTERVAL * u32::try_from(crowd + 1).unwrap_or(u32::MAX);
            if stop
                .run_until_cancelled(tokio::time::sleep(interval))
                .await
                .is_none()
            {
                return;
            }
            let mut state = self.state.lock();
            for channel in std::mem::take(&mut state.moved) {
                let Some(channel) = state.channels.get(&channel) else {
                    continue;
                };
                let lines = channel.lines.values().map(|line| &line.waiters);
                for (ahead, waiter) in lines.flat_map(|waiters| waiters.values().enumerate()) {
                    // The store decides the position of a fair lock's waiter.
                    if waiter.goal != Goal::Lock(Mode::Fair) {
                        waiter.position.store(position(ahead), Ordering::Relaxed);
                    }
                    waiter.news.notify_one();
                }
            }
        }
    }

    /// Subscribes in a background task, because the waiter may leave before the store answers.
    fn subscribe(self: &Arc<Self>, channel: &Arc<str>) {
        let (this, channel) = (Arc::clone(self), Arc::clone(channel));
        self.tasks.spawn("subscribe", async move {
            if let Err(error) = this.host.subscribe(&channel).await {
                // The waiters poll, and the host sends a gap once it has succeeded.
                tracing::debug!(%channel, %error, "subscription is not confirmed yet");
            }
            let mut state = this.state.lock();
            let Some(waiting) = state.channels.get_mut(&channel) else {
                return;
            };
            waiting.subscription = Subscription::Done;
            this.metrics.woken(Source::Subscribed);
            waiting.wake();
            this.drop_if_empty(&mut state, &channel);
        });
    }

    fn drop_if_empty(&self, state: &mut State, channel: &Arc<str>) {
        let done = state.channels.get(channel).is_some_and(|channel| {
            channel.lines.is_empty() && channel.subscription == Subscription::Done
        });
        if done {
            state.channels.remove(channel);
            state.moved.remove(channel);
            self.host.unsubscribe(channel);
        }
    }

    fn leave(&self, place: &QueueTicket) {
        if place.waiter.goal != Goal::Latch {
            let waited = place.waiter.since.elapsed();
            self.metrics.wait_ended(&place.waiter.name, waited);
        }
        let mut state = self.state.lock();
        state.waiting -= 1;
        let goal = place.waiter.goal;
        let mut crowd = 0;
        if let Some(channel) = state.channels.get_mut(&place.channel) {
            if let Some(line) = channel.lines.get_mut(&goal) {
                line.remove(place.ticket, &place.waiter, place.took_all);
                crowd = line.waiters.len();
            }
            if crowd == 0 {
                channel.lines.remove(&goal);
            }
        }
        let name = &place.waiter.name;
        if let Some(caller) = &place.waiter.caller {
            state.callers.leave(name, caller);
        }
        if let Some(fair) = state.fair.get_mut(name) {
            fair.waiters.remove(&place.ticket);
            if fair.waiters.is_empty() {
                state.fair.remove(name);
            }
        }
        if crowd > 0 {
            self.moved(&mut state, &place.channel);
        }
        self.events.tell(|| place.waiter.event(What::WaitEnded));
        self.drop_if_empty(&mut state, &place.channel);
    }

    pub(crate) fn moved(&self, state: &mut State, channel: &Arc<str>) {
        state.moved.insert(Arc::clone(channel));
        self.positions_changed.notify_one();
    }
}

/// The channel on which waiters hear of releases.
pub(crate) fn channel(name: &LockName, goal: Goal, owner: &Owner) -> String {
    match goal {
        Goal::Lock(Mode::Exclusive) => keys::channel(name.store_key()),
        Goal::Lock(Mode::Fair) => keys::fair_channel(name.store_key(), owner.field()),
        Goal::Lock(Mode::Read | Mode::Write) => keys::rw_channel(name.store_key()),
        Goal::Permits => keys::permit_channel(name.store_key()),
        Goal::Latch => keys::latch_channel(name.store_key()),
    }
}

// === impl State ===

impl State {
    /// The channel of an exclusive lock's waiters, if any. Mostly nobody waits for anything.
    pub(crate) fn channel_of(&mut self, name: &LockName) -> Option<&mut Channel> {
        if self.channels.is_empty() {
            return None;
        }
        self.channels
            .get_mut(keys::channel(name.store_key()).as_str())
    }

    pub(crate) fn line(&mut self, place: &QueueTicket) -> Option<&mut Line> {
        let channel = self.channels.get_mut(&place.channel)?;
        channel.lines.get_mut(&place.waiter.goal)
    }
}

// === impl QueueTicket ===

impl Drop for QueueTicket {
    fn drop(&mut self) {
        Arc::clone(&self.waiters).leave(self);
    }
}

fn position(ahead: usize) -> u32 {
    u32::try_from(ahead).unwrap_or(u32::MAX).saturating_add(1)
}
