use nix::sys::signal::Signal::{SIGCONT, SIGINT, SIGKILL, SIGTERM, SIGUSR1};

use super::*;
use crate::{
    cli::failure::Failure,
    grpc::pb::{
        Grant, GrantLost, LockMode, LockSpec, LostReason, NotGranted, NotGrantedReason,
        RenewResponse, SessionGoingAway, SessionResponse, session_response::Response,
    },
};

const NAME: &str = "orders";
const TOKEN: u64 = 7;

/// A machine with a clock that only the test moves, and what it has asked for.
pub(super) struct Story {
    pub(super) machine: Machine,
    pub(super) now: Instant,
    pub(super) actions: Vec<Action>,
}

pub(super) fn seconds(count: f64) -> Duration {
    Duration::from_secs_f64(count)
}

pub(super) fn duration(count: f64) -> Option<prost_types::Duration> {
    seconds(count).try_into().ok()
}

pub(super) fn locks(locks: &[(&str, LockMode)]) -> Wish {
    let specs = locks.iter().map(|(name, mode)| LockSpec {
        name: (*name).to_owned(),
        mode: (*mode).into(),
    });
    Wish::Locks(specs.collect())
}

/// The start of the command with one lock.
fn start() -> Action {
    Action::StartChild {
        fencing_tokens: vec![(NAME.to_owned(), TOKEN)],
    }
}

pub(super) fn plan() -> Plan {
    Plan {
        wish: locks(&[(NAME, LockMode::Exclusive)]),
        wait: None,
        lease: Some(seconds(30.0)),
        min_replica_acks: 0,
        kill_after: None,
        client_name: "sh".to_owned(),
        conflict_exit_code: 1,
    }
}

pub(super) fn grant(valid_for: f64) -> Grant {
    Grant {
        name: NAME.to_owned(),
        session_id: "s".to_owned(),
        owner: "0".to_owned(),
        fencing_token: TOKEN,
        lease: duration(30.0),
        valid_for: duration(valid_for),
        watched: true,
        ..Grant::default()
    }
}

pub(super) fn opened(grants: Vec<Grant>) -> Response {
    Response::Opened(SessionOpened {
        session_id: "s".to_owned(),
        resume_token: vec![1],
        lease: duration(30.0),
        grants,
        permits: Vec::new(),
    })
}

fn failed(code: tonic::Code, reason: &str) -> Response {
    use prost::Message as _;
    use tonic_types::{ErrorDetails, StatusExt as _};
    let details =
        ErrorDetails::with_error_info(reason, "lockkeeper", std::collections::HashMap::new());
    let status = tonic::Status::with_error_details(code, "no", details);
    Response::Failed(tonic_types::Status::decode(status.details()).unwrap())
}

fn lost() -> Response {
    Response::Lost(GrantLost {
        grant: Some(grant(0.0)),
        reason: LostReason::TakenOver.into(),
        detail: String::new(),
    })
}

pub(super) fn broken() -> Input {
    Input::LinkEnded(Some(Failure::unavailable("reset")))
}

impl Story {
    pub(super) fn new(plan: Plan) -> Self {
        let now = Instant::now();
        let (machine, actions) = Machine::new(plan, now);
        Self {
            machine,
            now,
            actions,
        }
    }

    /// Up to the wait for the lock.
    pub(super) fn waiting(plan: Plan) -> Self {
        let mut story = Self::new(plan);
        story.frame(0, opened(Vec::new()));
        story.expect_sent("acquire");
        story
    }

    /// Up to the running command, with a grant confirmed just now and valid for 29 s.
    pub(super) fn running(plan: Plan) -> Self {
        let mut story = Self::waiting(plan);
        story.frame(1, Response::Granted(grant(29.0)));
        story.expect_sent("renew");
        story.renewed(29.0);
        assert_eq!(story.actions, [start()]);
        story.on(Input::ChildStarted(Ok(())));
        story
    }

    pub(super) fn on(&mut self, input: Input) {
        self.actions = self.machine.on(self.now, input);
    }

    pub(super) fn frame(&mut self, op_id: u64, response: Response) {
        self.on(Input::Frame(SessionResponse {
            op_id,
            response: Some(response),
        }));
    }

    /// Answers the renewal under way.
    pub(super) fn renewed(&mut self, valid_for: f64) {
        let (op_id, _) = self.machine.held.as_ref().unwrap().items[0]
            .renewing
            .unwrap();
        self.frame(
            op_id,
            Response::Renewed(RenewResponse {
                grant: Some(grant(valid_for)),
            }),
        );
    }

    pub(super) fn refuse_renewal(&mut self, code: tonic::Code, reason: &str) {
        let (op_id, _) = self.machine.held.as_ref().unwrap().items[0]
            .renewing
            .unwrap();
        self.frame(op_id, failed(code, reason));
    }

    /// Lets time pass without a tick.
    pub(super) fn pass(&mut self, time: f64) {
        self.now += seconds(time);
    }

    /// Lets time pass with a tick whenever one is wanted, and keeps all that was asked for.
    pub(super) fn advance(&mut self, time: f64) {
        let end = self.now + seconds(time);
        let mut actions = Vec::new();
        while let Some(at) = self.machine.wake_at().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            actions.extend(self.machine.on(self.now, Input::Tick));
        }
        self.now = end;
        self.actions = actions;
    }

    pub(super) fn sent(&self) -> Vec<&'static str> {
        let frame = |action: &Action| match action {
            Action::Connect(frame) | Action::Send(frame) => frame.request.clone(),
            _ => None,
        };
        let name = |request| match request {
            Request::Open(_) => "open",
            Request::Resume(_) => "resume",
            Request::Close(_) => "close",
            Request::Acquire(_) => "acquire",
            Request::AcquireAll(_) => "acquire_all",
            Request::Renew(_) => "renew",
            Request::AcquirePermits(_) => "acquire_permits",
            Request::RenewPermits(_) => "renew_permits",
            Request::Cancel(_) => "cancel",
            _ => "other",
        };
        self.actions.iter().filter_map(frame).map(name).collect()
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
    pub(super) fn expect_sent(&self, request: &'static str) {
        assert_eq!(self.sent(), [request], "{:?}", self.actions);
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
        assert_eq!(self.sent().last(), Some(&"close"), "{:?}", self.actions);
        self.on(Input::LinkEnded(None));
        self.expect_exit(code);
    }
}

#[test]
fn a_command_runs_under_the_lock_and_its_code_is_passed_on() {
    Story::new(plan()).expect_sent("open");
    let mut story = Story::running(plan());
    story.on(Input::ChildExited(3));
    story.expect_close_and_exit(3);
}

#[test]
fn validity_is_counted_from_before_the_renewal_and_not_from_the_grant() {
    let mut story = Story::waiting(plan());
    story.pass(100.0);
    story.frame(1, Response::Granted(grant(29.0)));
    let sent = story.now;
    story.pass(2.0);
    story.renewed(29.0);
    let validity = story.machine.validity().unwrap();
    assert_eq!(validity.until, sent + seconds(29.0));
    assert_eq!(validity.kill_at, sent + seconds(26.0));
    assert_eq!(validity.term_at, sent + seconds(21.0));
}

#[test]
fn a_command_that_would_be_stopped_at_once_is_not_started() {
    let mut story = Story::waiting(plan());
    story.frame(1, Response::Granted(grant(29.0)));
    story.pass(22.0);
    story.renewed(29.0);
    assert_eq!(story.actions, []);
    story.advance(0.2);
    story.expect_sent("renew");
    story.renewed(29.0);
    assert_eq!(story.actions, [start()]);
}

#[test]
fn a_grant_that_cannot_be_confirmed_is_given_back() {
    let mut story = Story::waiting(plan());
    story.frame(1, Response::Granted(grant(29.0)));
    story.advance(30.0);
    assert!(story.said().contains("not started"));
    story.expect_close_and_exit(exit::UNAVAILABLE);
}

#[test]
fn renewals_are_sent_every_third_of_the_lease() {
    let mut story = Story::running(plan());
    for _ in 0..10 {
        story.advance(9.9);
        assert_eq!(story.actions, []);
        story.advance(0.1);
        story.expect_sent("renew");
        story.renewed(29.0);
    }
}

#[test]
fn without_answers_the_command_is_dead_before_the_lock_is_invalid() {
    let mut story = Story::running(plan());
    story.advance(20.9);
    story.expect_sent("renew");
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
fn renewals_that_fail_are_tried_again_and_do_not_stop_the_command() {
    let mut story = Story::running(plan());
    story.advance(10.0);
    story.refuse_renewal(tonic::Code::Unavailable, "STORE_UNAVAILABLE");
    story.expect_signals(&[]);
    story.advance(0.2);
    story.expect_sent("renew");
    story.renewed(29.0);
    story.advance(9.0);
    story.expect_signals(&[]);
}

#[test]
fn a_late_answer_does_not_undo_a_stop() {
    let mut story = Story::running(plan());
    story.advance(10.0);
    story.pass(11.5);
    story.renewed(29.0);
    story.expect_signals(&[SIGTERM, SIGCONT]);
    story.advance(5.0);
    story.expect_signals(&[SIGKILL]);
}

#[test]
fn loss_means_term_and_then_kill() {
    for refusal in [false, true] {
        let mut story = Story::running(plan());
        story.advance(10.0);
        if refusal {
            story.refuse_renewal(tonic::Code::FailedPrecondition, "NOT_OWNER");
        } else {
            story.frame(0, lost());
        }
        story.expect_signals(&[SIGTERM, SIGCONT]);
        story.advance(4.9);
        story.expect_signals(&[]);
        story.advance(0.1);
        story.expect_signals(&[SIGKILL]);
        story.on(Input::ChildExited(137));
        story.on(Input::GroupIsEmpty(true));
        story.expect_close_and_exit(exit::LOST);
    }
}

#[test]
fn after_a_loss_kill_comes_no_later_than_validity_allows() {
    let mut story = Story::running(plan());
    story.advance(20.0);
    story.frame(0, lost());
    story.advance(5.0);
    story.expect_signals(&[SIGKILL]);
    let mut story = Story::running(Plan {
        kill_after: Some(seconds(15.0)),
        ..plan()
    });
    story.advance(10.9);
    story.frame(0, lost());
    story.advance(15.1);
    story.expect_signals(&[SIGKILL]);
}

#[test]
fn what_a_stopped_command_left_behind_gets_the_same_grace() {
    let mut story = Story::running(plan());
    story.frame(0, lost());
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
fn the_loss_of_another_grant_is_nothing() {
    let mut story = Story::running(plan());
    let other = Grant {
        name: "other".to_owned(),
        ..grant(0.0)
    };
    story.frame(
        0,
        Response::Lost(GrantLost {
            grant: Some(other),
            reason: 1,
            detail: String::new(),
        }),
    );
    assert_eq!(story.actions, []);
}

#[test]
fn the_mode_goes_with_what_is_asked() {
    let mut story = Story::new(Plan {
        wish: locks(&[(NAME, LockMode::Read)]),
        ..plan()
    });
    story.frame(0, opened(Vec::new()));
    let [Action::Send(frame)] = story.actions.as_slice() else {
        panic!("{:?}", story.actions);
    };
    let Some(Request::Acquire(asked)) = &frame.request else {
        panic!("{frame:?}");
    };
    assert_eq!(asked.mode(), LockMode::Read);
    let granted = Grant {
        mode: LockMode::Read.into(),
        ..grant(29.0)
    };
    story.frame(1, Response::Granted(granted));
    let [Action::Send(frame)] = story.actions.as_slice() else {
        panic!("{:?}", story.actions);
    };
    let Some(Request::Renew(asked)) = &frame.request else {
        panic!("{frame:?}");
    };
    assert_eq!(asked.mode(), LockMode::Read);
}

#[test]
fn a_broken_stream_is_resumed() {
    let mut story = Story::running(plan());
    story.advance(5.0);
    story.on(broken());
    story.expect_sent("resume");
    assert_eq!(story.actions[0], Action::Disconnect);
    story.on(broken());
    story.advance(0.2);
    story.expect_sent("resume");
    story.pass(1.0);
    let Action::Connect(SessionRequest {
        request: Some(Request::Resume(resume)),
        ..
    }) = story.actions[0].clone()
    else {
        panic!("no resume");
    };
    assert_eq!((resume.session_id.as_str(), resume.grants.len()), ("s", 1));
    let sent = story.now - seconds(1.0);
    story.frame(0, opened(vec![grant(29.0)]));
    let validity = story.machine.validity().unwrap();
    assert_eq!(validity.until, sent + seconds(29.0));
    story.advance(9.0);
    story.expect_sent("renew");
    story.on(Input::ChildExited(0));
    story.expect_close_and_exit(0);
}

#[test]
fn a_resume_that_does_not_bring_the_grant_back_is_a_loss() {
    let mut story = Story::running(plan());
    story.on(broken());
    story.frame(0, opened(Vec::new()));
    story.expect_signals(&[SIGTERM, SIGCONT]);
}

#[test]
fn resuming_is_tried_as_long_as_validity_allows() {
    let mut story = Story::running(plan());
    story.on(broken());
    for _ in 0..9 {
        story.advance(2.0);
        assert!(story.sent().len() <= 1);
        story.on(broken());
        story.expect_signals(&[]);
    }
    story.advance(3.0);
    story.expect_signals(&[SIGTERM, SIGCONT]);
}

#[test]
fn a_coordinator_that_goes_away_is_left_and_the_session_resumed() {
    let mut story = Story::running(plan());
    story.frame(0, Response::GoingAway(SessionGoingAway {}));
    story.expect_sent("resume");
    assert_eq!(story.actions[0], Action::Disconnect);
}

#[test]
fn a_resume_during_confirmation_confirms() {
    let mut story = Story::waiting(plan());
    story.frame(1, Response::Granted(grant(29.0)));
    story.on(broken());
    story.expect_sent("resume");
    story.frame(0, opened(vec![grant(29.0)]));
    assert_eq!(story.actions, [start()]);
}

#[test]
fn a_wait_whose_stream_broke_starts_anew_with_what_is_left_of_it() {
    let mut story = Story::waiting(Plan {
        wait: Some(seconds(10.0)),
        ..plan()
    });
    story.pass(4.0);
    story.on(broken());
    story.expect_sent("resume");
    story.frame(0, opened(Vec::new()));
    let Action::Send(SessionRequest {
        op_id: 2,
        request: Some(Request::Acquire(acquire)),
        ..
    }) = story.actions[0].clone()
    else {
        panic!("no acquire: {:?}", story.actions);
    };
    assert_eq!(acquire.wait_timeout, duration(6.0));
    // An answer to the first one means nothing any more.
    story.frame(1, Response::Granted(grant(29.0)));
    assert_eq!(story.actions, []);
}

#[test]
fn a_session_that_cannot_be_resumed_while_waiting_is_replaced() {
    let mut story = Story::waiting(plan());
    story.on(broken());
    let gone = Failure {
        is_final: true,
        ..Failure::unavailable("gone")
    };
    story.on(Input::LinkEnded(Some(gone)));
    story.advance(0.2);
    story.expect_sent("open");
    story.frame(0, opened(Vec::new()));
    story.expect_sent("acquire");
}

#[test]
fn waiting_for_a_coordinator_ends() {
    let mut story = Story::waiting(plan());
    story.on(broken());
    for _ in 0..29 {
        story.on(broken());
        story.advance(1.0);
    }
    story.advance(2.0);
    story.expect_exit(exit::UNAVAILABLE);
    let mut story = Story::new(plan());
    story.on(broken());
    story.expect_exit(exit::UNAVAILABLE);
    let mut frozen = Story::waiting(Plan {
        wait: Some(Duration::ZERO),
        ..plan()
    });
    frozen.advance(5.0);
    frozen.advance(2.0);
    frozen.expect_exit(exit::UNAVAILABLE);
}

#[test]
fn a_lock_that_is_not_granted_ends_with_the_code_of_a_conflict() {
    let mut story = Story::waiting(Plan {
        conflict_exit_code: 9,
        ..plan()
    });
    let refusal = NotGranted {
        reason: NotGrantedReason::WaitTimeout.into(),
        holder_remaining_lease: duration(12.0),
    };
    story.frame(1, Response::NotGranted(refusal));
    assert_eq!(
        story.said(),
        "orders: held by another, the holder's lease ends in 12s"
    );
    story.expect_close_and_exit(9);
}

#[test]
fn a_refused_wait_ends_with_the_code_of_its_cause() {
    for (code, reason, expected) in [
        (tonic::Code::InvalidArgument, "INVALID_NAME", exit::USAGE),
        (
            tonic::Code::Unavailable,
            "STORE_UNAVAILABLE",
            exit::UNAVAILABLE,
        ),
        (
            tonic::Code::Unavailable,
            "OUTCOME_UNKNOWN",
            exit::OUTCOME_UNKNOWN,
        ),
    ] {
        let mut story = Story::waiting(plan());
        story.frame(1, failed(code, reason));
        assert_eq!(story.said(), format!("{reason}: no"));
        story.expect_close_and_exit(expected);
    }
    let mut story = Story::waiting(plan());
    story.frame(1, failed(tonic::Code::Unavailable, "DRAINING"));
    story.expect_sent("resume");
}

#[test]
fn a_lease_too_short_for_kill_after_is_refused_before_the_wait() {
    let mut story = Story::new(Plan {
        kill_after: Some(seconds(20.0)),
        ..plan()
    });
    story.frame(0, opened(Vec::new()));
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
    assert_eq!(story.sent(), ["cancel", "close"]);
    story.frame(1, Response::Granted(grant(29.0)));
    assert_eq!(story.actions, []);
    story.on(Input::LinkEnded(None));
    story.expect_exit(130);
    let mut story = Story::waiting(plan());
    story.frame(1, Response::Granted(grant(29.0)));
    story.renewed(29.0);
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
    let mut story = Story::waiting(plan());
    story.frame(1, Response::Granted(grant(29.0)));
    story.renewed(29.0);
    let missing = Failure::local(exit::COMMAND_NOT_FOUND, "x: not found");
    story.on(Input::ChildStarted(Err(missing)));
    assert_eq!(story.said(), "x: not found");
    story.expect_close_and_exit(127);
}

#[test]
fn giving_back_is_tried_for_two_seconds() {
    let mut story = Story::running(plan());
    story.on(broken());
    story.on(Input::ChildExited(4));
    assert_eq!(story.sent(), Vec::<&str>::new());
    story.frame(0, opened(vec![grant(29.0)]));
    story.expect_close_and_exit(4);
    let mut story = Story::running(plan());
    story.on(Input::ChildExited(4));
    story.on(broken());
    story.expect_sent("resume");
    story.advance(2.0);
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
