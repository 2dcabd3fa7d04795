//! When a run measures, and when each operation is due.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use tokio::{
    sync::{Semaphore, TryAcquireError},
    time::{Instant, sleep_until},
};

/// Between two beats of the pacemaker: finer than tokio's timers, which have milliseconds.
const BEAT: Duration = Duration::from_micros(100);

/// Longer than any run.
pub(super) const FAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// The moments of a run, in nanoseconds since its start.
#[derive(Debug)]
pub(super) struct Timeline {
    start: Instant,
    begin: AtomicU64,
    end: AtomicU64,
}

/// When operations begin.
#[derive(Debug)]
pub(super) enum Pace {
    /// The next one after an answer (closed loop).
    Closed,
    /// At a fixed rate, independent of answers (open loop).
    Open(Schedule),
}

/// Operation number `n` is due at `n` intervals after the start.
#[derive(Debug)]
pub(super) struct Schedule {
    interval: f64,
    released: AtomicU64,
    taken: AtomicU64,
    due: Semaphore,
    /// Whether the last operation has begun.
    is_complete: AtomicBool,
}

/// Whether an operation can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Due at this moment, from which its latency counts.
    Due(u64),
    NotYet,
    /// No more operations begin.
    Over,
}

/// A duration in nanoseconds.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

// === impl Timeline ===

impl Timeline {
    /// Starts now.
    pub(super) fn new(warm_up: Duration, duration: Duration) -> Self {
        Self {
            start: Instant::now(),
            begin: AtomicU64::new(nanos(warm_up)),
            end: AtomicU64::new(nanos(warm_up.saturating_add(duration))),
        }
    }

    /// Starts now; the scenario sets when the measurement begins and ends.
    pub(super) fn open_ended() -> Self {
        Self::new(FAR, FAR)
    }

    /// The measurement begins now.
    pub(super) fn begin_now(&self, duration: Duration) {
        let now = self.now();
        self.begin.store(now, Ordering::Relaxed);
        let end = now.saturating_add(nanos(duration));
        self.end.fetch_min(end, Ordering::Relaxed);
    }

    pub(super) fn now(&self) -> u64 {
        nanos(self.start.elapsed())
    }

    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    fn begin(&self) -> u64 {
        self.begin.load(Ordering::Relaxed)
    }

    /// Waits for the current end.
    pub(super) async fn sleep_until_end(&self) {
        sleep_until(self.start + Duration::from_nanos(self.end())).await;
    }

    /// The measurement ends now, if it has not ended yet.
    pub(super) fn end_now(&self) {
        self.end.fetch_min(self.now(), Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.now() >= self.end()
    }

    /// Whether this moment is in the measurement.
    pub(super) fn measures(&self, at: u64) -> bool {
        self.begin() <= at && at < self.end()
    }

    /// The phase in words.
    pub(super) fn phase(&self) -> String {
        let (now, begin, end) = (self.now(), self.begin(), self.end());
        let seconds = |nanos: u64| Duration::from_nanos(nanos).as_secs();
        match now {
            _ if now < begin => format!("warming up for {} s", seconds(now)),
            _ if now >= end => "ending".to_owned(),
            _ if end >= nanos(FAR) => format!("measuring for {} s", seconds(now - begin)),
            _ => format!(
                "measuring for {} s of {} s",
                seconds(now - begin),
                seconds(end - begin)
            ),
        }
    }

    /// The length of the measurement.
    pub(super) fn measured(&self) -> Duration {
        Duration::from_nanos(self.end().saturating_sub(self.begin()))
    }
}

// === impl Pace ===

impl Pace {
    pub(super) fn new(per_second: Option<f64>) -> Self {
        per_second.map_or(Self::Closed, |rate| Self::Open(Schedule::new(rate)))
    }

    /// Whether each operation begins after an answer.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }

    /// Waits until an operation can begin; none at the end.
    pub(super) async fn next(&self, timeline: &Timeline) -> Option<u64> {
        match self {
            Self::Closed => {
                let now = timeline.now();
                (now < timeline.end()).then_some(now)
            }
            Self::Open(schedule) => {
                schedule.due.acquire().await.ok()?.forget();
                Some(schedule.take())
            }
        }
    }

    /// The same without waiting.
    pub(super) fn try_next(&self, timeline: &Timeline, now: u64) -> Next {
        match self {
            Self::Closed if now < timeline.end() => Next::Due(now),
            Self::Closed => Next::Over,
            Self::Open(schedule) => match schedule.due.try_acquire() {
                Ok(permit) => {
                    permit.forget();
                    Next::Due(schedule.take())
                }
                Err(TryAcquireError::NoPermits) => Next::NotYet,
                Err(TryAcquireError::Closed) => Next::Over,
            },
        }
    }

    /// Whether an operation counts: in an open loop by when it was due, so that slow answers cannot
    /// leave the measurement.
    pub(super) fn counts(&self, timeline: &Timeline, due: u64, answered: u64) -> bool {
        timeline.measures(match self {
            Self::Closed => answered,
            Self::Open(_) => due,
        })
    }

    /// Makes operations due until the end. Blocks its thread.
    pub(super) fn beat(&self, timeline: &Timeline) {
        let Self::Open(schedule) = self else { return };
        while !timeline.is_over() && !schedule.is_complete.load(Ordering::Relaxed) {
            let now = timeline.now();
            let next = schedule.release(now);
            let pause = Duration::from_nanos(next.saturating_sub(now)).max(BEAT);
            // Short enough to notice the end of the run.
            std::thread::sleep(pause.min(Duration::from_millis(50)));
        }
        if !schedule.is_complete.load(Ordering::Relaxed) {
            // An operation due at the end itself is not in the measurement.
            schedule.release(timeline.end().saturating_sub(1));
            schedule.due.close();
        }
    }

    /// Releases what is due; returns when the next one is.
    #[cfg(test)]
    pub(super) fn release(&self, now: u64) -> u64 {
        match self {
            Self::Closed => now,
            Self::Open(schedule) => schedule.release(now),
        }
    }

    /// The last operation has begun.
    pub(super) fn complete(&self) {
        if let Self::Open(schedule) = self {
            schedule.is_complete.store(true, Ordering::Relaxed);
            schedule.due.close();
        }
    }

    /// When the operations were due that never began.
    pub(super) fn backlog(&self) -> Vec<u64> {
        match self {
            Self::Open(schedule) if !schedule.is_complete.load(Ordering::Relaxed) => {
                let taken = schedule.taken.load(Ordering::Relaxed);
                let released = schedule.released.load(Ordering::Relaxed);
                (taken..released).map(|n| schedule.due_at(n)).collect()
            }
            _ => Vec::new(),
        }
    }
}

// === impl Schedule ===

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of operations and nanoseconds of a run are far below 2^52"
)]
impl Schedule {
    fn new(rate: f64) -> Self {
        Self {
            interval: 1e9 / rate,
            released: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            due: Semaphore::new(0),
            is_complete: AtomicBool::new(false),
        }
    }

    fn due_at(&self, n: u64) -> u64 {
        (n as f64 * self.interval) as u64
    }

    /// Releases what is due by now; returns when the next one is.
    fn release(&self, now: u64) -> u64 {
        let mut until = (now as f64 / self.interval) as u64;
        // Rounding must neither delay an operation nor begin one early.
        while self.due_at(until) <= now {
            until += 1;
        }
        let released = self.released.fetch_max(until, Ordering::Relaxed);
        let more = until.saturating_sub(released);
        self.due.add_permits(usize::try_from(more).unwrap_or(0));
        self.due_at(until.max(released))
    }

    /// When the next operation with a permit was due.
    fn take(&self) -> u64 {
        self.due_at(self.taken.fetch_add(1, Ordering::Relaxed))
    }
}
