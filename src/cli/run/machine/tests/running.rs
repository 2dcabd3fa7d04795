//! From the grant to the command's end.

use lockkeeper_client::{Error, LostReason, SessionEvent, YieldRequest};
use nix::sys::signal::Signal::{
    self, SIGCONT, SIGKILL, SIGSTOP, SIGTERM, SIGTSTP, SIGTTIN, SIGUSR1,
};
use tonic::Code;

use super::story::*;
use crate::{
    exit,
    failure::Failure,
    run::machine::{Action, Input, Plan},
};

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
    for input in [Input::Confirmed(Err(not_owner)), Input::Lost(Some(lost()))] {
        let mut story = Story::confirming(plan());
        story.on(input);
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
fn failing_renewals_are_reported_and_do_not_stop_the_command() {
    let mut story = Story::running(plan());
    story.advance(10.0);
    let valid_for = seconds(19.0);
    story.on(Input::Event(SessionEvent::AtRisk { valid_for }));
    assert!(story.said().contains("renewals are failing"));
    story.expect_signals(&[]);
    story.renewed(29.0);
    story.on(Input::Event(SessionEvent::Recovered));
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

/// Another owner has what was lost.
fn lost_to_another(reason: LostReason) -> Input {
    Input::Lost(Some(Error::Lost {
        name: NAME.to_owned(),
        reason,
        detail: String::new(),
    }))
}

#[test]
fn what_another_owner_holds_by_now_is_killed_at_once() {
    for reason in [LostReason::TakenOver, LostReason::HandedOver] {
        let mut story = Story::running(plan());
        story.advance(10.0);
        story.on(lost_to_another(reason));
        story.expect_signals(&[SIGTERM, SIGCONT]);
        story.advance(0.0);
        story.expect_signals(&[SIGKILL]);
    }
}

#[test]
fn what_another_owner_gets_after_term_is_killed_at_once() {
    for reason in [LostReason::TakenOver, LostReason::HandedOver] {
        let mut story = Story::running(plan());
        story.advance(21.0);
        story.expect_signals(&[SIGTERM, SIGCONT]);
        story.on(lost_to_another(reason));
        story.expect_signals(&[]);
        story.advance(0.0);
        story.expect_signals(&[SIGKILL]);
        story.on(lost_to_another(reason));
        story.advance(10.0);
        story.expect_signals(&[]);
    }
}

#[test]
fn a_loss_after_term_does_not_delay_kill() {
    let mut story = Story::running(plan());
    story.advance(21.0);
    story.expect_signals(&[SIGTERM, SIGCONT]);
    story.pass(1.0);
    story.renewed(29.0);
    story.on(Input::Lost(Some(lost())));
    story.expect_signals(&[]);
    story.advance(3.9);
    story.expect_signals(&[]);
    story.advance(0.1);
    story.expect_signals(&[SIGKILL]);
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
fn a_loss_is_reported_with_the_reason_of_the_operator() {
    // With a grace period, and without one.
    for valid_for in [15.0, 0.0] {
        let mut story = Story::running(Plan {
            target: locks(&["z", NAME]),
            ..plan()
        });
        story.renewed(valid_for);
        story.on(Input::Lost(Some(Error::Lost {
            name: "z".to_owned(),
            reason: LostReason::ForceReleased,
            detail: "host 7 has burned down".to_owned(),
        })));
        assert_eq!(
            story.said(),
            "lost the lock z: an operator force-released it: host 7 has burned down; stopping the \
             command"
        );
        story.advance(0.0);
        let kills: &[Signal] = if valid_for > 0.0 { &[] } else { &[SIGKILL] };
        story.expect_signals(kills);
    }
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
        target: locks(&["z", "a", "b"]),
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
        "lost the lock z, the lock a, the lock b: it could not be renewed in time; \
         stopping the command"
    );
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
fn a_failed_release_is_reported() {
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

#[test]
fn a_command_that_holds_a_lock_is_not_suspended() {
    let mut story = Story::running(plan());
    story.on(Input::ChildStopped(SIGTSTP));
    story.expect_signals(&[SIGCONT]);
    assert!(story.said().contains("cannot be suspended"));
    story.on(Input::ChildContinued);
    assert_eq!(story.actions, []);
}

#[test]
fn ctrl_z_before_the_command_has_the_terminal_is_answered_too() {
    let mut story = Story::running(plan());
    story.on(Input::Signal(SIGTSTP));
    story.expect_signals(&[]);
    assert!(story.said().contains("cannot be suspended"));
}

#[test]
fn a_stopped_command_is_reported_until_it_continues() {
    for (signal, why) in [(SIGTTIN, "in the background"), (SIGSTOP, "by SIGSTOP")] {
        let mut story = Story::running(plan());
        story.on(Input::ChildStopped(signal));
        assert!(story.said().contains(why));
        for _ in 0..2 {
            story.advance(15.0);
            story.renewed(29.0);
            assert_eq!(story.actions, []);
            story.advance(15.0);
            story.renewed(29.0);
            assert!(story.said().contains(why));
        }
        story.on(Input::ChildContinued);
        assert!(story.said().contains("continues"));
        story.advance(20.0);
        assert_eq!(story.actions, []);
    }
}

#[test]
fn a_request_for_the_lock_is_said_and_the_command_gets_its_signal_once_it_runs() {
    let asked = |now, preempts| {
        let request = YieldRequest {
            name: NAME.to_owned(),
            by: "deploy".to_owned(),
            reason: "a fix waits".to_owned(),
            deadline: now + seconds(30.0),
            preempts,
        };
        Input::Event(SessionEvent::YieldRequested(request))
    };
    let mut story = Story::running(plan());
    story.on(asked(story.now, false));
    let said = "deploy asks for the lock orders: a fix waits; within 30 s";
    assert_eq!(story.actions, [Action::Say(said.to_owned())]);
    let plan = Plan {
        on_yield: Some(SIGUSR1),
        ..plan()
    };
    let mut story = Story::confirming(plan);
    story.on(asked(story.now, true));
    let said = "deploy asks for the lock orders: a fix waits; it is taken away in 30 s";
    assert_eq!(story.actions, [Action::Say(said.to_owned())]);
    story.confirmed(29.0);
    story.on(Input::ChildStarted(Ok(())));
    story.expect_signals(&[SIGUSR1]);
    story.on(asked(story.now, true));
    story.expect_signals(&[SIGUSR1]);
}
