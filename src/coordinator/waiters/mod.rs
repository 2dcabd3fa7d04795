//! Who waits for which lock at this coordinator, and who of them tries next.
//!
//! Those who wait for the same thing on one channel stand in a line, and its head alone tries: when
//! a message comes, when the holder's lease is over, and at a bounded interval, because messages
//! are only hints. So an unlock costs one attempt however many wait. The rule that keeps wake-ups
//! from getting lost: a line with waiters always has a head that will try again after the last
//! hint; a hint that comes while nobody looks stays with the line, and a head that leaves without a
//! grant, or with one that leaves room for more, leaves a hint behind for the next.
//!
//! Readers and writers of a lock stand in two lines, so that neither keeps the others from trying.
//! A waiter of a fair lock has a channel and a line of its own, because the store knows who comes
//! next; see [`fair`].

pub(crate) mod fair;
pub(crate) mod hand_on;
pub(crate) mod offer;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};
use tracing::Span;

use lockkeeper_base::tasks::Tasks;
use lockkeeper_store::{
    host::{Subscriptions, Wake},
    script::{self, Mode, keys},
};

use crate::types::Goal;
use crate::{
    error::Limit,
    events::{Event, Events, What},
    metrics::{self, Heard, Source},
    types::{LockName, Owner},
    waiters::hand_on::OwnReleases,
};

/// How often waiters are told of a new position, at the most; a thousand waiters more make it a
/// second slower.
const POSITIONS_INTERVAL: Duration = Duration::from_secs(1);
const POSITIONS_PER_INTERVAL: usize = 1000;

/// A holder's lease that ends this much earlier or later than it was known to is news to those who
/// wait.
const LEASE_NEWS: Duration = Duration::from_millis(500);

/// In place of what is seen of a latch.
const NOT_SEEN: i64 = -1;

/// The lines of one coordinator.
#[derive(Debug)]
pub(crate) struct Waiters {
    host: Subscriptions,
    events: Arc<Events>,
    tasks: Tasks,
    per_lock_max: usize,
    max: usize,
    metrics: metrics::Shared,
    state: Mutex<State>,
    positions_changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    channels: BTreeMap<Arc<str>, Channel>,
    /// Waiters of fair locks, whose channels are their own.
    fair: BTreeMap<LockName, BTreeMap<u64, Arc<Waiter>>>,
    waiting: usize,
    next_ticket: u64,
    /// Channels whose waiters are to be told a new position.
    moved: BTreeSet<Arc<str>>,
}

#[derive(Debug)]
struct Channel {
    subscription: Subscription,
    lines: BTreeMap<Goal, Line>,
    own_releases: OwnReleases,
    /// When the last release was heard of that nobody has been granted the lock after.
    released: Option<(Instant, Heard, Span)>,
}

/// Those who wait for the same thing, by ticket, which is their order.
#[derive(Debug, Default)]
struct Line {
    waiters: BTreeMap<u64, Arc<Waiter>>,
    /// A hint that no head has followed yet.
    hint: bool,
    /// The head makes an attempt.
    trying: bool,
    /// Becomes a hint if that attempt does not get the lock.
    hint_unless_granted: bool,
    /// Waits of this line that ended with what they were for.
    granted: u64,
    /// When the holder's lease ends, as last heard; none if its key has no time to live.
    holder_until: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subscription {
    /// Under way: its task drops the channel if nobody waits when it is done.
    Pending,
    Done,
}

/// One waiting call.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) name: LockName,
    pub(crate) owner: Owner,
    pub(crate) goal: Goal,
    pub(crate) since: Instant,
    head: AtomicBool,
    /// It tries with nothing that has to be looked up before it gets a lock.
    takes_offers: AtomicBool,
    position: AtomicU32,
    news: Notify,
    /// What the head has last seen of a latch, if it looked after this one had come.
    seen: AtomicI64,
}

/// A place in a line; dropping it leaves the line.
#[derive(Debug)]
pub(crate) struct Place {
    waiters: Arc<Waiters>,
    channel: Arc<str>,
    ticket: u64,
    waiter: Arc<Waiter>,
    /// Left with what it waited for, and nothing of it remains for the next.
    took_all: bool,
}

/// What a waiter is told: 1 is the next to try, and when the holder's lease ends, if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) position: u32,
    pub(crate) holder_until: Option<Instant>,
}

// === impl Waiters ===

impl Waiters {
    pub(crate) fn new(
        host: Subscriptions,
        events: Arc<Events>,
        tasks: Tasks,
        per_lock_max: usize,
        max: usize,
        metrics: metrics::Shared,
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

    /// Queues a call up after an attempt that found the lock held until `holder_until`; `place` is
    /// that in the store's queue, if it is known. The first waiter of a channel makes the
    /// coordinator subscribe, and tries again when that is confirmed.
    pub(crate) fn join(
        self: &Arc<Self>,
        name: &LockName,
        goal: Goal,
        owner: Owner,
        holder_until: Option<Instant>,
        place: Option<u32>,
    ) -> Result<Place, Limit> {
        let channel = channel(name, goal, &owner);
        let mut state = self.state.lock();
        if state.waiting >= self.max {
            return Err(Limit::Waiters);
        }
        let known = state.channels.get_key_value(channel.as_str());
        let ahead = known
            .and_then(|(_, channel)| channel.lines.get(&goal))
            .map_or(0, |line| line.waiters.len());
        let fair = state.fair.get(name).map_or(0, BTreeMap::len);
        if ahead.max(fair) >= self.per_lock_max {
            return Err(Limit::WaitersPerLock);
        }
        let known_to_others = known.is_some();
        let channel = known.map_or_else(|| channel.into(), |(channel, _)| Arc::clone(channel));
        if !known_to_others {
            self.subscribe(&channel);
        }
        state.waiting += 1;
        state.next_ticket += 1;
        let ticket = state.next_ticket;
        let waiter = Arc::new(Waiter {
            name: name.clone(),
            owner,
            goal,
            since: Instant::now(),
            head: AtomicBool::new(ahead == 0),
            takes_offers: AtomicBool::new(false),
            position: AtomicU32::new(place.unwrap_or_else(|| position(ahead.max(fair)))),
            news: Notify::new(),
            seen: AtomicI64::new(NOT_SEEN),
        });
        let entry = state.channels.entry(Arc::clone(&channel));
        let lines = &mut entry
            .or_insert_with(|| Channel {
                subscription: Subscription::Pending,
                lines: BTreeMap::new(),
                own_releases: OwnReleases::default(),
                released: None,
            })
            .lines;
        // A message may have come between the attempt and now. If somebody waited in this line
        // then, the head has followed it; if nobody did, either the subscription is still to be
        // confirmed, and that is a hint of its own, or nobody would follow it but this one.
        let line = lines.entry(goal).or_insert_with(|| Line {
            hint: known_to_others,
            ..Line::default()
        });
        line.holder_until = holder_until;
        line.waiters.insert(ticket, Arc::clone(&waiter));
        self.events
            .tell(|| Event::of_wait(What::WaitBegan, &waiter));
        if goal == Goal::Lock(Mode::Fair) {
            let others = state.fair.entry(name.clone()).or_default();
            others.insert(ticket, Arc::clone(&waiter));
        }
        Ok(Place {
            waiters: Arc::clone(self),
            channel,
            ticket,
            waiter,
            took_all: false,
        })
    }

    /// Those who wait for a lock here, in order, at most `max` of each mode, and how many there are
    /// that do not stand in a queue of the store.
    pub(crate) fn list(&self, name: &LockName, max: usize) -> (Vec<Arc<Waiter>>, usize) {
        let state = self.state.lock();
        let channels = [
            keys::channel(name.as_str()),
            keys::rw_channel(name.as_str()),
        ];
        let lines = channels
            .iter()
            .filter_map(|channel| state.channels.get(channel.as_str()))
            .flat_map(|channel| channel.lines.values().map(|line| &line.waiters));
        let count = lines.clone().map(BTreeMap::len).sum();
        let listed = lines
            .chain(state.fair.get(name))
            .flat_map(|waiters| waiters.values().take(max).cloned());
        (listed.collect(), count)
    }

    /// Those who wait here for permits or for a latch, in order, at most `max`, and how many there
    /// are.
    pub(crate) fn list_for(
        &self,
        name: &LockName,
        goal: Goal,
        max: usize,
    ) -> (Vec<Arc<Waiter>>, usize) {
        let channel = match goal {
            Goal::Permits => keys::permit_channel(name.as_str()),
            Goal::Latch => keys::latch_channel(name.as_str()),
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

    /// Has the heads on a channel look at once, for a change that nothing is published of.
    pub(crate) fn hint(&self, channel: &str) {
        if let Some(channel) = self.state.lock().channels.get_mut(channel) {
            channel.wake();
        }
    }

    /// Whether somebody else here relies on what a waiter has left in the store: the same owner's
    /// place in the queue of a fair lock, or the mark of a writer.
    pub(crate) fn others_want(&self, name: &LockName, mode: Mode, owner: &Owner) -> bool {
        let goal = Goal::Lock(mode);
        let state = self.state.lock();
        state
            .channels
            .get(channel(name, goal, owner).as_str())
            .is_some_and(|channel| channel.lines.contains_key(&goal))
    }

    /// All that wait here and are wanted, as if they had just begun.
    pub(crate) fn retell(&self, to: &mut Vec<Event>, wanted: impl Fn(&LockName) -> bool) {
        let state = self.state.lock();
        let lines = state.channels.values().flat_map(|it| it.lines.values());
        let waiters = lines.flat_map(|line| line.waiters.values());
        let wanted = waiters.filter(|waiter| wanted(&waiter.name));
        to.extend(wanted.map(|waiter| Event::of_wait(What::WaitBegan, waiter)));
    }

    /// How many wait at this coordinator.
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().waiting
    }

    /// Turns a wake of the host into hints.
    pub(crate) fn follow(&self, wake: &Wake) {
        let mut state = self.state.lock();
        match wake {
            // Every other message of a lock's channel says that it was released, whatever its
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

    /// Tells waiters of a new position or a longer lease, at most once an interval, until stopped.
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
                    // Where a waiter of a fair lock stands the store says.
                    if waiter.goal != Goal::Lock(Mode::Fair) {
                        waiter.position.store(position(ahead), Ordering::Relaxed);
                    }
                    waiter.news.notify_one();
                }
            }
        }
    }

    /// Subscribes in a task of its own, because the waiter that asked may be gone before the store
    /// has answered.
    fn subscribe(self: &Arc<Self>, channel: &Arc<str>) {
        let (this, channel) = (Arc::clone(self), Arc::clone(channel));
        self.tasks.spawn("subscribe", async move {
            if let Err(error) = this.host.subscribe(&channel).await {
                // The waiters poll, and the host sends a gap when it has succeeded.
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

    fn leave(&self, place: &Place) {
        let mut state = self.state.lock();
        state.waiting -= 1;
        let goal = place.waiter.goal;
        let mut crowd = 0;
        if let Some(channel) = state.channels.get_mut(&place.channel) {
            if let Some(line) = channel.lines.get_mut(&goal) {
                line.remove(place);
                crowd = line.waiters.len();
            }
            if crowd == 0 {
                channel.lines.remove(&goal);
            }
        }
        let name = &place.waiter.name;
        if let Some(waiters) = state.fair.get_mut(name) {
            waiters.remove(&place.ticket);
            if waiters.is_empty() {
                state.fair.remove(name);
            }
        }
        if crowd > 0 {
            self.moved(&mut state, &place.channel);
        }
        self.events
            .tell(|| Event::of_wait(What::WaitEnded, &place.waiter));
        self.drop_if_empty(&mut state, &place.channel);
    }

    fn moved(&self, state: &mut State, channel: &Arc<str>) {
        state.moved.insert(Arc::clone(channel));
        self.positions_changed.notify_one();
    }
}

/// Where waiters learn of releases.
fn channel(name: &LockName, goal: Goal, owner: &Owner) -> String {
    match goal {
        Goal::Lock(Mode::Exclusive) => keys::channel(name.as_str()),
        Goal::Lock(Mode::Fair) => keys::fair_channel(name.as_str(), owner.field()),
        Goal::Lock(Mode::Read | Mode::Write) => keys::rw_channel(name.as_str()),
        Goal::Permits => keys::permit_channel(name.as_str()),
        Goal::Latch => keys::latch_channel(name.as_str()),
    }
}

// === impl Channel ===

impl Channel {
    /// Leaves hints and stirs the heads.
    fn wake(&mut self) {
        for line in self.lines.values_mut() {
            line.hint = true;
            if let Some(head) = line.waiters.values().next() {
                head.news.notify_one();
            }
        }
    }
}

// === impl Line ===

impl Line {
    fn remove(&mut self, place: &Place) {
        self.waiters.remove(&place.ticket);
        if !place.waiter.head.load(Ordering::Relaxed) {
            return;
        }
        (self.trying, self.hint_unless_granted) = (false, false);
        self.granted += u64::from(place.took_all);
        if let Some(next) = self.waiters.values().next() {
            next.head.store(true, Ordering::Relaxed);
            // This one may have left with a hint in hand, or with a share of what there is.
            self.hint |= !place.took_all;
            next.news.notify_one();
        }
    }

    /// The head tries, which follows a hint if there is one. True if there was.
    fn begin_try(&mut self) -> bool {
        self.trying = true;
        std::mem::take(&mut self.hint)
    }

    /// The head's attempt got nothing.
    fn tried_in_vain(&mut self) {
        self.trying = false;
        self.hint |= std::mem::take(&mut self.hint_unless_granted);
    }
}

// === impl Waiter ===

impl Waiter {
    fn takes_offers(&self) -> bool {
        self.takes_offers.load(Ordering::Relaxed)
    }
}

// === impl Place ===

impl Place {
    /// This waiter may be given a lock as soon as another gives it back, see [`Place::take_over`].
    pub(crate) fn take_offers(&self) {
        self.waiter.takes_offers.store(true, Ordering::Relaxed);
    }

    /// Resolves when something may have changed: a hint, the head's role, a position.
    pub(crate) async fn news(&self) {
        self.waiter.news.notified().await;
    }

    /// Whether this waiter is the one that tries without a hint too. Of a fair lock there is one in
    /// the whole store.
    pub(crate) fn is_next(&self) -> bool {
        let head = self.waiter.head.load(Ordering::Relaxed);
        let first = || self.waiter.position.load(Ordering::Relaxed) == 1;
        head && (self.waiter.goal != Goal::Lock(Mode::Fair) || first())
    }

    /// Whether there is a hint and this waiter is to follow it, which it does now.
    pub(crate) fn follows_hint(&self) -> bool {
        self.waiter.head.load(Ordering::Relaxed)
            && self
                .waiters
                .state
                .lock()
                .line(self)
                .is_some_and(|line| line.hint && line.begin_try())
    }

    /// This waiter tries now, hint or not.
    pub(crate) fn begin_try(&self) {
        if self.waiter.head.load(Ordering::Relaxed)
            && let Some(line) = self.waiters.state.lock().line(self)
        {
            line.begin_try();
        }
    }

    /// An attempt had no outcome.
    pub(crate) fn no_outcome(&self) {
        if let Some(line) = self.waiters.state.lock().line(self) {
            line.tried_in_vain();
        }
    }

    /// Where this waiter stands, as far as it should be told now.
    pub(crate) fn standing(&self) -> Standing {
        let mut state = self.waiters.state.lock();
        let line = state.line(self);
        Standing {
            position: self.waiter.position.load(Ordering::Relaxed),
            holder_until: line.and_then(|line| line.holder_until),
        }
    }

    /// An attempt of the head found the lock held until then, and its own place in the store's
    /// queue if that is known.
    pub(crate) fn busy_until(&self, holder_until: Option<Instant>, place: Option<u32>) {
        if let Some(place) = place {
            self.waiter.position.store(place, Ordering::Relaxed);
        }
        let mut state = self.waiters.state.lock();
        let Some(line) = state.line(self) else {
            return;
        };
        line.tried_in_vain();
        let (known, is_over) = (
            std::mem::replace(&mut line.holder_until, holder_until),
            !line.hint,
        );
        if is_over && let Some(channel) = state.channels.get_mut(&self.channel) {
            channel.released = None;
        }
        if lease_is_news(known, holder_until) {
            self.waiters.moved(&mut state, &self.channel);
        }
    }

    /// Leaves with the lock, which is held until then at the least. Readers leave room for more.
    pub(crate) fn leave_granted(mut self, holder_until: Instant) {
        self.took_all = self.waiter.goal != Goal::Lock(Mode::Read);
        let mut state = self.waiters.state.lock();
        let Some(line) = state.line(&self) else {
            return;
        };
        let known = line.holder_until.replace(holder_until);
        self.handed_over(&mut state);
        if lease_is_news(known, Some(holder_until)) {
            self.waiters.moved(&mut state, &self.channel);
        }
    }

    /// Leaves with permits, after which none are left if `took_all`.
    pub(crate) fn leave_with_permits(mut self, took_all: bool) {
        self.took_all = took_all;
        self.handed_over(&mut self.waiters.state.lock());
    }

    fn handed_over(&self, state: &mut State) {
        let channel = state.channels.get_mut(&self.channel);
        if let Some((released_at, heard, span)) = channel.and_then(|it| it.released.take()) {
            self.waiters.metrics.handed_over(heard, released_at);
            Span::current().follows_from(&span);
        }
    }

    /// Those who have come so far: what is seen of a latch from now on is true for them.
    pub(crate) fn begin_look(&self) -> u64 {
        self.waiters.state.lock().next_ticket
    }

    /// Tells those who had come when the look at a latch began what was seen.
    pub(crate) fn tell_seen(&self, begun: u64, count: u32) {
        let mut state = self.waiters.state.lock();
        let Some(line) = state.line(self) else {
            return;
        };
        for waiter in line.waiters.range(..=begun).map(|(_, waiter)| waiter) {
            if waiter.seen.swap(count.into(), Ordering::Relaxed) != i64::from(count) {
                waiter.news.notify_one();
            }
        }
    }

    /// What was last seen of a latch since this one waits.
    pub(crate) fn seen(&self) -> Option<u32> {
        u32::try_from(self.waiter.seen.load(Ordering::Relaxed)).ok()
    }
}

// === impl State ===

impl State {
    /// Where an exclusive lock's waiters are, if there are any. Mostly nobody waits for anything.
    fn channel_of(&mut self, name: &LockName) -> Option<&mut Channel> {
        if self.channels.is_empty() {
            return None;
        }
        self.channels.get_mut(keys::channel(name.as_str()).as_str())
    }

    fn line(&mut self, place: &Place) -> Option<&mut Line> {
        let channel = self.channels.get_mut(&place.channel)?;
        channel.lines.get_mut(&place.waiter.goal)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        Arc::clone(&self.waiters).leave(self);
    }
}

// === impl Standing ===

impl Standing {
    /// Whether somebody who was told `before` should be told this.
    pub(crate) fn is_news(self, before: Self) -> bool {
        self.position != before.position || lease_is_news(before.holder_until, self.holder_until)
    }
}

/// Moments that are computed from remaining times differ by a little even if nothing happened.
fn lease_is_news(before: Option<Instant>, after: Option<Instant>) -> bool {
    match (before, after) {
        (Some(before), Some(after)) => after > before + LEASE_NEWS || before > after + LEASE_NEWS,
        (before, after) => before.is_some() != after.is_some(),
    }
}

fn position(ahead: usize) -> u32 {
    u32::try_from(ahead).unwrap_or(u32::MAX).saturating_add(1)
}
