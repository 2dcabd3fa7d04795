//! The rows of operations.

use std::time::Duration;

use lockkeeper_api::pb::{
    self, NotGrantedReason, session_request::Request, session_response::Response,
};
use tonic::Code;

use super::{
    kinds::try_acquire,
    rows,
    story::{
        LEASE, MS, PING_INTERVAL, Story, acquire, acquire_all, acquire_permits, failed, grant,
        proto, request_id,
    },
};
use crate::{
    Error,
    machine::{
        Completion, Event, NewOperation, operations::RETRY_PAUSE, state::CLOSE_TIMEOUT,
        stream::OPEN_TIMEOUT,
    },
    session::SessionEvent,
};

rows! {
    "the user starts one" => an_operation_is_sent_on_a_stream,
        a_request_that_no_coordinator_takes_is_not_sent;
    "`waiting`, `waiting_for_*`" => the_user_sees_waits;
    "a grant for an operation whose caller waits" => a_grant_is_delivered;
    "a grant for an abandoned operation" => a_late_grant_is_released;
    "`not_granted` and its kin" => nothing_granted_ends_an_operation;
    "another answer" => an_answer_ends_an_operation;
    "an answer to an operation that was not sent since it failed" => a_second_answer_is_ignored;
    "`failed`, reason `STORE_UNAVAILABLE`, `DRAINING` or `OUTCOME_UNKNOWN`" =>
        a_failure_that_may_pass_is_retried, patience_ends_with_the_lease,
        patience_may_have_no_end;
    "`failed`, reason `NOT_OWNER`, for an uncertain acquire that is not abandoned" =>
        what_was_released_is_asked_anew, what_was_released_is_not_asked_anew_without_a_caller;
    "`failed` otherwise" => a_failure_is_a_refusal;
    "`wait_until` passes" => a_wait_ends_without_a_stream, a_wait_ends_when_the_stream_breaks,
        on_a_stream_a_wait_goes_on, a_late_grant_of_an_ended_wait_is_released,
        a_try_and_a_question_have_a_limit_of_their_own, a_failure_after_the_limit_ends_a_wait;
    "the caller gives up" => what_was_never_sent_is_forgotten, a_wait_is_cancelled,
        an_undelivered_guard_is_released;
}

fn an_operation_is_sent_on_a_stream() {
    let mut story = Story::open();
    let op_id = story.start(acquire("a", "me"));
    let (sent, request) = story.sent_one();
    assert_eq!(sent, op_id);
    assert!(!request_id(&request).is_empty());
    story.broken();
    let later = story.start(acquire("b", "me"));
    assert!(story.sent().is_empty());
    story.opened(Vec::new());
    let sent: Vec<_> = story.sent().into_iter().map(|it| it.0).collect();
    assert_eq!(sent, [op_id, later]);
}

fn the_user_sees_waits() {
    let mut story = Story::open();
    let one = story.start(acquire("a", "me"));
    let all = story.start(acquire_all(&["b", "c"], "me"));
    let permits = story.start(acquire_permits());
    story.receive(one, Response::Waiting(pb::Waiting::default()));
    let waiting = pb::WaitingForAll {
        name: "c".to_owned(),
        waiting: None,
    };
    story.receive(all, Response::WaitingForAll(waiting));
    let waiting = Response::WaitingForPermits(pb::WaitingForPermits::default());
    story.receive(permits, waiting.clone());
    let events = story.events();
    let names = events.iter().map(|it| match it {
        SessionEvent::Waiting { name, .. } | SessionEvent::WaitingForPermits { name, .. } => name,
        other => panic!("{other:?}"),
    });
    assert_eq!(names.collect::<Vec<_>>(), ["a", "c", "s"]);
    story.step(Event::Abandon(permits));
    story.receive(permits, waiting);
    assert!(story.events().is_empty(), "its user is gone");
    story.receive(one, Response::Granted(grant("a", "me")));
    story.held(one);
}

fn a_grant_is_delivered() {
    let mut story = Story::open();
    let op_id = story.start(acquire("a", "me"));
    story.after(LEASE / 4);
    story.receive(op_id, Response::Granted(grant("a", "me")));
    let held = story.held(op_id);
    assert_eq!(held.valid_for(&story), LEASE * 3 / 4);
    story.receive(op_id, Response::Granted(grant("a", "me")));
    assert!(story.done(op_id).is_none());
}

fn a_late_grant_is_released() {
    let mut story = Story::open();
    let op_id = story.start(acquire_all(&["a", "b"], "me"));
    story.step(Event::Abandon(op_id));
    story.sent();
    let grants = vec![grant("a", "me"), grant("b", "me")];
    story.receive(op_id, Response::GrantedAll(pb::GrantedAll { grants }));
    let (_, release) = story.sent_one();
    assert!(
        matches!(&release, Request::ReleaseAll(it) if it.locks.len() == 2),
        "{release:?}"
    );
    assert!(story.done(op_id).is_none());
    // It is repeated until it is answered.
    story.broken();
    story.opened(Vec::new());
    assert_eq!(story.sent_kinds(), ["ReleaseAll"]);
}

fn nothing_granted_ends_an_operation() {
    let reason = NotGrantedReason::Cancelled.into();
    let not_granted = pb::NotGranted {
        holder_note: None,
        reason,
        holder_remaining_lease: None,
    };
    let latch = pb::LatchNotOpened { reason, count: 1 };
    let answers = [
        (acquire("a", "me"), Response::NotGranted(not_granted)),
        (
            Request::AwaitLatch(pb::AwaitLatchRequest {
                name: "a".to_owned(),
                ..pb::AwaitLatchRequest::default()
            }),
            Response::LatchNotOpened(latch),
        ),
    ];
    for (request, answer) in answers {
        let mut story = Story::open();
        let op_id = story.start(request);
        story.receive(op_id, answer);
        let failure = story.failure(op_id);
        assert!(
            matches!(&failure, Error::NotGranted { name, reason, .. }
                if name == "a" && *reason == NotGrantedReason::Cancelled),
            "{failure:?}"
        );
    }
    let mut story = Story::open();
    let op_id = story.start(Request::TryAcquire(pb::TryAcquireRequest::default()));
    story.step(Event::Close);
    story.receive(op_id, Response::Tried(pb::TryAcquireResponse::default()));
    assert!(story.failure(op_id).is_session_ended(), "while closing");
}

fn an_answer_ends_an_operation() {
    let mut story = Story::open();
    let op_id = story.start(Request::Describe(pb::DescribeRequest::default()));
    story.receive(op_id, Response::Described(pb::DescribeResponse::default()));
    let done = story.done(op_id);
    assert!(
        matches!(done, Some(Ok(Completion::Other(Response::Described(_))))),
        "{done:?}"
    );
    story.receive(4711, Response::Described(pb::DescribeResponse::default()));
}

fn a_second_answer_is_ignored() {
    let mut story = Story::open();
    let op_id = story.start(acquire("a", "me"));
    story.receive(op_id, failed("OUTCOME_UNKNOWN", None));
    story.receive(op_id, Response::Granted(grant("a", "me")));
    story.receive(op_id, failed("INVALID_NAME", None));
    assert!(story.done(op_id).is_none());
    story.after(RETRY_PAUSE);
    story.receive(op_id, Response::Granted(grant("a", "me")));
    story.held(op_id);
}

fn a_failure_that_may_pass_is_retried() {
    for reason in ["STORE_UNAVAILABLE", "DRAINING", "OUTCOME_UNKNOWN"] {
        let mut story = Story::open();
        let op_id = story.start(acquire("a", "me"));
        let first = story.sent_one().1;
        story.receive(op_id, failed(reason, None));
        story.after(RETRY_PAUSE / 2 - MS);
        assert!(story.sent().is_empty());
        story.after(RETRY_PAUSE / 2 + MS);
        let again = story.sent_one().1;
        assert_eq!(request_id(&again), request_id(&first));
        // It is uncertain.
        story.broken();
        assert_eq!(story.resume().grants.len(), 1);
    }
}

fn patience_ends_with_the_lease() {
    let mut story = Story::open();
    let op_id = story.start(acquire("a", "me"));
    let begun = story.now;
    while story.now < begun + LEASE {
        for (op_id, _) in story.sent() {
            story.receive(op_id, failed("STORE_UNAVAILABLE", None));
        }
        story.receive(0, Response::Pong(pb::Pong {}));
        assert!(story.done(op_id).is_none());
        story.after(MS * 10);
    }
    story.after(RETRY_PAUSE);
    let op_id = story.sent_one().0;
    story.receive(op_id, failed("STORE_UNAVAILABLE", None));
    assert!(matches!(story.failure(op_id), Error::Refused(_)));
}

fn what_was_released_is_asked_anew() {
    let mut story = Story::open();
    let op_id = story.start(acquire("a", "me"));
    let first = story.sent_one().1;
    story.broken();
    story.opened(Vec::new());
    story.sent();
    story.receive(op_id, failed("NOT_OWNER", None));
    let (again_id, again) = story.sent_one();
    assert_eq!(again_id, op_id);
    assert_ne!(request_id(&again), request_id(&first));
    story.receive(op_id, failed("NOT_OWNER", None));
    assert!(
        matches!(story.failure(op_id), Error::Refused(_)),
        "it is certain"
    );
}

fn what_was_released_is_not_asked_anew_without_a_caller() {
    let mut story = Story::open();
    let op_id = story.start(acquire("a", "me"));
    story.sent();
    story.broken();
    story.step(Event::Abandon(op_id));
    story.opened(Vec::new());
    story.sent();
    story.receive(op_id, failed("NOT_OWNER", None));
    assert!(story.sent().is_empty());
}

fn a_request_that_no_coordinator_takes_is_not_sent() {
    let mut story = Story::open();
    let names = vec!["n".repeat(512); 2100];
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let op_id = story.start(acquire_all(&names, "me"));
    assert!(story.sent().is_empty());
    let failure = story.failure(op_id);
    assert!(
        matches!(&failure, Error::Misconfigured(why) if why.ends_with("the limit is 1048576")),
        "{failure:?}"
    );
    story.start(acquire_all(&names[..2000], "me"));
    assert_eq!(story.sent_kinds(), ["AcquireAll"]);
}

fn a_failure_is_a_refusal() {
    let mut story = Story::open();
    let op_id = story.start(acquire("a", "me"));
    story.sent();
    story.receive(op_id, failed("INVALID_NAME", None));
    let failure = story.failure(op_id);
    assert_eq!(failure.reason().as_deref(), Some("INVALID_NAME"));
    story.after(LEASE);
    assert!(story.sent().is_empty(), "it was sent again");
}

fn a_wait_ends_without_a_stream() {
    let mut story = Story::open();
    story.stream_fails(Code::Unavailable);
    let op_id = story.start_for(acquire("a", "me"), Some(LEASE / 10));
    story.after(MS * 60);
    story.stream_fails(Code::NotFound);
    story.after(LEASE / 10 - MS * 61);
    assert!(story.done(op_id).is_none());
    story.after(MS);
    let failure = story.failure(op_id).to_string();
    assert_eq!(
        failure,
        "no coordinator at http://two:2: NotFound: scripted"
    );
    story.connects();
    story.opened(Vec::new());
    assert!(story.sent().is_empty(), "it was forgotten");
}

fn a_wait_ends_when_the_stream_breaks() {
    let mut story = Story::open();
    let op_id = story.start_for(acquire("a", "me"), Some(MS));
    story.after(PING_INTERVAL * 2 - MS);
    assert!(story.done(op_id).is_none());
    story.after(MS);
    let failure = story.failure(op_id).to_string();
    let silent = "no coordinator at http://one:1: the coordinator did not answer a ping";
    assert_eq!(failure, silent);
}

fn a_try_and_a_question_have_a_limit_of_their_own() {
    let mut story = Story::new();
    story.after(Duration::ZERO);
    let opened = pb::SessionOpened {
        lease: proto(OPEN_TIMEOUT * 2),
        ..pb::SessionOpened::default()
    };
    story.receive(0, Response::Opened(opened));
    story.broken();
    let question = Request::DescribeLatch(pb::DescribeLatchRequest::default());
    let op_ids = [try_acquire("a"), question].map(|it| story.start(it));
    for _ in 0..OPEN_TIMEOUT.as_secs() {
        assert!(op_ids.iter().all(|it| story.done(*it).is_none()));
        story.after(Duration::from_secs(1));
    }
    for op_id in op_ids {
        assert!(matches!(story.failure(op_id), Error::Unreachable { .. }));
    }
    let mut story = Story::new();
    let op_id = story.start(try_acquire("a"));
    story.after(OPEN_TIMEOUT);
    assert!(story.done(op_id).is_none(), "the next endpoint may answer");
}

fn patience_may_have_no_end() {
    let mut story = Story::open();
    let op_id = story.ids.next();
    story.step(Event::Start(NewOperation {
        op_id,
        request: try_acquire("a"),
        wait_until: None,
        patience: Some(Duration::MAX),
    }));
    story.sent();
    story.receive(op_id, failed("STORE_UNAVAILABLE", None));
    story.after(RETRY_PAUSE);
    assert_eq!(story.sent_kinds(), ["TryAcquire"]);
}

fn a_failure_after_the_limit_ends_a_wait() {
    let mut story = Story::open();
    let op_id = story.start_for(acquire("a", "me"), Some(MS));
    story.sent();
    story.receive(op_id, failed("OUTCOME_UNKNOWN", None));
    story.after(RETRY_PAUSE);
    story.sent();
    story.receive(op_id, failed("STORE_UNAVAILABLE", None));
    assert!(matches!(story.failure(op_id), Error::Refused(_)));
    story.after(RETRY_PAUSE);
    story.sent();
    story.receive(op_id, Response::Granted(grant("a", "me")));
    assert_eq!(story.sent_kinds(), ["Release"]);
}

fn on_a_stream_a_wait_goes_on() {
    let mut story = Story::open();
    let op_id = story.start_for(acquire("a", "me"), Some(MS));
    story.after(PING_INTERVAL);
    story.receive(op_id, Response::Granted(grant("a", "me")));
    story.held(op_id);
}

fn a_late_grant_of_an_ended_wait_is_released() {
    let mut story = Story::open();
    let op_id = story.start_for(acquire("a", "me"), Some(LEASE / 3));
    story.sent();
    story.broken();
    story.connects();
    story.after(LEASE / 3);
    assert!(matches!(story.failure(op_id), Error::Unreachable { .. }));
    story.connects();
    story.until_connects();
    story.opened(vec![grant("a", "me")]);
    assert_eq!(story.sent_kinds(), ["Acquire", "Cancel"]);
    story.receive(op_id, Response::Granted(grant("a", "me")));
    assert_eq!(story.sent_kinds(), ["Release"]);
}

fn what_was_never_sent_is_forgotten() {
    let mut story = Story::open();
    story.broken();
    let op_id = story.start(acquire("a", "me"));
    story.step(Event::Abandon(op_id));
    story.opened(Vec::new());
    assert!(story.sent().is_empty());
}

fn a_wait_is_cancelled() {
    let mut story = Story::open();
    let op_id = story.start(acquire("a", "me"));
    story.sent();
    story.step(Event::Abandon(op_id));
    assert_eq!(story.sent_kinds(), ["Cancel"]);
    // A try ends soon.
    let tried = story.start(Request::TryAcquire(pb::TryAcquireRequest::default()));
    story.step(Event::Abandon(tried));
    assert_eq!(story.sent_kinds(), ["TryAcquire"]);
    story.broken();
    story.opened(Vec::new());
    assert_eq!(story.sent_kinds(), ["Acquire", "Cancel", "TryAcquire"]);
}

fn an_undelivered_guard_is_released() {
    let mut story = Story::open();
    let op_id = story.start(acquire("a", "me"));
    story.after(PING_INTERVAL);
    story.receive(0, Response::Pong(pb::Pong {}));
    story.after(LEASE / 4);
    story.receive(op_id, Response::Granted(grant("a", "me")));
    assert_eq!(story.sent_kinds(), ["Acquire", "Renew"]);
    story.step(Event::Abandon(op_id));
    assert_eq!(story.sent_kinds(), ["Release"]);
}

#[test]
fn close_fails_all_waits() {
    let mut story = Story::open();
    let held = story.lock("a", "me");
    let waiting = story.start(acquire("b", "me"));
    let tried = story.start(Request::TryAcquire(pb::TryAcquireRequest::default()));
    story.sent();
    story.step(Event::Close);
    assert!(story.failure(waiting).is_session_ended());
    assert_eq!(story.sent_kinds(), ["Close"]);
    story.receive(waiting, Response::Granted(grant("b", "me")));
    assert!(
        story.sent().is_empty(),
        "the end of the session releases it"
    );
    story.receive(tried, failed("STORE_UNAVAILABLE", None));
    assert!(story.failure(tried).is_session_ended());
    assert!(story.lost().is_empty());
    story.after(CLOSE_TIMEOUT);
    assert_eq!(story.lost(), [held.guard]);
}
