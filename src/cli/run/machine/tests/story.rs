//! A machine under test, and what tests say to it.

use std::time::Duration;

use lockkeeper_api::pb::LockSpec;
use lockkeeper_client::{Error, LockMode, LostReason, SessionEvent};
use nix::sys::signal::Signal;
use tokio::time::Instant;
use tonic::Code;

use crate::run::{
    machine::{Action, Input, Machine, Plan},
    target::{Granted, RunTarget},
};

pub(super) const NAME: &str = "orders";
pub(super) const TOKEN: u64 = 7;

/// A machine with a clock that only the test moves, and its last actions.
pub(super) struct Story {
    pub(super) machine: Machine,
    pub(super) now: Instant,
    pub(super) valid_until: Option<Instant>,
    pub(super) actions: Vec<Action>,
}

pub(super) fn seconds(count: f64) -> Duration {
    Duration::from_secs_f64(count)
}

pub(super) fn locks(names: &[&str]) -> RunTarget {
    let specs = names.iter().map(|name| LockSpec {
        name: (*name).to_owned(),
        mode: LockMode::Exclusive.into(),
    });
    RunTarget::Locks(specs.collect())
}

pub(super) fn granted(tokens: &[(&str, u64)]) -> Granted {
    let tokens = tokens
        .iter()
        .map(|(name, token)| ((*name).to_owned(), *token));
    Granted {
        fencing_tokens: tokens.collect(),
    }
}

/// The start of the command with one lock.
pub(super) fn start() -> Action {
    Action::StartChild {
        fencing_tokens: vec![(NAME.to_owned(), TOKEN)],
    }
}

pub(super) fn plan() -> Plan {
    Plan {
        target: locks(&[NAME]),
        wait: None,
        kill_after: None,
        conflict_exit_code: 1,
        on_yield: None,
        is_nested: false,
    }
}

pub(super) fn refused(code: Code, reason: &str) -> Error {
    use tonic_types::{ErrorDetails, StatusExt as _};
    let details =
        ErrorDetails::with_error_info(reason, "lockkeeper", std::collections::HashMap::new());
    tonic::Status::with_error_details(code, "no", details).into()
}

pub(super) fn lost() -> Error {
    Error::Lost {
        name: NAME.to_owned(),
        reason: LostReason::Expired,
        detail: String::new(),
    }
}

pub(super) fn broken() -> Input {
    Input::Event(SessionEvent::Broken {
        cause: "reset".to_owned(),
    })
}

pub(super) fn over() -> Error {
    Error::SessionEnded("the coordinator does not know it".to_owned())
}

pub(super) fn unreachable() -> Error {
    Error::Unreachable {
        address: "127.0.0.1:1".parse().unwrap(),
        cause: "refused".to_owned(),
    }
}

impl Story {
    pub(super) fn new(plan: Plan) -> Self {
        let now = Instant::now() + seconds(1000.0);
        let (machine, actions) = Machine::new(plan, now);
        Self {
            machine,
            now,
            valid_until: None,
            actions,
        }
    }

    /// Up to the wait for the lock, in a session with a lease of 30 s.
    pub(super) fn waiting(plan: Plan) -> Self {
        let wait = plan.wait;
        let mut story = Self::new(plan);
        story.on(Input::Opened(Ok(seconds(30.0))));
        assert_eq!(story.actions, [Action::Acquire(wait)]);
        story
    }

    /// Up to the renewal that confirms the grant.
    pub(super) fn confirming(plan: Plan) -> Self {
        let mut story = Self::waiting(plan);
        story.valid_until = Some(story.now);
        story.on(Input::Acquired(Ok(granted(&[(NAME, TOKEN)]))));
        assert_eq!(story.actions, [Action::Confirm]);
        story
    }

    /// Up to the running command, with a grant confirmed just now and valid for 29 s.
    pub(super) fn running(plan: Plan) -> Self {
        let mut story = Self::confirming(plan);
        story.confirmed(29.0);
        assert_eq!(story.actions, [start()]);
        story.on(Input::ChildStarted(Ok(())));
        story
    }

    pub(super) fn on(&mut self, input: Input) {
        self.actions = self.machine.on(self.now, self.valid_until, input);
    }

    pub(super) fn confirmed(&mut self, valid_for: f64) {
        self.renewed(valid_for);
        self.on(Input::Confirmed(Ok(())));
    }

    /// The grants are valid for this long from now on; the machine gets no input.
    pub(super) fn renewed(&mut self, valid_for: f64) {
        self.valid_until = Some(self.now + seconds(valid_for));
    }

    /// Lets time pass without a tick.
    pub(super) fn pass(&mut self, time: f64) {
        self.now += seconds(time);
    }

    /// Lets time pass with every tick that is due, and keeps all actions.
    pub(super) fn advance(&mut self, time: f64) {
        let end = self.now + seconds(time);
        let mut actions = Vec::new();
        while let Some(at) = self.machine.wake_at().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            actions.extend(self.machine.on(self.now, self.valid_until, Input::Tick));
        }
        self.now = end;
        self.actions = actions;
    }

    pub(super) fn signals(&self) -> Vec<Signal> {
        let signal = |action: &Action| match action {
            Action::SignalGroup(signal) => Some(*signal),
            _ => None,
        };
        self.actions.iter().filter_map(signal).collect()
    }

    pub(super) fn said(&self) -> String {
        let said = |action: &Action| match action {
            Action::Say(message) => Some(message.clone()),
            _ => None,
        };
        self.actions
            .iter()
            .filter_map(said)
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[track_caller]
    pub(super) fn expect_signals(&self, signals: &[Signal]) {
        assert_eq!(self.signals(), signals, "{:?}", self.actions);
    }

    #[track_caller]
    pub(super) fn expect_exit(&self, code: u8) {
        assert!(
            self.actions.contains(&Action::Exit(code)),
            "{:?}",
            self.actions
        );
        assert_eq!(self.machine.wake_at(), None);
    }

    /// The session is being ended; lets it end.
    #[track_caller]
    pub(super) fn expect_close_and_exit(&mut self, code: u8) {
        assert_eq!(
            self.actions.last(),
            Some(&Action::Close),
            "{:?}",
            self.actions
        );
        self.on(Input::Closed(Ok(())));
        self.expect_exit(code);
    }
}
