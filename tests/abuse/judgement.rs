//! What the figures of a row show.

use std::{fmt, time::Duration};

use crate::{form::Form, heartbeat::Lateness, victim::Pace};

/// The victim's 99th percentile under attack may be as the form says, or this many times that
/// without one.
const TIMES_QUIET_MAX: u32 = 5;

/// A machine that was late for a larger part of the attack, or at once for longer than the victim
/// may wait, may have taken the time that something took.
const SHARE_MAX: f64 = 0.02;

/// What was measured.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) quiet: Pace,
    pub(crate) attacked: Pace,
    /// From the first to the last call of the attack.
    pub(crate) took: Duration,
    pub(crate) lateness: Lateness,
    /// The most memory that the process had, in bytes; none if it has ended.
    pub(crate) memory: Option<u64>,
    /// The most that its control group had, with pages of files and buffers of the system.
    pub(crate) group_memory: Option<u64>,
    pub(crate) lost: Option<String>,
    /// The first error of the victim.
    pub(crate) error: Option<String>,
    /// Whether the process answered a probe just after the attack.
    pub(crate) is_live: bool,
    /// What the attack did, or how it succeeded.
    pub(crate) did: Result<String, String>,
}

/// What they show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Held,
    /// The machine may be the reason.
    Void(String),
    Broken(String),
}

// === impl Figures ===

impl Figures {
    /// Times are judged only where they show something.
    pub(crate) fn verdict(&self, form: Form, is_timed: bool) -> Verdict {
        let (mut always, mut in_time) = (Vec::new(), Vec::new());
        match self.memory {
            None => always.push("the process has ended".to_owned()),
            Some(memory) if memory >= form.memory_max => {
                always.push(format!("{} of memory", Mib(memory)));
            }
            Some(_) => {}
        }
        always.extend(self.did.as_ref().err().cloned());
        let p99_max = self.quiet.p99.saturating_mul(TIMES_QUIET_MAX);
        let p99_max = p99_max.max(form.p99_max);
        if is_timed && self.attacked.p99 >= p99_max {
            let error = &self.error;
            in_time.push(format!("p99 is not below {p99_max:?}; {error:?}"));
        }
        let lost = self.lost.iter().filter(|_| is_timed);
        in_time.extend(lost.map(|why| format!("a watched lock was lost: {why}")));
        if !self.is_live {
            in_time.push("no answer to a probe".to_owned());
        }
        let Lateness { most, total } = self.lateness;
        let is_excused =
            most > form.p99_max.min(Duration::from_secs(1)) || total > self.took.mul_f64(SHARE_MAX);
        if always.is_empty() && is_excused && !in_time.is_empty() {
            let why = format!("the machine was late by {most:?}, {total:?} in all");
            return Verdict::Void(format!("{why}: {}", in_time.join("; ")));
        }
        always.append(&mut in_time);
        if always.is_empty() {
            return Verdict::Held;
        }
        Verdict::Broken(always.join("; "))
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (quiet, attacked) = (&self.quiet, &self.attacked);
        let (Ok(did) | Err(did)) = &self.did;
        write!(f, "p99 {} -> {}", Millis(quiet.p99), Millis(attacked.p99))?;
        write!(f, " of {} and {} pairs", quiet.pairs, attacked.pairs)?;
        write!(f, " ({} failed)", attacked.failed)?;
        if let Some(memory) = self.memory {
            write!(f, ", {}", Mib(memory))?;
        }
        if let Some(memory) = self.group_memory {
            write!(f, " (its group {})", Mib(memory))?;
        }
        let late = self.lateness.total;
        write!(f, ", late {late:?} of {:?}; {did}", self.took)
    }
}

/// A size, in MiB.
pub(crate) struct Mib(pub(crate) u64);

impl fmt::Display for Mib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MiB", self.0 >> 20)
    }
}

/// A time; the longest is that of what has failed.
pub(crate) struct Millis(pub(crate) Duration);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Duration::MAX => write!(f, "failed"),
            it => write!(f, "{:.1} ms", it.as_secs_f64() * 1000.0),
        }
    }
}
