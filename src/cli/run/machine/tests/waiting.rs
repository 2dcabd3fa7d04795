//! Before the grant, and broken streams.

use std::time::Duration;

use lockkeeper_api::pb::{DescribeResponse, Holder, Waiting};
use lockkeeper_client::{Error, NotGrantedReason, SessionEvent};
use nix::sys::signal::Signal::{SIGCONT, SIGINT, SIGTERM, SIGUSR1};
use tonic::Code;

use super::story::*;
use crate::{
    exit,
    run::{
        machine::{Action, Input, Plan},
        target::{Granted, RunTarget},
    },
};

#[test]
fn a_broken_stream_is_reported_once_until_it_is_resumed() {
    let mut story = Story::running(plan());
    story.advance(5.0);
    story.on(broken());
    assert_eq!(
        story.said(),
        "connection lost: reset; held for at least 24.0 s more, trying to resume"
    );
    story.on(broken());
    assert_eq!(story.actions, []);
    story.renewed(29.0);
    story.on(Input::Event(SessionEvent::Resumed));
    assert_eq!(story.actions, []);
    story.on(broken());
    assert!(story.said().contains("trying to resume"));
    // Resuming is tried as long as validity allows.
    story.advance(20.9);
    story.expect_signals(&[]);
    story.advance(0.1);
    story.expect_signals(&[SIGTERM, SIGCONT]);
}

fn waiting(position: u32) -> Input {
    Input::Event(SessionEvent::Waiting {
        name: NAME.to_owned(),
        waiting: Waiting {
            position,
            holder_remaining_lease: seconds(12.0).try_into().ok(),
            holder_note: None,
        },
    })
}

fn described(names: &[&str]) -> Input {
    let holders = names.iter().map(|name| Holder {
        client_name: (*name).to_owned(),
        ..Holder::default()
    });
    Input::Described(Some(DescribeResponse {
        holders: holders.collect(),
        holder_count: u32::try_from(names.len()).unwrap(),
        ..DescribeResponse::default()
    }))
}

#[test]
fn a_wait_is_reported_with_its_holder_at_once_and_every_30_s() {
    let mut story = Story::waiting(plan());
    story.on(waiting(2));
    assert_eq!(story.actions, [Action::Describe(NAME.to_owned())]);
    story.on(described(&["backup"]));
    assert_eq!(
        story.said(),
        "waiting for orders at position 2, the holder's lease ends in 12s; held by backup"
    );
    story.on(waiting(1));
    story.advance(29.0);
    assert_eq!(story.actions, []);
    story.advance(1.0);
    assert_eq!(story.actions, [Action::Describe(NAME.to_owned())]);
    story.on(described(&["a", "b", "c"]));
    assert_eq!(
        story.said(),
        "waiting for orders at position 1, the holder's lease ends in 12s; held by a and 2 more"
    );
}

#[test]
fn a_wait_is_reported_without_the_right_to_see_its_holder() {
    let mut story = Story::waiting(plan());
    story.on(waiting(1));
    story.on(Input::Described(None));
    assert!(story.said().ends_with("the holder's lease ends in 12s"));
}

#[test]
fn a_command_that_waits_for_itself_is_named() {
    let mut story = Story::waiting(Plan {
        is_nested: true,
        ..plan()
    });
    story.on(waiting(1));
    story.on(Input::Described(None));
    assert!(story.said().contains("runs under that lock already"));
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
    story.on(Input::Event(SessionEvent::Resumed));
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
        holder_note: None,
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
        "orders: held by another owner, the holder's lease ends in 12s"
    );
    story.expect_close_and_exit(9);

    let mut story = Story::waiting(Plan {
        target: RunTarget::Permits {
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
