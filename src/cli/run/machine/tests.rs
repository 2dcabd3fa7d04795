use lockkeeper_api::pb::{LockSpec, Waiting};
use lockkeeper_client::{Error, LockMode, LostReason, NotGrantedReason, SessionEvent};
use nix::sys::signal::Signal::{SIGCONT, SIGINT, SIGKILL, SIGTERM, SIGUSR1};
use tonic::Code;

use super::*;
use crate::failure::Failure;

const NAME: &str = "orders";
const TOKEN: u64 = 7;

/// A machine with a clock that only the test moves, and what it has asked for.
struct Story {
    machine: Machine,
    now: Instant,
    valid_until: Option<Instant>,
    actions: Vec<Action>,
}

fn seconds(count: f64) -> Duration {
    Duration::from_secs_f64(count)
}

fn locks(names: &[&str]) -> Wish {
    let specs = names.iter().map(|name| LockSpec {
        name: (*name).to_owned(),
        mode: LockMode::Exclusive.into(),
    });
    Wish::Locks(specs.collect())
}

fn granted(tokens: &[(&str, u64)]) -> Granted {
    let tokens = tokens
        .iter()
        .map(|(name, token)| ((*name).to_owned(), *token));
    Granted {
        fencing_tokens: tokens.collect(),
    }
}

/// The start of the command with one lock.
fn start() -> Action {
    Action::StartChild {
        fencing_tokens: vec![(NAME.to_owned(), TOKEN)],
    }
}

fn plan() -> Plan {
    Plan {
        wish: locks(&[NAME]),
        wait: None,
        kill_after: None,
        conflict_exit_code: 1,
    }
}

fn refused(code: Code, reason: &str) -> Error {
    use tonic_types::{ErrorDetails, StatusExt as _};
    let details =
        ErrorDetails::with_error_info(reason, "lockkeeper", std::collections::HashMap::new());
    tonic::Status::with_error_details(code, "no", details).into()
}

fn lost() -> Error {
    Error::Lost {
        name: NAME.to_owned(),
        reason: LostReason::TakenOver,
        detail: String::new(),
    }
}

fn broken() -> Input {
    Input::Told(SessionEvent::Broken {
        cause: "reset".to_owned(),
    })
}

fn over() -> Error {
    Error::SessionEnded("nobody knows it".to_owned())
}

fn unreachable() -> Error {
    Error::Unreachable {
        address: "127.0.0.1:1".parse().unwrap(),
        cause: "refused".to_owned(),
    }
}

impl Story {
    fn new(plan: Plan) -> Self {
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
    fn waiting(plan: Plan) -> Self {
        let wait = plan.wait;
        let mut story = Self::new(plan);
        story.on(Input::Opened(Ok(seconds(30.0))));
        assert_eq!(story.actions, [Action::Acquire(wait)]);
        story
    }

    /// Up to the renewal that confirms the grant.
    fn confirming(plan: Plan) -> Self {
        let mut story = Self::waiting(plan);
        story.valid_until = Some(story.now);
        story.on(Input::Acquired(Ok(granted(&[(NAME, TOKEN)]))));
        assert_eq!(story.actions, [Action::Confirm]);
        story
    }

    /// Up to the running command, with a grant confirmed just now and valid for 29 s.
    fn running(plan: Plan) -> Self {
        let mut story = Self::confirming(plan);
        story.confirmed(29.0);
        assert_eq!(story.actions, [start()]);
        story.on(Input::ChildStarted(Ok(())));
        story
    }

    fn on(&mut self, input: Input) {
        self.actions = self.machine.on(self.now, self.valid_until, input);
    }

    fn confirmed(&mut self, valid_for: f64) {
        self.renewed(valid_for);
        self.on(Input::Confirmed(Ok(())));
    }

    /// What is held is valid for so long from now on, and the machine is not told.
    fn renewed(&mut self, valid_for: f64) {
        self.valid_until = Some(self.now + seconds(valid_for));
    }

    /// Lets time pass without a tick.
    fn pass(&mut self, time: f64) {
        self.now += seconds(time);
    }

    /// Lets time pass with a tick whenever one is wanted, and keeps all that was asked for.
    fn advance(&mut self, time: f64) {
        let end = self.now + seconds(time);
        let mut actions = Vec::new();
        while let Some(at) = self.machine.wake_at().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            actions.extend(self.machine.on(self.now, self.valid_until, Input::Tick));
        }
        self.now = end;
        self.actions = actions;
    }

    fn signals(&self) -> Vec<Signal> {
        let signal = |action: &Action| match action {
            Action::SignalGroup(signal) => Some(*signal),
            _ => None,
        };
        self.actions.iter().filter_map(signal).collect()
    }

    fn said(&self) -> String {
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
    fn expect_signals(&self, signals: &[Signal]) {
        assert_eq!(self.signals(), signals, "{:?}", self.actions);
    }

    #[track_caller]
    fn expect_exit(&self, code: u8) {
        assert!(
            self.actions.contains(&Action::Exit(code)),
            "{:?}",
            self.actions
        );
        assert_eq!(self.machine.wake_at(), None);
    }

    /// The session is being ended; lets it end.
    #[track_caller]
    fn expect_close_and_exit(&mut self, code: u8) {
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

#[test]
fn a_command_runs_under_the_lock_and_its_code_is_passed_on() {
    assert_eq!(Story::new(plan()).actions, [Action::Open]);
    let mut story = Story::running(plan());
    story.on(Input::ChildExited(3));
    story.expect_close_and_exit(3);
}

#[test]
fn a_command_that_would_be_stopped_at_once_is_not_started() {
    let mut story = Story::confirming(plan());
    story.confirmed(7.0);
    assert_eq!(story.actions, []);
    story.advance(0.2);
    assert_eq!(story.actions, [Action::Confirm]);
    story.confirmed(29.0);
    assert_eq!(story.actions, [start()]);
}

#[test]
fn a_grant_that_cannot_be_confirmed_is_given_back() {
    let mut story = Story::confirming(plan());
    story.on(Input::Confirmed(Err(refused(
        Code::Unavailable,
        "STORE_UNAVAILABLE",
    ))));
    story.advance(29.0);
    assert_eq!(story.actions, [Action::Confirm]);
    story.advance(1.0);
    assert!(story.said().contains("not started"));
    story.expect_close_and_exit(exit::UNAVAILABLE);
}

#[test]
fn a_grant_that_is_lost_before_it_is_confirmed_starts_nothing() {
    let not_owner = refused(Code::FailedPrecondition, "NOT_OWNER");
    for told in [Input::Confirmed(Err(not_owner)), Input::Lost(Some(lost()))] {
        let mut story = Story::confirming(plan());
        story.on(told);
        assert!(story.said().contains("lost the lock orders"));
        assert!(story.said().contains("not started"));
        story.expect_close_and_exit(exit::LOST);
    }
}

#[test]
fn what_is_renewed_goes_on() {
    let mut story = Story::running(plan());
    for _ in 0..10 {
        story.advance(20.9);
        assert_eq!(story.actions, []);
        story.renewed(29.0);
    }
}

#[test]
fn without_renewals_the_command_is_dead_before_the_lock_is_invalid() {
    let mut story = Story::running(plan());
    story.advance(20.9);
    story.expect_signals(&[]);
    story.advance(0.2);
    story.expect_signals(&[SIGTERM, SIGCONT]);
    assert!(story.said().contains("could not be renewed in time"));
    story.advance(4.8);
    story.expect_signals(&[]);
    story.advance(0.1);
    story.expect_signals(&[SIGKILL]);
    story.on(Input::ChildExited(137));
    assert_eq!(story.actions, [Action::ProbeGroup]);
    story.on(Input::GroupIsEmpty(true));
    story.expect_close_and_exit(exit::LOST);
}

#[test]
fn renewals_that_fail_are_told_and_do_not_stop_the_command() {
    let mut story = Story::running(plan());
    story.advance(10.0);
    let valid_for = seconds(19.0);
    story.on(Input::Told(SessionEvent::AtRisk { valid_for }));
    assert!(story.said().contains("renewals are failing"));
    story.expect_signals(&[]);
    story.renewed(29.0);
    story.on(Input::Told(SessionEvent::Recovered));
    assert_eq!(story.said(), "renewals succeed again");
    story.advance(20.0);
    story.expect_signals(&[]);
}

#[test]
fn a_late_renewal_does_not_undo_a_stop() {
    let mut story = Story::running(plan());
    story.advance(21.0);
    story.expect_signals(&[SIGTERM, SIGCONT]);
    story.renewed(29.0);
    story.advance(5.0);
    story.expect_signals(&[SIGKILL]);
}

#[test]
fn loss_means_term_and_then_kill() {
    let mut story = Story::running(plan());
    story.advance(10.0);
    story.on(Input::Lost(Some(lost())));
    story.expect_signals(&[SIGTERM, SIGCONT]);
    story.advance(4.9);
    story.expect_signals(&[]);
    story.advance(0.1);
    story.expect_signals(&[SIGKILL]);
    story.on(Input::ChildExited(137));
    story.on(Input::GroupIsEmpty(true));
    story.expect_close_and_exit(exit::LOST);
}

#[test]
fn after_a_loss_kill_comes_no_later_than_validity_allows() {
    let mut story = Story::running(plan());
    story.advance(20.0);
    story.renewed(6.0);
    story.on(Input::Lost(Some(lost())));
    story.advance(3.0);
    story.expect_signals(&[SIGKILL]);
    let mut story = Story::running(Plan {
        kill_after: Some(seconds(15.0)),
        ..plan()
    });
    story.advance(10.9);
    story.on(Input::Lost(Some(lost())));
    story.advance(15.1);
    story.expect_signals(&[SIGKILL]);
}

#[test]
fn a_loss_is_told_with_what_an_operator_said() {
    let mut story = Story::running(Plan {
        wish: locks(&["z", NAME]),
        ..plan()
    });
    story.on(Input::Lost(Some(Error::Lost {
        name: "z".to_owned(),
        reason: LostReason::ForceReleased,
        detail: "host 7 has burned down".to_owned(),
    })));
    assert_eq!(
        story.said(),
        "lost the lock z: an operator took it away: host 7 has burned down; stopping the command"
    );
}

#[test]
fn what_a_stopped_command_left_behind_gets_the_same_grace() {
    let mut story = Story::running(plan());
    story.on(Input::Lost(Some(lost())));
    story.on(Input::ChildExited(143));
    story.on(Input::GroupIsEmpty(false));
    story.advance(0.05);
    assert_eq!(story.actions, [Action::ProbeGroup]);
    story.on(Input::GroupIsEmpty(false));
    story.advance(5.0);
    story.expect_signals(&[SIGKILL]);
    story.on(Input::GroupIsEmpty(false));
    story.expect_close_and_exit(exit::LOST);
}

#[test]
fn the_token_of_the_first_lock_comes_first() {
    let mut story = Story::waiting(Plan {
        wish: locks(&["z", "a", "b"]),
        ..plan()
    });
    let tokens = granted(&[("a", 5), ("b", 7), ("z", 6)]);
    story.on(Input::Acquired(Ok(tokens)));
    story.confirmed(29.0);
    let fencing_tokens = granted(&[("z", 6), ("a", 5), ("b", 7)]).fencing_tokens;
    assert_eq!(story.actions, [Action::StartChild { fencing_tokens }]);
    story.on(Input::ChildStarted(Ok(())));
    story.advance(21.0);
    assert_eq!(
        story.said(),
        "lost the lock z, the lock a, the lock b: it could not be renewed in time; stopping the command"
    );
}

#[test]
fn a_broken_stream_is_told_once_until_it_is_resumed() {
    let mut story = Story::running(plan());
    story.advance(5.0);
    story.on(broken());
    assert_eq!(
        story.said(),
        "connection lost: reset; held for sure for 24.0 s more, trying to resume"
    );
    story.on(broken());
    assert_eq!(story.actions, []);
    story.renewed(29.0);
    story.on(Input::Told(SessionEvent::Resumed));
    assert_eq!(story.actions, []);
    story.on(broken());
    assert!(story.said().contains("trying to resume"));
    // Resuming is tried as long as validity allows.
    story.advance(20.9);
    story.expect_signals(&[]);
    story.advance(0.1);
    story.expect_signals(&[SIGTERM, SIGCONT]);
}

#[test]
fn a_wait_is_told_once() {
    let mut story = Story::waiting(plan());
    let waiting = || {
        Input::Told(SessionEvent::Waiting {
            name: NAME.to_owned(),
            waiting: Waiting {
                position: 2,
                holder_remaining_lease: seconds(12.0).try_into().ok(),
            },
        })
    };
    story.on(waiting());
    assert_eq!(
        story.said(),
        "waiting for orders at position 2, the holder's lease ends in 12s"
    );
    story.on(waiting());
    assert_eq!(story.actions, []);
}

#[test]
fn a_session_that_cannot_be_resumed_while_waiting_is_replaced() {
    let mut story = Story::waiting(Plan {
        wait: Some(seconds(10.0)),
        ..plan()
    });
    story.pass(4.0);
    story.on(broken());
    assert_eq!(story.said(), "connection lost while waiting: reset");
    story.on(Input::Acquired(Err(over())));
    assert_eq!(story.actions, []);
    story.advance(0.2);
    assert_eq!(story.actions, [Action::Open]);
    story.on(Input::Opened(Ok(seconds(30.0))));
    assert_eq!(story.actions, [Action::Acquire(Some(seconds(5.8)))]);
}

#[test]
fn waiting_for_a_coordinator_ends() {
    let mut first = Story::new(plan());
    first.on(Input::Opened(Err(unreachable())));
    first.expect_exit(exit::UNAVAILABLE);
    assert!(first.said().contains("--server"), "{}", first.said());

    let mut story = Story::waiting(plan());
    story.on(broken());
    story.advance(29.0);
    assert_eq!(story.actions, []);
    story.advance(1.0);
    story.expect_exit(exit::UNAVAILABLE);

    let mut story = Story::waiting(Plan {
        wait: Some(seconds(1.0)),
        ..plan()
    });
    story.on(broken());
    story.on(Input::Told(SessionEvent::Resumed));
    story.advance(2.0);
    assert_eq!(story.actions, []);
    story.on(broken());
    story.advance(2.0);
    story.expect_exit(exit::UNAVAILABLE);

    let mut frozen = Story::waiting(Plan {
        wait: Some(Duration::ZERO),
        ..plan()
    });
    frozen.advance(5.0);
    assert_eq!(frozen.said(), "no answer from the coordinator");
    frozen.on(Input::Closed(Err(over())));
    assert_eq!(frozen.said(), "the session could not be ended in time");
    frozen.expect_exit(exit::UNAVAILABLE);
}

#[test]
fn what_is_not_granted_ends_with_the_code_of_a_conflict() {
    let not_granted = |holder_remaining_lease, available| Error::NotGranted {
        name: NAME.to_owned(),
        reason: NotGrantedReason::WaitTimeout,
        holder_remaining_lease,
        available,
    };
    let plan = || Plan {
        conflict_exit_code: 9,
        ..plan()
    };
    let mut story = Story::waiting(plan());
    let refusal = not_granted(Some(seconds(12.0)), None);
    story.on(Input::Acquired(Err(refusal)));
    assert_eq!(
        story.said(),
        "orders: held by another, the holder's lease ends in 12s"
    );
    story.expect_close_and_exit(9);

    let mut story = Story::waiting(Plan {
        wish: Wish::Permits {
            name: "pool".to_owned(),
            permits: 2,
        },
        ..plan()
    });
    story.on(Input::Acquired(Err(not_granted(None, Some(1)))));
    assert_eq!(story.said(), "pool: too few permits are free, available=1");
    story.expect_close_and_exit(9);
}

#[test]
fn a_refused_wait_ends_with_the_code_of_its_cause() {
    for (code, reason, expected) in [
        (Code::InvalidArgument, "INVALID_NAME", exit::USAGE),
        (Code::Unavailable, "STORE_UNAVAILABLE", exit::UNAVAILABLE),
        (Code::Unavailable, "OUTCOME_UNKNOWN", exit::OUTCOME_UNKNOWN),
        (Code::PermissionDenied, "DENIED", exit::DENIED),
    ] {
        let mut story = Story::waiting(plan());
        story.on(Input::Acquired(Err(refused(code, reason))));
        assert_eq!(story.said(), format!("{reason}: no"));
        story.expect_close_and_exit(expected);
    }
}

#[test]
fn a_lease_too_short_for_kill_after_is_refused_before_the_wait() {
    let mut story = Story::new(Plan {
        kill_after: Some(seconds(20.0)),
        ..plan()
    });
    story.on(Input::Opened(Ok(seconds(30.0))));
    assert!(story.said().contains("--kill-after"), "{}", story.said());
    story.expect_close_and_exit(exit::USAGE);
}

#[test]
fn a_termination_signal_ends_the_wait_and_nothing_is_started_after_it() {
    let mut story = Story::new(plan());
    story.on(Input::Signal(SIGTERM));
    story.expect_exit(143);
    let mut story = Story::waiting(plan());
    story.on(Input::Signal(SIGUSR1));
    assert_eq!(story.actions, []);
    story.on(Input::Signal(SIGINT));
    assert_eq!(story.actions, [Action::Close]);
    story.on(Input::Acquired(Ok(Granted::default())));
    assert_eq!(story.actions, []);
    story.on(Input::Closed(Ok(())));
    story.expect_exit(130);
    let mut story = Story::confirming(plan());
    story.confirmed(29.0);
    // Came between the decision to start and the start.
    story.on(Input::Signal(SIGTERM));
    story.expect_close_and_exit(143);
}

#[test]
fn signals_go_to_the_command_while_it_runs() {
    let mut story = Story::running(plan());
    story.on(Input::Signal(SIGUSR1));
    story.expect_signals(&[SIGUSR1]);
    story.on(Input::Signal(SIGTERM));
    story.expect_signals(&[SIGTERM]);
    story.on(Input::ChildExited(0));
    story.expect_close_and_exit(0);
}

#[test]
fn a_command_that_cannot_be_started_gives_the_lock_back() {
    let mut story = Story::confirming(plan());
    story.confirmed(29.0);
    let missing = Failure::local(exit::COMMAND_NOT_FOUND, "x: not found");
    story.on(Input::ChildStarted(Err(missing)));
    assert_eq!(story.said(), "x: not found");
    story.expect_close_and_exit(127);
}

#[test]
fn what_cannot_be_given_back_is_told() {
    let mut story = Story::running(plan());
    story.on(broken());
    story.on(Input::ChildExited(4));
    assert_eq!(story.actions, [Action::Close]);
    story.on(Input::Closed(Err(over())));
    assert!(story.said().contains("ends with its lease"));
    story.expect_exit(4);
}

#[test]
fn an_end_noticed_late_counts_if_the_lock_was_still_valid() {
    let mut story = Story::running(plan());
    story.pass(28.0);
    story.on(Input::ChildExited(0));
    story.expect_close_and_exit(0);
    let mut story = Story::running(plan());
    story.pass(30.0);
    story.on(Input::ChildExited(0));
    story.on(Input::GroupIsEmpty(true));
    story.expect_close_and_exit(exit::LOST);
}
