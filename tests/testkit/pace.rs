//! Tests that judge by real time. What the machine took is given in addition; a run on a machine
//! that is too busy to tell is void, which is printed, and the test is run again.

use std::{
    fmt::Display,
    panic::{AssertUnwindSafe, resume_unwind},
    time::Duration,
};

use futures::FutureExt as _;
use tokio::time::Instant;

use crate::{
    heartbeat::{self, Lateness},
    time::{measured, say},
};

/// So often a test is repeated that shows nothing.
const REPEATS_MAX: usize = 3;

/// The part of a time by which a machine may be late and still tell something.
const SHARE_MAX: f64 = 0.1;

/// From something to something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    took: Duration,
    from: Instant,
}

/// Ends a run that shows nothing.
struct Void;

/// What a time shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    InTime,
    TooLong,
    Nothing,
}

/// Runs a test that judges by real time until a run shows something.
pub async fn judged_by_time(test: impl AsyncFn()) {
    heartbeat::begin();
    for _ in 0..=REPEATS_MAX {
        match AssertUnwindSafe(test()).catch_unwind().await {
            Ok(()) => return,
            Err(ended) if ended.is::<Void>() => {}
            Err(failed) => resume_unwind(failed),
        }
    }
    panic!("no run shows anything, the machine is too busy");
}

/// From an instant until now.
pub fn since(from: Instant) -> Span {
    between(from, Instant::now())
}

/// No time at all, if the end was first.
pub fn between(from: Instant, until: Instant) -> Span {
    let took = until.saturating_duration_since(from);
    Span { took, from }
}

fn verdict(took: Duration, max: Duration, lateness: Lateness) -> Verdict {
    if took < max + lateness.total {
        Verdict::InTime
    } else if lateness.total > took.mul_f64(SHARE_MAX) {
        Verdict::Nothing
    } else {
        Verdict::TooLong
    }
}

// === impl Span ===

impl Span {
    pub fn took(&self) -> Duration {
        self.took
    }

    /// Fails if it took this long, but for what the machine took.
    #[track_caller]
    pub fn must_be_below(&self, max: Duration, what: impl Display) {
        let Self { took, from } = *self;
        measured(&what.to_string(), took);
        let lateness = heartbeat::lateness(from, from + took);
        let text = format!("{what}: {took:?} is not below {max:?}, {lateness:?}");
        match verdict(took, max, lateness) {
            Verdict::InTime => {}
            Verdict::TooLong => panic!("{text}"),
            Verdict::Nothing => {
                say(&format!("VOID: {text}"));
                resume_unwind(Box::new(Void));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::time::millis;

    #[test]
    fn what_the_machine_took_is_given_and_too_much_of_it_shows_nothing() {
        let of = |took: u64, late: u64| {
            let lateness = Lateness {
                most: millis(late),
                total: millis(late),
            };
            verdict(millis(took), millis(100), lateness)
        };
        assert_eq!(of(99, 0), Verdict::InTime);
        assert_eq!(of(100, 0), Verdict::TooLong);
        assert_eq!(of(105, 6), Verdict::InTime);
        assert_eq!(of(120, 10), Verdict::TooLong);
        assert_eq!(of(120, 13), Verdict::Nothing);
    }

    #[tokio::test]
    async fn a_void_run_is_repeated_and_never_counted() {
        let runs = Cell::new(0);
        judged_by_time(async || {
            runs.set(runs.get() + 1);
            if runs.get() < 3 {
                resume_unwind(Box::new(Void));
            }
        })
        .await;
        assert_eq!(runs.get(), 3);
        let always = judged_by_time(async || resume_unwind(Box::new(Void)));
        let why = AssertUnwindSafe(always).catch_unwind().await.unwrap_err();
        let why = why.downcast_ref::<&str>().expect("a panic");
        assert!(why.contains("no run shows anything"), "{why}");
    }

    #[tokio::test]
    async fn a_failure_is_not_repeated() {
        let runs = Cell::new(0);
        let failing = judged_by_time(async || {
            runs.set(runs.get() + 1);
            panic!("it failed");
        });
        assert!(AssertUnwindSafe(failing).catch_unwind().await.is_err());
        assert_eq!(runs.get(), 1);
    }
}
