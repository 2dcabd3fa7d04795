//! How late this process is woken. A machine that others keep busy wakes everybody late, and a
//! test that judges by real time has to know how much of it the machine took.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

/// How often it beats.
const BEAT: Duration = Duration::from_millis(10);

/// Timers of an idle machine are as late as this, too.
const GRAIN: Duration = Duration::from_millis(5);

/// What the machine took from those who were due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lateness {
    /// Of the beat that was latest.
    pub most: Duration,
    /// Of all beats together.
    pub total: Duration,
}

/// Measures from its start until it is dropped, in a thread of its own: a runtime whose workers are
/// all busy is the test's doing, and not the machine's.
pub struct Heartbeat {
    pulse: Arc<Mutex<Pulse>>,
    /// None when the thread is to end.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What the beats have told so far.
#[derive(Clone, Copy, Debug)]
struct Pulse {
    lateness: Lateness,
    /// When the last one came.
    last: Instant,
}

// === impl Lateness ===

impl Lateness {
    pub const NONE: Self = Self {
        most: Duration::ZERO,
        total: Duration::ZERO,
    };
}

// === impl Pulse ===

impl Pulse {
    fn at(now: Instant) -> Self {
        Self {
            lateness: Lateness::NONE,
            last: now,
        }
    }

    fn beat(&mut self, now: Instant) {
        let late = now.duration_since(self.last).saturating_sub(BEAT);
        if late > GRAIN {
            self.lateness.most = self.lateness.most.max(late);
            self.lateness.total += late;
        }
        self.last = now;
    }

    /// With the beat that is due now, which may be late already.
    fn lateness(mut self, now: Instant) -> Lateness {
        self.beat(now);
        self.lateness
    }
}

// === impl Heartbeat ===

impl Heartbeat {
    pub fn start() -> Self {
        let pulse = Arc::new(Mutex::new(Pulse::at(Instant::now())));
        let (stop, stopped) = channel();
        let beating = Arc::clone(&pulse);
        Self {
            pulse,
            stop: Some(stop),
            thread: Some(thread::spawn(move || beat(&beating, &stopped))),
        }
    }

    /// Since the start.
    pub fn lateness(&self) -> Lateness {
        let pulse = *self.pulse.lock();
        pulse.lateness(Instant::now())
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn beat(pulse: &Mutex<Pulse>, stopped: &Receiver<()>) {
    while stopped.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
        pulse.lock().beat(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_that_come_late_are_added_up() {
        let begun = Instant::now();
        let at = |millis: u64| begun + Duration::from_millis(millis);
        let of = |most: u64, total: u64| Lateness {
            most: Duration::from_millis(most),
            total: Duration::from_millis(total),
        };
        let mut pulse = Pulse::at(begun);
        pulse.beat(at(10));
        pulse.beat(at(25));
        assert_eq!(pulse.lateness(at(30)), Lateness::NONE);
        pulse.beat(at(65));
        pulse.beat(at(95));
        assert_eq!(pulse.lateness(at(96)), of(30, 50));
        // Nothing is woken while a machine is frozen, but what follows is judged all the same.
        assert_eq!(pulse.lateness(at(1105)), of(1000, 1050));
        assert_eq!(
            pulse.lateness(at(96)),
            of(30, 50),
            "the beat itself is still to come"
        );
    }

    #[test]
    fn it_beats_until_it_is_dropped() {
        let heartbeat = Heartbeat::start();
        let begun = heartbeat.pulse.lock().last;
        while heartbeat.pulse.lock().last == begun {
            thread::yield_now();
        }
        let pulse = Arc::downgrade(&heartbeat.pulse);
        drop(heartbeat);
        assert!(pulse.upgrade().is_none(), "the thread has ended");
    }
}
