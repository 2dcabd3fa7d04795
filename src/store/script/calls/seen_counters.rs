//! What this process has seen of fencing counters: enough to make the next token of a name without
//! asking the store for its counter and its time.

use std::{hash::BuildHasher as _, time::Duration};

use foldhash::fast::FixedState;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The age of the store's time at which it is asked for again. So often a name in use also has the
/// time to live of its counter renewed.
const TIME_AGE_MAX: Duration = Duration::from_secs(1);

/// The time of an answer that took longer is not used: it may be late by as much.
const ANSWER_TIME_MAX: Duration = Duration::from_millis(50);

/// From here on a script cannot tell a number from the next one.
const COUNTERS_END: u64 = (1 << 53) - 1;

/// Names that are remembered. Two that share a place push each other out.
const PLACES: usize = 4096;

/// Counters that were seen of late. What it says is never wrong about a token, because scripts
/// compare it with the counter.
#[derive(Debug)]
pub(crate) struct SeenCounters {
    places: Box<[Mutex<Option<Seen>>]>,
}

/// A counter.
#[derive(Clone, Copy, Debug)]
struct Seen {
    name: u64,
    counter: u64,
    /// Its token that was the store's time in microseconds, and when that was known.
    time: u64,
    known_at: Instant,
    /// The name was in use at the last attempt that did without a script.
    was_refused: bool,
}

/// How to make the next token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// What to add to the counter.
    pub(crate) by: u64,
    /// What the counter then is, if nobody else has changed it.
    pub(crate) to: u64,
}

// === impl SeenCounters ===

impl SeenCounters {
    pub(crate) fn new() -> Self {
        Self {
            places: (0..PLACES).map(|_| Mutex::default()).collect(),
        }
    }

    /// The step from the counter that was seen last to the store's time, or by one if that is less.
    pub(crate) fn next(&self, name: &str) -> Option<Step> {
        let (seen, age) = self.seen(name)?;
        seen.step_from(seen.counter, age)
    }

    /// The same, unless the last attempt that did without a script was refused: the next one may be
    /// too, and then a script costs less, which also says how long the lock is held.
    pub(crate) fn next_if_free(&self, name: &str) -> Option<Step> {
        let (seen, age) = self.seen(name).filter(|(seen, _age)| !seen.was_refused)?;
        seen.step_from(seen.counter, age)
    }

    /// The step from this counter.
    pub(crate) fn next_after(&self, name: &str, counter: u64) -> Option<Step> {
        let (seen, age) = self.seen(name)?;
        seen.step_from(counter, age)
    }

    /// The store's time was the token, when a call was answered that was sent then.
    pub(crate) fn set(&self, name: &str, token: u64, sent_at: Instant) {
        let known_at = Instant::now();
        let (hash, place) = self.place(name);
        let is_exact = known_at.duration_since(sent_at) <= ANSWER_TIME_MAX;
        *place.lock() = is_exact.then_some(Seen {
            name: hash,
            counter: token,
            time: token,
            known_at,
            was_refused: false,
        });
    }

    /// A step was made.
    pub(crate) fn stepped(&self, name: &str, to: u64) {
        let (hash, place) = self.place(name);
        if let Some(seen) = place.lock().as_mut().filter(|seen| seen.name == hash) {
            seen.counter = seen.counter.max(to);
            seen.was_refused = false;
        }
    }

    /// An attempt that did without a script was refused.
    pub(crate) fn refused(&self, name: &str) {
        let (hash, place) = self.place(name);
        if let Some(seen) = place.lock().as_mut().filter(|seen| seen.name == hash) {
            seen.was_refused = true;
        }
    }

    /// The counter is not what it was.
    pub(crate) fn forget(&self, name: &str) {
        *self.place(name).1.lock() = None;
    }

    /// What was seen, and how long ago.
    fn seen(&self, name: &str) -> Option<(Seen, Duration)> {
        let (hash, place) = self.place(name);
        let seen = (*place.lock()).filter(|seen| seen.name == hash)?;
        let age = seen.known_at.elapsed();
        (age <= TIME_AGE_MAX).then_some((seen, age))
    }

    fn place(&self, name: &str) -> (u64, &Mutex<Option<Seen>>) {
        // Without a random key, so that the simulation can repeat a history. An attacker gains
        // nothing: a name that is pushed out costs the store a little more.
        let hash = FixedState::default().hash_one(name);
        let at = usize::try_from(hash % PLACES as u64).unwrap_or_default();
        (hash, &self.places[at])
    }
}

// === impl Step ===

impl Step {
    /// As a script is given it.
    pub(super) fn args(&self) -> [u64; 2] {
        [self.by, self.to]
    }
}

// === impl Seen ===

impl Seen {
    /// None if it leads out of the range of counters.
    fn step_from(&self, counter: u64, age: Duration) -> Option<Step> {
        let age = u64::try_from(age.as_micros()).unwrap_or_default();
        let to = (self.time + age).max(counter + 1);
        (to < COUNTERS_END).then(|| Step {
            by: to - counter,
            to,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_step_leads_to_the_time_of_the_store_or_is_one() {
        let counters = SeenCounters::new();
        assert_eq!(counters.next("a"), None);
        counters.set("a", 5_000_000, Instant::now());
        assert_eq!(
            counters.next("a"),
            Some(Step {
                by: 1,
                to: 5_000_001
            })
        );
        tokio::time::advance(Duration::from_millis(300)).await;
        let step = Step {
            by: 300_000,
            to: 5_300_000,
        };
        assert_eq!(counters.next("a"), Some(step));
        counters.stepped("a", step.to);
        assert_eq!(
            counters.next("a"),
            Some(Step {
                by: 1,
                to: 5_300_001
            })
        );
        assert_eq!(counters.next_after("a", 7_000_000).unwrap().to, 7_000_001);
        assert_eq!(counters.next("b"), None);
        tokio::time::advance(Duration::from_millis(701)).await;
        assert_eq!(counters.next("a"), None, "the time is too old");
    }

    #[tokio::test(start_paused = true)]
    async fn what_came_late_or_was_changed_is_not_used() {
        let counters = SeenCounters::new();
        let sent_at = Instant::now();
        tokio::time::advance(Duration::from_millis(51)).await;
        counters.set("a", 5_000_000, sent_at);
        assert_eq!(counters.next("a"), None);
        counters.set("a", 5_000_000, Instant::now());
        counters.forget("a");
        assert_eq!(counters.next("a"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_a_number_of_names_is_remembered_and_always_the_same() {
        let names: Vec<_> = (0..2 * PLACES).map(|name| name.to_string()).collect();
        let [known, again] = [(); 2].map(|()| {
            let counters = SeenCounters::new();
            for name in &names {
                counters.set(name, 1_000, Instant::now());
            }
            let known = names.iter().filter(|name| counters.next(name).is_some());
            known.collect::<Vec<_>>()
        });
        assert!(known.len() <= PLACES);
        assert_eq!(known, again);
    }
}
