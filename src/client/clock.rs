//! The clock of sessions: tokio's, and the time in which the machine slept.
//!
//! tokio's clock stands still while a Linux machine is suspended. Leases run on meanwhile, so what
//! is held would seem valid for that much too long.

use std::{
    fmt, fs,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::Instant;

/// The resolution of the uptime, which is not read more often.
const RESOLUTION: Duration = Duration::from_millis(10);

/// The clock. Its instants are those of tokio, later by the time in which the machine slept since
/// the clock was made.
#[derive(Clone)]
pub(crate) struct Clock(Arc<Inner>);

struct Inner {
    /// Stands still while the machine sleeps.
    monotonic: Box<dyn Fn() -> Duration + Send + Sync>,
    /// Goes on meanwhile. `None` where it cannot be read.
    uptime: Box<dyn Fn() -> Option<Duration> + Send + Sync>,
    /// What the uptime was ahead by at the beginning, at most.
    ahead: Option<Duration>,
    /// When the uptime was read, and how long the machine had slept then, in milliseconds.
    read_at: AtomicU64,
    slept: AtomicU64,
}

// === impl Clock ===

impl Clock {
    #[expect(
        clippy::disallowed_types,
        reason = "the time slept is measured between two real clocks; tests may pause tokio's"
    )]
    pub(crate) fn system() -> Self {
        let begun = std::time::Instant::now();
        Self::new(move || begun.elapsed(), uptime)
    }

    pub(crate) fn new(
        monotonic: impl Fn() -> Duration + Send + Sync + 'static,
        uptime: impl Fn() -> Option<Duration> + Send + Sync + 'static,
    ) -> Self {
        let before = monotonic();
        let ahead = uptime().map(|it| (it + RESOLUTION).saturating_sub(before));
        Self(Arc::new(Inner {
            monotonic: Box::new(monotonic),
            uptime: Box::new(uptime),
            ahead,
            read_at: millis(before).into(),
            slept: AtomicU64::new(0),
        }))
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::now() + self.slept()
    }

    /// What is this instant by tokio's clock, as long as the machine does not sleep again.
    pub(crate) fn to_tokio(&self, at: Instant) -> Instant {
        at.checked_sub(self.slept()).unwrap_or_else(Instant::now)
    }

    /// What an instant of tokio's clock is by this one; `None` if it is too late for an instant.
    pub(crate) fn of_tokio(&self, at: Instant) -> Option<Instant> {
        at.checked_add(self.slept())
    }

    /// Whether it can tell that the machine slept, which its users have to ask it then.
    pub(crate) fn is_watched(&self) -> bool {
        self.0.ahead.is_some()
    }

    /// How long the machine slept, at least: a thread that is held up between the two readings
    /// must not look like a machine that slept.
    fn slept(&self) -> Duration {
        let Inner {
            ahead: Some(ahead),
            read_at,
            slept,
            ..
        } = &*self.0
        else {
            return Duration::ZERO;
        };
        let now = (self.0.monotonic)();
        if now.saturating_sub(Duration::from_millis(read_at.load(Relaxed))) >= RESOLUTION {
            read_at.store(millis(now), Relaxed);
            if let Some(uptime) = (self.0.uptime)() {
                let awake = *ahead + (self.0.monotonic)();
                slept.fetch_max(millis(uptime.saturating_sub(awake)), Relaxed);
            }
        }
        Duration::from_millis(slept.load(Relaxed))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// How long ago a Linux machine was started. Elsewhere there is no such file.
fn uptime() -> Option<Duration> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let text = fs::read_to_string("/proc/uptime").ok()?;
    let seconds = text.split(' ').next()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOTED: Duration = Duration::from_secs(1000);
    const SECOND: Duration = Duration::from_secs(1);

    /// Two clocks of a test, in milliseconds.
    #[derive(Clone, Default)]
    struct Times(Arc<[AtomicU64; 2]>);

    impl Times {
        fn clock(&self) -> Clock {
            let (monotonic, uptime) = (self.clone(), self.clone());
            let read = |times: &Self, of: usize| Duration::from_millis(times.0[of].load(Relaxed));
            Clock::new(
                move || read(&monotonic, 0),
                move || Some(BOOTED + read(&uptime, 1)),
            )
        }

        fn pass(&self, awake: Duration, asleep: Duration) {
            self.0[0].fetch_add(millis(awake), Relaxed);
            self.0[1].fetch_add(millis(awake + asleep), Relaxed);
        }
    }

    #[test]
    fn the_time_in_which_the_machine_slept_is_counted_once() {
        let times = Times::default();
        let clock = times.clock();
        times.pass(SECOND * 100, Duration::ZERO);
        assert_eq!(clock.slept(), Duration::ZERO);
        times.pass(SECOND, SECOND * 5);
        let slept = clock.slept();
        assert!(
            slept <= SECOND * 5 && slept + RESOLUTION >= SECOND * 5,
            "{slept:?}"
        );
        times.pass(SECOND * 100, Duration::ZERO);
        assert_eq!(clock.slept(), slept);
        let at = Instant::now();
        assert_eq!(clock.of_tokio(at), Some(at + slept));
        assert_eq!(clock.to_tokio(at + slept), at);
    }

    #[test]
    fn a_thread_that_is_held_up_has_not_slept() {
        let times = Times::default();
        let clock = {
            let (monotonic, uptime) = (times.clone(), times.clone());
            let read = |times: &Times, of: usize| Duration::from_millis(times.0[of].load(Relaxed));
            Clock::new(
                move || read(&monotonic, 0),
                move || {
                    uptime.pass(SECOND, Duration::ZERO);
                    Some(read(&uptime, 1))
                },
            )
        };
        for _ in 0..10 {
            times.pass(SECOND, Duration::ZERO);
            assert_eq!(clock.slept(), Duration::ZERO);
        }
    }

    #[test]
    fn without_an_uptime_no_sleep_is_counted() {
        let times = Times::default();
        let monotonic = times.clone();
        let clock = Clock::new(
            move || Duration::from_millis(monotonic.0[0].load(Relaxed)),
            || None,
        );
        times.pass(SECOND, SECOND);
        assert!(!clock.is_watched());
        assert_eq!(clock.slept(), Duration::ZERO);
    }

    #[test]
    fn the_clock_of_this_machine_has_not_slept() {
        let clock = Clock::system();
        assert_eq!(clock.is_watched(), cfg!(target_os = "linux"));
        let before = Instant::now();
        assert!(clock.now() >= before);
        assert_eq!(clock.slept(), Duration::ZERO);
    }
}
