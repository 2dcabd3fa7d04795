//! What to do next: a pure state machine. It knows neither sockets nor processes nor clocks; [`super::Io`] tells it what happened and when, and
//! does what it says.
//!
//! ```text
//! Waiting ──granted──> Confirming ──renewed──> Starting ──started──> Running ──exited────────────> Closing ──> exit
//!    │                     │                      │                     └──lost, too late──> Stopping ──┘
//!    └─signal, not granted─┴─signal, lost─────────┴─signal, cannot start──────────────────────────> Closing
//! ```

mod answers;
mod connection;
mod event;
mod held;
mod holding;
#[cfg(test)]
mod several_tests;
#[cfg(test)]
mod tests;
mod wish;

use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::Instant;

use self::held::Held;
pub(super) use self::{
    event::{Action, Input, Plan},
    wish::Wish,
};
use super::{
    signals::is_termination,
    timing::{Timing, Validity},
};
use crate::{
    cli::exit,
    client::Thing,
    grpc::pb::{
        CancelOperation, CloseSession, SessionOpened, SessionRequest, session_request::Request,
    },
};

/// How long giving the lock back may take before it is left to its lease.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// How much later than asked the end of a wait may be told.
const WAIT_GRACE: Duration = Duration::from_secs(5);

/// How often to look whether a stopped command's processes are gone.
const PROBE_INTERVAL: Duration = Duration::from_millis(50);

/// Where we are.
#[derive(Debug)]
enum Phase {
    /// For the lock. While the link is broken, `give_up_at` is set.
    Waiting {
        op_id: u64,
        give_up_at: Option<Instant>,
    },
    /// The lock is granted, but how long ago is not known: the answer may have been under way for any time. A renewal tells.
    Confirming { until: Instant },
    /// The command is about to be started.
    Starting,
    /// The command runs.
    Running,
    /// The lock is or may soon be lost; the command got TERM.
    Stopping {
        kill_at: Option<Instant>,
        exit: Exited,
    },
    /// The lock is given back; the process will end with `code`.
    Closing {
        code: u8,
        until: Instant,
        asked: bool,
    },
    /// The process ends.
    Ended,
}

/// The command's end, while it is being stopped.
#[derive(Debug)]
enum Exited {
    NotYet,
    /// Processes that it made may be left.
    AskAgainAt(Instant),
}

/// The connection.
#[derive(Debug)]
enum LinkState {
    /// No `opened` yet. `sent_at` is from before anything was sent.
    Opening {
        sent_at: Instant,
        until: Instant,
    },
    Up,
    Down {
        retry_at: Instant,
    },
}

/// The state of `lockkeeper run`.
#[derive(Debug)]
pub(super) struct Machine {
    plan: Plan,
    phase: Phase,
    link: LinkState,
    session: Option<SessionOpened>,
    held: Option<Held>,
    wait_until: Option<Instant>,
    last_op_id: u64,
    said_waiting: bool,
    said_broken: bool,
    actions: Vec<Action>,
}

// === impl Machine ===

impl Machine {
    /// Starts to wait: also says what to do first.
    pub(super) fn new(plan: Plan, now: Instant) -> (Self, Vec<Action>) {
        let mut machine = Self {
            phase: Phase::Waiting {
                op_id: 0,
                give_up_at: None,
            },
            link: LinkState::Down { retry_at: now },
            session: None,
            held: None,
            // A wait too long for the clock is one without limit.
            wait_until: plan.wait.and_then(|wait| now.checked_add(wait)),
            last_op_id: 0,
            said_waiting: false,
            said_broken: false,
            actions: Vec::new(),
            plan,
        };
        machine.connect(now);
        let actions = std::mem::take(&mut machine.actions);
        (machine, actions)
    }

    /// Takes note of what happened and says what to do, in this order.
    pub(super) fn on(&mut self, now: Instant, input: Input) -> Vec<Action> {
        // First, because an answer that took too long must not make up for having been late. But a command that has ended while the lock was
        // valid need not be stopped any more.
        if !matches!(input, Input::ChildExited(_)) || !self.is_valid(now) {
            self.meet_deadlines(now);
        }
        match input {
            Input::Frame(frame) => self.on_frame(now, frame),
            Input::LinkEnded(failure) => self.on_link_ended(now, failure),
            Input::Signal(signal) => self.on_signal(now, signal),
            Input::ChildStarted(Ok(())) => self.phase = Phase::Running,
            Input::ChildStarted(Err(failure)) => {
                self.say(failure.message);
                self.close(now, failure.exit);
            }
            Input::ChildExited(code) => self.on_child_exited(now, code),
            Input::GroupIsEmpty(is_empty) => self.on_probed(now, is_empty),
            Input::Tick => {}
        }
        self.renew_if_due(now);
        std::mem::take(&mut self.actions)
    }

    /// When to come back with a [`Input::Tick`] at the latest.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        let link = match self.link {
            LinkState::Opening { until, .. } => Some(until),
            LinkState::Up => None,
            LinkState::Down { retry_at } => Some(retry_at),
        };
        let (one, other) = match &self.phase {
            Phase::Waiting { give_up_at, .. } => (*give_up_at, self.wait_over_at()),
            Phase::Confirming { until } => (Some(*until), self.renewal_due_at()),
            Phase::Running => (self.term_at(), self.renewal_due_at()),
            Phase::Stopping { kill_at, exit } => match exit {
                Exited::NotYet => (*kill_at, None),
                Exited::AskAgainAt(at) => (*kill_at, Some(*at)),
            },
            Phase::Closing { until, .. } => (Some(*until), None),
            Phase::Starting | Phase::Ended => return None,
        };
        [link, one, other].into_iter().flatten().min()
    }

    fn meet_deadlines(&mut self, now: Instant) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        match self.phase {
            Phase::Waiting { give_up_at, .. } if is_due(give_up_at) => {
                self.say("the coordinator did not come back".to_owned());
                self.end(exit::UNAVAILABLE);
            }
            Phase::Waiting { .. } if is_due(self.wait_over_at()) => {
                self.say("no answer from the coordinator".to_owned());
                self.close(now, exit::UNAVAILABLE);
            }
            Phase::Confirming { until } if until <= now => {
                self.say(
                    "the grant could not be confirmed; the command was not started".to_owned(),
                );
                self.close(now, exit::UNAVAILABLE);
            }
            Phase::Running if is_due(self.term_at()) => {
                let what = self.all_that_is_held();
                self.stop(now, &what, "it could not be renewed in time");
            }
            Phase::Closing { code, until, .. } if until <= now => {
                self.say(match &self.held {
                    Some(_) => {
                        "what is held could not be given back; it ends with its lease".to_owned()
                    }
                    None => "the session could not be ended in time".to_owned(),
                });
                self.end(code);
            }
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
        self.meet_link_deadlines(now);
    }

    fn on_signal(&mut self, now: Instant, signal: Signal) {
        match self.phase {
            Phase::Waiting { .. } | Phase::Confirming { .. } | Phase::Starting
                if is_termination(signal) =>
            {
                self.close(now, exit::by_signal(signal as i32));
            }
            Phase::Running | Phase::Stopping { .. } => {
                self.actions.push(Action::SignalGroup(signal));
            }
            _ => {}
        }
    }

    fn on_child_exited(&mut self, now: Instant, code: u8) {
        match &mut self.phase {
            Phase::Running => self.close(now, code),
            Phase::Stopping { exit, .. } => {
                *exit = Exited::AskAgainAt(now + PROBE_INTERVAL);
                self.actions.push(Action::ProbeGroup);
            }
            _ => {}
        }
    }

    /// The command itself is gone; what it left behind had TERM too, and gets as long as the command had.
    fn on_probed(&mut self, now: Instant, is_empty: bool) {
        if let Phase::Stopping { kill_at, .. } = self.phase
            && (is_empty || kill_at.is_none())
        {
            self.close(now, exit::LOST);
        }
    }

    /// Gives back what is or may be held, then ends with the code.
    fn close(&mut self, now: Instant, code: u8) {
        let waited = match self.phase {
            Phase::Waiting { op_id, .. } if op_id != 0 => Some(op_id),
            _ => None,
        };
        // Nothing can be held without a session, and a stream that breaks before it was told of one leaves nothing behind.
        if self.session.is_none() {
            self.end(code);
            return;
        }
        let asked = matches!(self.link, LinkState::Up);
        self.phase = Phase::Closing {
            code,
            until: now + CLOSE_TIMEOUT,
            asked,
        };
        if asked {
            if let Some(op_id) = waited {
                self.send(op_id, Request::Cancel(CancelOperation {}));
            }
            self.send(0, Request::Close(CloseSession {}));
        }
    }

    fn end(&mut self, code: u8) {
        self.phase = Phase::Ended;
        self.actions.push(Action::Exit(code));
    }

    fn send(&mut self, op_id: u64, request: Request) {
        self.actions.push(Action::Send(SessionRequest {
            op_id,
            request: Some(request),
            ..SessionRequest::default()
        }));
    }

    fn next_op_id(&mut self) -> u64 {
        self.last_op_id += 1;
        self.last_op_id
    }

    fn say(&mut self, message: String) {
        self.actions.push(Action::Say(message));
    }

    /// When even a late answer to a wait with a limit should have come.
    fn wait_over_at(&self) -> Option<Instant> {
        self.wait_until
            .and_then(|until| until.checked_add(WAIT_GRACE))
    }
}
