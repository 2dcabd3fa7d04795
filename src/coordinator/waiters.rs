//! Who waits for which lock at this coordinator, and who of them tries next.
//!
//! Each lock with local waiters has a queue, and the queue's head alone tries: when a message comes, when the holder's lease is over, and at a bounded
//! interval, because messages are only hints. So an unlock costs one attempt however many wait. The rule that keeps wake-ups from getting lost:
//! a queue with waiters always has a head that will try again after the last hint; a hint that comes while nobody looks stays with the
//! queue, and a head that leaves without a grant leaves a hint behind for the next.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};

use super::{error::Limit, types::Owner};
use crate::{
    host::{ScriptHost, Wake},
    shutdown::Tasks,
};

/// How often waiters are told of a new position, at the most; a thousand waiters more make it a second slower.
const POSITIONS_INTERVAL: Duration = Duration::from_secs(1);
const POSITIONS_PER_INTERVAL: usize = 1000;

/// A holder's lease that ends this much earlier or later than it was known to is news to those who wait.
const LEASE_NEWS: Duration = Duration::from_millis(500);

/// The queues of one coordinator.
#[derive(Debug)]
pub(crate) struct Waiters {
    host: Arc<dyn ScriptHost>,
    tasks: Tasks,
    per_lock_max: usize,
    max: usize,
    state: Mutex<State>,
    positions_changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    queues: BTreeMap<Arc<str>, Queue>,
    waiting: usize,
    next_ticket: u64,
    /// Channels whose waiters are to be told a new position.
    moved: BTreeSet<Arc<str>>,
}

/// Those who wait for one lock, by ticket, which is their order.
#[derive(Debug)]
struct Queue {
    waiters: BTreeMap<u64, Arc<Waiter>>,
    subscription: Subscription,
    /// A hint that no head has followed yet.
    hint: bool,
    /// When the holder's lease ends, as last heard; none if its key has no time to live.
    holder_until: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subscription {
    /// Under way: its task drops the queue if nobody waits when it is done.
    Pending,
    Done,
}

/// One waiting call.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) owner: Owner,
    pub(crate) since: Instant,
    head: AtomicBool,
    position: AtomicU32,
    news: Notify,
}

/// A place in a queue; dropping it leaves the queue.
#[derive(Debug)]
pub(crate) struct Place {
    waiters: Arc<Waiters>,
    channel: Arc<str>,
    ticket: u64,
    waiter: Arc<Waiter>,
    granted: bool,
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
        host: Arc<dyn ScriptHost>,
        tasks: Tasks,
        per_lock_max: usize,
        max: usize,
    ) -> Arc<Self> {
        let state = Mutex::default();
        let positions_changed = Notify::new();
        Arc::new(Self {
            host,
            tasks,
            per_lock_max,
            max,
            state,
            positions_changed,
        })
    }

    /// Queues a call up after an attempt that found the lock held until `holder_until`. The first waiter of a lock makes the coordinator
    /// subscribe, and tries again when that is confirmed.
    pub(crate) fn join(
        self: &Arc<Self>,
        channel: String,
        owner: Owner,
        holder_until: Option<Instant>,
    ) -> Result<Place, Limit> {
        let channel: Arc<str> = channel.into();
        let mut state = self.state.lock();
        if state.waiting >= self.max {
            return Err(Limit::Waiters);
        }
        let known = state.queues.get(&channel);
        let ahead = known.map_or(0, |queue| queue.waiters.len());
        if ahead >= self.per_lock_max {
            return Err(Limit::WaitersPerLock);
        }
        if known.is_none() {
            self.subscribe(&channel);
            state.queues.insert(
                Arc::clone(&channel),
                Queue {
                    waiters: BTreeMap::new(),
                    subscription: Subscription::Pending,
                    hint: false,
                    holder_until,
                },
            );
        }
        state.waiting += 1;
        state.next_ticket += 1;
        let ticket = state.next_ticket;
        let waiter = Arc::new(Waiter {
            owner,
            since: Instant::now(),
            head: AtomicBool::new(ahead == 0),
            position: AtomicU32::new(position(ahead)),
            news: Notify::new(),
        });
        if let Some(queue) = state.queues.get_mut(&channel) {
            queue.holder_until = holder_until;
            // A message may have come between the attempt and now. If somebody waited then, the head has followed it; if nobody did, the
            // subscription is still to be confirmed, and that is a hint of its own.
            queue.waiters.insert(ticket, Arc::clone(&waiter));
        }
        Ok(Place {
            waiters: Arc::clone(self),
            channel,
            ticket,
            waiter,
            granted: false,
        })
    }

    /// Those who wait on a channel, in order, at most `max` of them, and how many there are.
    pub(crate) fn list(&self, channel: &str, max: usize) -> (Vec<Arc<Waiter>>, usize) {
        let state = self.state.lock();
        state.queues.get(channel).map_or((Vec::new(), 0), |queue| {
            (
                queue.waiters.values().take(max).cloned().collect(),
                queue.waiters.len(),
            )
        })
    }

    /// How many wait at this coordinator.
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().waiting
    }

    /// Turns the host's wakes into hints until the host is gone.
    pub(crate) async fn follow(self: Arc<Self>, mut wakes: mpsc::Receiver<Wake>) {
        while let Some(wake) = wakes.recv().await {
            let mut state = self.state.lock();
            match wake {
                // Every message of a lock's channel says that it was released, whatever its number.
                Wake::Message { channel, .. } => {
                    if let Some(queue) = state.queues.get_mut(channel.as_str()) {
                        queue.wake();
                    }
                }
                Wake::Gap => state.queues.values_mut().for_each(Queue::wake),
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
                let Some(queue) = state.queues.get(&channel) else {
                    continue;
                };
                for (ahead, waiter) in queue.waiters.values().enumerate() {
                    waiter.position.store(position(ahead), Ordering::Relaxed);
                    waiter.news.notify_one();
                }
            }
        }
    }

    /// Subscribes in a task of its own, because the waiter that asked may be gone before the store has answered.
    fn subscribe(self: &Arc<Self>, channel: &Arc<str>) {
        let (this, channel) = (Arc::clone(self), Arc::clone(channel));
        self.tasks.spawn("subscribe", async move {
            if let Err(error) = this.host.subscribe(&channel).await {
                // The waiters poll, and the host sends a gap when it has succeeded.
                tracing::debug!(%channel, %error, "subscription is not confirmed yet");
            }
            let mut state = this.state.lock();
            let Some(queue) = state.queues.get_mut(&channel) else {
                return;
            };
            queue.subscription = Subscription::Done;
            queue.wake();
            this.drop_if_empty(&mut state, &channel);
        });
    }

    fn drop_if_empty(&self, state: &mut State, channel: &Arc<str>) {
        let done = state.queues.get(channel).is_some_and(|queue| {
            queue.waiters.is_empty() && queue.subscription == Subscription::Done
        });
        if done {
            state.queues.remove(channel);
            state.moved.remove(channel);
            self.host.unsubscribe(channel);
        }
    }

    fn leave(&self, place: &Place) {
        let mut state = self.state.lock();
        state.waiting -= 1;
        let mut crowd = 0;
        if let Some(queue) = state.queues.get_mut(&place.channel) {
            queue.waiters.remove(&place.ticket);
            crowd = queue.waiters.len();
            let was_head = place.waiter.head.load(Ordering::Relaxed);
            if let Some(next) = queue.waiters.values().next().filter(|_| was_head) {
                next.head.store(true, Ordering::Relaxed);
                // After a grant the lock is held again and there is nothing to try; otherwise this one may have left with a hint in hand.
                queue.hint |= !place.granted;
                next.news.notify_one();
            }
        }
        if crowd > 0 {
            self.moved(&mut state, &place.channel);
        }
        self.drop_if_empty(&mut state, &place.channel);
    }

    fn moved(&self, state: &mut State, channel: &Arc<str>) {
        state.moved.insert(Arc::clone(channel));
        self.positions_changed.notify_one();
    }
}

// === impl Queue ===

impl Queue {
    /// Leaves a hint and stirs the head.
    fn wake(&mut self) {
        self.hint = true;
        if let Some(head) = self.waiters.values().next() {
            head.news.notify_one();
        }
    }
}

// === impl Place ===

impl Place {
    /// Resolves when something may have changed: a hint, the head's role, a position.
    pub(crate) async fn news(&self) {
        self.waiter.news.notified().await;
    }

    /// Whether this waiter is the one that tries.
    pub(crate) fn is_head(&self) -> bool {
        self.waiter.head.load(Ordering::Relaxed)
    }

    /// Takes the hint, if there is one and this waiter is to follow it.
    pub(crate) fn take_hint(&self) -> bool {
        self.is_head()
            && self
                .waiters
                .state
                .lock()
                .queues
                .get_mut(&self.channel)
                .is_some_and(|queue| std::mem::take(&mut queue.hint))
    }

    /// Where this waiter stands, as far as it should be told now.
    pub(crate) fn standing(&self) -> Standing {
        let state = self.waiters.state.lock();
        let queue = state.queues.get(&self.channel);
        Standing {
            position: self.waiter.position.load(Ordering::Relaxed),
            holder_until: queue.and_then(|queue| queue.holder_until),
        }
    }

    /// An attempt of the head found the lock held until then.
    pub(crate) fn busy_until(&self, holder_until: Option<Instant>) {
        let mut state = self.waiters.state.lock();
        let Some(queue) = state.queues.get_mut(&self.channel) else {
            return;
        };
        let known = std::mem::replace(&mut queue.holder_until, holder_until);
        if lease_is_news(known, holder_until) {
            self.waiters.moved(&mut state, &self.channel);
        }
    }

    /// Leaves the queue with the lock, which is held until then at the least.
    pub(crate) fn leave_granted(mut self, holder_until: Instant) {
        self.granted = true;
        self.busy_until(Some(holder_until));
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
