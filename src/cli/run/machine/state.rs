//! The state of `lockkeeper run`, and what time, signals and the command's end do to it.

use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::Instant;

use super::event::{Action, Input, Plan};
use crate::{
    exit,
    run::{signals::is_termination, target::Granted, timing::Timing},
};

/// How late the end of a wait may be reported.
const WAIT_GRACE: Duration = Duration::from_secs(5);

/// Between two attempts to confirm a grant, and before a session is replaced.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// How often to check whether a stopped command's processes are gone.
const PROBE_INTERVAL: Duration = Duration::from_millis(50);

/// How often to say that a wait goes on, or that a command is stopped while it holds the lock.
const REMINDER_INTERVAL: Duration = Duration::from_secs(30);

/// The phases of a run.
#[derive(Debug)]
pub(super) enum Phase {
    /// A session is being opened, or will be opened at `at` because the last one has ended.
    Opening { at: Option<Instant> },
    /// For the lock. While the stream is broken, `give_up_at` is set.
    Waiting { give_up_at: Option<Instant> },
    /// The lock is granted, but the age of the grant is unknown: the answer may have taken any
    /// time. A renewal tells.
    Confirming {
        until: Instant,
        again_at: Option<Instant>,
    },
    /// The command is about to be started.
    Starting,
    /// The command runs, or is stopped, which is said again at `stopped`.
    Running { stopped: Option<Stopped> },
    /// The lock is or may soon be lost; the command got TERM.
    Stopping {
        kill_at: Option<Instant>,
        exit: Exited,
    },
    /// The lock is being released; the process will end with `code`.
    Closing { code: u8 },
    /// The process ends.
    Ended,
}

/// What is known of a wait.
#[derive(Debug)]
pub(super) struct Waited {
    pub(super) message: String,
    /// The lock that is waited for; `None` for permits.
    pub(super) lock: Option<String>,
    say_again_at: Instant,
}

/// A command that does nothing and holds the lock.
#[derive(Debug)]
pub(super) struct Stopped {
    signal: Signal,
    say_again_at: Instant,
}

/// The command's end, while it is being stopped.
#[derive(Debug)]
pub(super) enum Exited {
    NotYet,
    /// Processes that it started may be left.
    AskAgainAt(Instant),
}

/// The state of `lockkeeper run`.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(super) plan: Plan,
    pub(super) phase: Phase,
    /// Of the session.
    pub(super) lease: Duration,
    /// How that lease is divided.
    pub(super) timing: Option<Timing>,
    pub(super) granted: Option<Granted>,
    /// Until when all grants are surely valid.
    pub(super) valid_until: Option<Instant>,
    pub(super) wait_until: Option<Instant>,
    pub(super) waited: Option<Waited>,
    pub(super) has_said_broken: bool,
    /// A caller asks for the lock, and the command did not get its signal yet.
    pub(super) is_asked_for: bool,
    pub(super) actions: Vec<Action>,
}

// === impl Machine ===

impl Machine {
    /// A machine that opens a session, and its first actions.
    pub(crate) fn new(plan: Plan, now: Instant) -> (Self, Vec<Action>) {
        let machine = Self {
            phase: Phase::Opening { at: None },
            lease: Duration::ZERO,
            timing: None,
            granted: None,
            valid_until: None,
            // A wait too long for the clock is one without limit.
            wait_until: plan.wait.and_then(|wait| now.checked_add(wait)),
            waited: None,
            has_said_broken: false,
            is_asked_for: false,
            actions: Vec::new(),
            plan,
        };
        (machine, vec![Action::Open])
    }

    /// Takes an input and the current end of the grants' validity; returns the actions, in order.
    pub(crate) fn on(
        &mut self,
        now: Instant,
        valid_until: Option<Instant>,
        input: Input,
    ) -> Vec<Action> {
        self.valid_until = valid_until;
        // First, so that no late input undoes a missed deadline. But a command that has ended
        // while the lock was valid need not be stopped, and a loss stops it with its reason.
        let is_first = match input {
            Input::ChildExited(_) => !self.is_valid(now),
            Input::Lost(_) => false,
            _ => true,
        };
        if is_first {
            self.meet_deadlines(now);
        }
        match input {
            Input::Opened(opened) => self.on_opened(now, opened),
            Input::Event(event) => self.on_event(now, event),
            Input::Acquired(ended) => self.on_acquired(now, ended),
            Input::Described(answer) => self.on_described(answer.as_ref()),
            Input::Confirmed(ended) => self.on_confirmed(now, ended),
            Input::Lost(loss) => self.on_lost(now, loss),
            Input::Closed(ended) => self.on_closed(&ended),
            Input::Signal(signal) => self.on_signal(signal),
            Input::ChildStarted(Ok(())) => {
                self.phase = Phase::Running { stopped: None };
                self.pass_request_on();
            }
            Input::ChildStarted(Err(failure)) => {
                self.say(failure.message);
                self.close(failure.exit);
            }
            Input::ChildStopped(signal) => self.on_child_stopped(now, signal),
            Input::ChildContinued => self.on_child_continued(),
            Input::ChildExited(code) => self.on_child_exited(now, code),
            Input::GroupIsEmpty(is_empty) => self.on_probed(is_empty),
            Input::Tick => {}
        }
        std::mem::take(&mut self.actions)
    }

    /// When the next [`Input::Tick`] is due. The grants may have been renewed by then.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        let (one, other) = match &self.phase {
            Phase::Opening { at } => (*at, None),
            Phase::Waiting { give_up_at } => {
                let say_again_at = self.waited.as_ref().map(|it| it.say_again_at);
                let over_at = [self.wait_over_at(), say_again_at];
                (*give_up_at, over_at.into_iter().flatten().min())
            }
            Phase::Confirming { until, again_at } => (Some(*until), *again_at),
            Phase::Running { stopped } => {
                let say_again_at = stopped.as_ref().map(|it| it.say_again_at);
                (self.term_at(), say_again_at)
            }
            Phase::Stopping { kill_at, exit } => match exit {
                Exited::NotYet => (*kill_at, None),
                Exited::AskAgainAt(at) => (*kill_at, Some(*at)),
            },
            Phase::Starting | Phase::Closing { .. } | Phase::Ended => (None, None),
        };
        [one, other].into_iter().flatten().min()
    }

    fn meet_deadlines(&mut self, now: Instant) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        match self.phase {
            Phase::Opening { at } if is_due(at) => {
                self.phase = Phase::Opening { at: None };
                self.actions.push(Action::Open);
            }
            Phase::Waiting { give_up_at } if is_due(give_up_at) => {
                self.say("the coordinator did not come back".to_owned());
                self.end(exit::UNAVAILABLE);
            }
            Phase::Waiting { .. } if is_due(self.wait_over_at()) => {
                self.say("no answer from the coordinator".to_owned());
                self.close(exit::UNAVAILABLE);
            }
            Phase::Waiting { .. } if is_due(self.waited.as_ref().map(|it| it.say_again_at)) => {
                self.announce_wait(now);
            }
            Phase::Confirming { until, .. } if until <= now => {
                self.say(
                    "the grant could not be confirmed; the command was not started".to_owned(),
                );
                self.close(exit::UNAVAILABLE);
            }
            Phase::Confirming { until, again_at } if is_due(again_at) => {
                self.phase = Phase::Confirming {
                    until,
                    again_at: None,
                };
                self.actions.push(Action::Confirm);
            }
            Phase::Running { .. } if is_due(self.term_at()) => {
                let what = self.plan.target.all();
                self.stop(now, &what, "it could not be renewed in time");
            }
            Phase::Running {
                stopped:
                    Some(Stopped {
                        signal,
                        say_again_at,
                    }),
            } if say_again_at <= now => self.on_child_stopped(now, signal),
            _ => {}
        }
        if let Phase::Stopping { kill_at, exit } = &mut self.phase {
            if is_due(*kill_at) {
                *kill_at = None;
                self.actions.push(Action::SignalGroup(Signal::SIGKILL));
            }
            if let Exited::AskAgainAt(at) = exit
                && *at <= now
            {
                *at = now + PROBE_INTERVAL;
                self.actions.push(Action::ProbeGroup);
            }
        }
    }

    /// The first state of a wait is said at once, and the last one as long as it goes on.
    pub(super) fn on_waiting(&mut self, now: Instant, message: String, lock: Option<String>) {
        if !matches!(self.phase, Phase::Waiting { .. }) {
            return;
        }
        let is_first = self.waited.is_none();
        let say_again_at = self.waited.take().map_or(now, |it| it.say_again_at);
        self.waited = Some(Waited {
            message,
            lock,
            say_again_at,
        });
        if is_first {
            self.announce_wait(now);
        }
    }

    fn announce_wait(&mut self, now: Instant) {
        let Some(waited) = &mut self.waited else {
            return;
        };
        waited.say_again_at = now + REMINDER_INTERVAL;
        let action = match &waited.lock {
            Some(lock) => Action::Describe(lock.clone()),
            None => Action::Say(waited.message.clone()),
        };
        self.actions.push(action);
    }

    fn on_signal(&mut self, signal: Signal) {
        match self.phase {
            Phase::Opening { .. }
            | Phase::Waiting { .. }
            | Phase::Confirming { .. }
            | Phase::Starting
                if is_termination(signal) =>
            {
                self.close(exit::by_signal(signal as i32));
            }
            Phase::Running { .. } if signal == Signal::SIGTSTP => self.say_not_suspended(),
            Phase::Running { .. } | Phase::Stopping { .. } if signal != Signal::SIGTSTP => {
                self.actions.push(Action::SignalGroup(signal));
            }
            _ => {}
        }
    }

    fn say_not_suspended(&mut self) {
        let names = self.plan.target.names();
        self.say(format!(
            "the command continues: it cannot be suspended while it holds {names}"
        ));
    }

    /// A stopped command holds the lock for as long as it is stopped.
    fn on_child_stopped(&mut self, now: Instant, signal: Signal) {
        let Phase::Running { stopped } = &mut self.phase else {
            return;
        };
        if signal == Signal::SIGTSTP {
            *stopped = None;
            self.actions.push(Action::SignalGroup(Signal::SIGCONT));
            self.say_not_suspended();
            return;
        }
        let names = self.plan.target.names();
        let message = match signal {
            Signal::SIGTTIN | Signal::SIGTTOU => format!(
                "the command is stopped, because it uses the terminal in the background; \
                 it still holds {names}; bring it to the foreground"
            ),
            _ => format!("the command is stopped by {signal}; it still holds {names}"),
        };
        *stopped = Some(Stopped {
            signal,
            say_again_at: now + REMINDER_INTERVAL,
        });
        self.say(message);
    }

    fn on_child_continued(&mut self) {
        if let Phase::Running { stopped } = &mut self.phase
            && stopped.take().is_some()
        {
            self.say("the command continues".to_owned());
        }
    }

    fn on_child_exited(&mut self, now: Instant, code: u8) {
        match &mut self.phase {
            Phase::Running { .. } => self.close(code),
            Phase::Stopping { exit, .. } => {
                *exit = Exited::AskAgainAt(now + PROBE_INTERVAL);
                self.actions.push(Action::ProbeGroup);
            }
            _ => {}
        }
    }

    /// The command itself has ended; the processes that it left got TERM too, and have the same
    /// grace.
    fn on_probed(&mut self, is_empty: bool) {
        if let Phase::Stopping { kill_at, .. } = self.phase
            && (is_empty || kill_at.is_none())
        {
            self.close(exit::LOST);
        }
    }

    /// A grant is lost, or will be before it can be renewed.
    pub(super) fn stop(&mut self, now: Instant, what: &str, why: &str) {
        let kill_at = match (self.timing, self.valid_until) {
            (Some(timing), Some(until)) => timing.kill_at(now, until),
            _ => now,
        };
        match &mut self.phase {
            Phase::Running { .. } => {
                let message = format!("lost {what}: {why}; stopping the command");
                self.phase = Phase::Stopping {
                    kill_at: Some(kill_at),
                    exit: Exited::NotYet,
                };
                self.actions.push(Action::SignalGroup(Signal::SIGTERM));
                // A stopped process handles TERM only once it continues.
                self.actions.push(Action::SignalGroup(Signal::SIGCONT));
                self.say(message);
            }
            Phase::Confirming { .. } | Phase::Starting => {
                self.say(format!("lost {what}: {why}; the command was not started"));
                self.close(exit::LOST);
            }
            // A later loss may leave less time, as to another owner, but never more.
            Phase::Stopping {
                kill_at: Some(at), ..
            } => *at = kill_at.min(*at),
            _ => {}
        }
    }

    /// Releases what is or may be held, then ends with the code.
    pub(super) fn close(&mut self, code: u8) {
        // Nothing can be held without a session.
        if matches!(self.phase, Phase::Opening { .. }) {
            self.end(code);
            return;
        }
        self.phase = Phase::Closing { code };
        self.actions.push(Action::Close);
    }

    pub(super) fn end(&mut self, code: u8) {
        self.phase = Phase::Ended;
        self.actions.push(Action::Exit(code));
    }

    pub(super) fn say(&mut self, message: String) {
        self.actions.push(Action::Say(message));
    }

    fn is_valid(&self, now: Instant) -> bool {
        self.valid_until.is_some_and(|until| until > now)
    }

    pub(super) fn term_at(&self) -> Option<Instant> {
        Some(self.timing?.term_at(self.valid_until?))
    }

    /// When even a late answer to a wait with a limit should have come.
    fn wait_over_at(&self) -> Option<Instant> {
        self.wait_until
            .and_then(|until| until.checked_add(WAIT_GRACE))
    }
}
