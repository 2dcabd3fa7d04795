//! How late this process is woken. A machine that others keep busy wakes everybody late, and a
//! test that judges by real time has to know how much of it the machine took.

use std::{collections::VecDeque, sync::LazyLock, thread, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// How often it beats.
const BEAT: Duration = Duration::from_millis(10);

/// Timers of an idle machine are as late as this, too.
const GRAIN: Duration = Duration::from_millis(5);

/// How many late beats are remembered: of minutes, if all are late.
const REMEMBERED_MAX: usize = 50_000;

/// What the machine took from those who were due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lateness {
    /// Of the beat that was latest.
    pub most: Duration,
    /// Of all beats together.
    pub total: Duration,
}

/// What the beats have told so far.
#[derive(Debug)]
struct Pulse {
    /// When the last one came.
    last: Instant,
    /// When late ones came, and how late.
    late: VecDeque<(Instant, Duration)>,
}

/// Beats in a thread of its own: a runtime whose workers are all busy is the test's doing, and not
/// the machine's.
static PULSE: LazyLock<Mutex<Pulse>> = LazyLock::new(|| {
    thread::spawn(|| {
        loop {
            thread::sleep(BEAT);
            PULSE.lock().beat(Instant::now());
        }
    });
    Mutex::new(Pulse::at(Instant::now()))
});

/// Begins to measure; nothing is known of the time before.
pub fn begin() {
    LazyLock::force(&PULSE);
}

/// What the machine took between two instants.
pub fn lateness(from: Instant, until: Instant) -> Lateness {
    PULSE.lock().lateness(from, until, Instant::now())
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
            last: now,
            late: VecDeque::new(),
        }
    }

    fn beat(&mut self, now: Instant) {
        self.late.extend(self.due(now));
        if self.late.len() > REMEMBERED_MAX {
            self.late.pop_front();
        }
        self.last = now;
    }

    /// A beat, if it comes late.
    fn due(&self, now: Instant) -> Option<(Instant, Duration)> {
        let late = now.duration_since(self.last).saturating_sub(BEAT);
        (late > GRAIN).then_some((now, late))
    }

    /// With the beat that is due now, which may be late already.
    fn lateness(&self, from: Instant, until: Instant, now: Instant) -> Lateness {
        let mut lateness = Lateness::NONE;
        for (at, late) in self.late.iter().copied().chain(self.due(now)) {
            let share = at.min(until).duration_since((at - late).max(from));
            lateness.most = lateness.most.max(share);
            lateness.total += share;
        }
        lateness
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
        let upto = |pulse: &Pulse, now| pulse.lateness(begun, now, now);
        pulse.beat(at(10));
        pulse.beat(at(25));
        assert_eq!(upto(&pulse, at(30)), Lateness::NONE);
        pulse.beat(at(65));
        pulse.beat(at(95));
        assert_eq!(upto(&pulse, at(96)), of(30, 50));
        // Nothing is woken while a machine is frozen, but what follows is judged all the same.
        assert_eq!(upto(&pulse, at(1105)), of(1000, 1050));
        // What was before and after does not count: of 35 to 65 half, and nothing of 75 to 95.
        assert_eq!(pulse.lateness(at(50), at(70), at(1105)), of(15, 15));
    }

    #[test]
    fn it_beats() {
        begin();
        let begun = PULSE.lock().last;
        while PULSE.lock().last == begun {
            thread::yield_now();
        }
    }
}
