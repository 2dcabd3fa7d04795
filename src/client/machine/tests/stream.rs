//! The rows of the stream.

use std::time::Duration;

use lockkeeper_api::pb::{self, session_request::Request, session_response::Response};
use tonic::{Code, Status};

use super::{
    rows,
    story::{
        LEASE, MS, PING_INTERVAL, Story, acquire, acquire_all, acquire_permits, grant, refusal,
        request_id, too_large,
    },
};
use crate::{
    Error,
    machine::{
        Effect, Event,
        state::CLOSE_TIMEOUT,
        stream::{BACKOFF_MIN, FIRST_PAUSE, LEAVE_TIMEOUT, OPEN_TIMEOUT},
    },
    session::SessionEvent,
};

rows! {
    "`opened` | first attempt" => the_first_stream_opens_the_session, others_are_tried_to_open;
    "`opened` | `Up`" => a_new_resume_token_replaces_the_first;
    "stream ends, or `leave_at` passes | `Up`" => a_broken_stream_is_replaced,
        a_stream_that_ends_after_a_close_ends_the_session,
        a_stream_that_is_left_after_a_close_does_not,
        streams_that_end_without_progress_are_opened_less_and_less_often;
    "stream ends with reason `MESSAGE_TOO_LARGE` | `Up`" =>
        a_request_that_ended_the_stream_does_not_end_the_next_one;
    "nothing received for `ping_interval` | `Up`" => silence_is_broken_by_a_ping;
    "nothing received for `ping_interval` after a ping | `Up`" => a_silent_stream_is_cancelled;
    "`going_away` | `Up`" => nothing_new_is_sent_to_one_that_goes_away;
    "`retry_at` passes | `Down`" => a_resume_names_what_may_be_held;
    "`opened` | `Opening`" => a_resumed_stream_gets_everything_again, permits_start_anew,
        a_part_of_several_locks_is_released, a_lock_of_another_guard_is_not;
    "attempt fails or exceeds its time limit | `Opening`" => each_round_tries_every_endpoint,
        slow_attempts_get_more_time, an_attempt_without_opened_fails;
    "attempt fails with INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION or UNIMPLEMENTED at \
     every endpoint in a row | `Opening`" => a_session_that_nobody_knows_has_ended;
    "`resume_deadline` passes | `Down`, `Opening`" => a_lease_without_a_stream_ends_the_session;
    "session ends | any" => the_end_loses_and_fails_everything;
}

/// Its limit is smaller than the default.
fn a_request_that_ended_the_stream_does_not_end_the_next_one() {
    let mut story = Story::open();
    let large = story.start(acquire(&"n".repeat(2000), "me"));
    let small = story.start(acquire("a", "me"));
    story.sent();
    story.step(Event::StreamEnded(Some(too_large(2000).into())));
    let failure = story.failure(large).to_string();
    assert!(failure.ends_with("the limit is 2000"), "{failure}");
    story.until_connects();
    story.opened(Vec::new());
    assert_eq!(story.sent_one().0, small);
}

/// As if one of its operations ended each stream.
fn streams_that_end_without_progress_are_opened_less_and_less_often() {
    let mut story = Story::open();
    let mut pauses = Vec::new();
    for round in 0..7 {
        if round == 6 {
            let op_id = story.start(acquire("a", "me"));
            story.receive(op_id, Response::Granted(grant("a", "me")));
        }
        story.stream_fails(Code::OutOfRange);
        pauses.push(story.until_connects());
        story.opened(Vec::new());
    }
    for (round, pause) in pauses[1..6].iter().enumerate() {
        let most = (BACKOFF_MIN * (1 << round)).min(LEASE / 6);
        assert!((most / 2..=most + MS).contains(pause), "{pauses:?}");
    }
    assert!(pauses[0].max(pauses[6]) <= FIRST_PAUSE + MS, "{pauses:?}");
}

fn the_first_stream_opens_the_session() {
    let mut story = Story::new();
    story.after(Duration::ZERO);
    let connects = story.connects();
    assert!(matches!(&connects[..], [(_, Request::Open(_))]));
    story.opened(Vec::new());
    let opened = story.effects.pop();
    assert!(matches!(opened, Some(Effect::Opened(Ok(_)))), "{opened:?}");
    story.broken();
    let resume = story.resume();
    assert_eq!(
        (resume.session_id, &resume.resume_token[..]),
        ("id".to_owned(), &b"token"[..])
    );
}

fn a_new_resume_token_replaces_the_first() {
    let mut story = Story::open();
    let opened = pb::SessionOpened {
        resume_token: b"second".to_vec(),
        ..pb::SessionOpened::default()
    };
    story.receive(0, Response::Opened(opened));
    story.broken();
    assert_eq!(story.resume().resume_token, b"second");
}

fn others_are_tried_to_open() {
    let mut story = Story::new();
    story.after(OPEN_TIMEOUT);
    assert_eq!(story.disconnects(), 1, "the first does not answer");
    story.stream_fails(Code::Unavailable);
    let connects: Vec<_> = story.connects().into_iter().map(|it| it.0).collect();
    assert_eq!(connects, ["http://one:1", "http://two:2"]);
    let failed = story.effects.pop();
    assert!(
        matches!(failed, Some(Effect::Opened(Err(Error::Refused(_))))),
        "{failed:?}"
    );
    assert!(story.is_ended() && story.events().is_empty());

    let mut story = Story::new();
    story.after(Duration::ZERO);
    story.stream_fails(Code::PermissionDenied);
    assert!(story.is_ended(), "the others would refuse it as well");
}

fn a_broken_stream_is_replaced() {
    let mut story = Story::open();
    let held = story.lock("a", "me");
    let op_id = story.start(acquire("b", "me"));
    story.sent();
    story.stream_fails(Code::Unavailable);
    let events = story.events();
    let [SessionEvent::Broken { cause }] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(cause, "Unavailable: scripted");
    assert!(story.connects().is_empty(), "without a pause");
    story.after(FIRST_PAUSE);
    let (address, first) = story.connects().remove(0);
    assert_eq!(address, "http://two:2");
    let Request::Resume(resume) = first else {
        panic!("{first:?}");
    };
    assert_eq!(resume.grants.len(), 2, "the sent operation is uncertain");
    story.opened(Vec::new());
    assert_eq!(story.sent_one().0, op_id);
    assert_eq!(held.loss(), None);

    story.going_away();
    story.after(LEAVE_TIMEOUT);
    assert_eq!(story.disconnects(), 1);
    let events = story.events();
    assert!(
        matches!(&events[..], [SessionEvent::Resumed, SessionEvent::Broken { cause }]
            if cause == "the coordinator is stopping"),
        "{events:?}"
    );
}

fn a_stream_that_ends_after_a_close_ends_the_session() {
    let mut story = Story::open();
    story.step(Event::Close);
    assert!(matches!(story.sent_one().1, Request::Close(_)));
    story.step(Event::StreamEnded(None));
    assert!(matches!(story.machine.ended(), Some(Ok(()))));
}

fn a_stream_that_is_left_after_a_close_does_not() {
    let silent = |story: &mut Story| {
        story.after(PING_INTERVAL);
        story.step(Event::Close);
        story.after(PING_INTERVAL + FIRST_PAUSE);
    };
    let going_away = |story: &mut Story| {
        story.step(Event::Close);
        story.going_away();
        story.after(LEAVE_TIMEOUT + FIRST_PAUSE);
    };
    for leave in [silent, going_away] {
        let mut story = Story::open();
        leave(&mut story);
        assert!(matches!(story.sent_one().1, Request::Close(_)));
        assert!(!story.is_ended(), "nobody has closed it");
        story.opened(Vec::new());
        assert!(matches!(story.sent_one().1, Request::Close(_)));
        story.after(CLOSE_TIMEOUT);
        assert!(matches!(story.machine.ended(), Some(Err(_))));
    }
}

fn silence_is_broken_by_a_ping() {
    let mut story = Story::open();
    let is_ping = |effect: &Effect| match effect {
        Effect::Send(frame) => matches!(frame.request, Some(Request::Ping(_))),
        _ => false,
    };
    story.after(PING_INTERVAL - MS);
    assert!(story.effects.is_empty());
    story.after(MS);
    assert!(matches!(&story.effects[..], [ping] if is_ping(ping)));
    for _ in 0..3 {
        story.receive(0, Response::Pong(pb::Pong {}));
        story.after(PING_INTERVAL);
    }
    assert_eq!(story.effects.iter().filter(|it| is_ping(it)).count(), 4);
    assert!(story.events().is_empty(), "the stream was left");
}

fn a_silent_stream_is_cancelled() {
    let mut story = Story::open();
    story.after(PING_INTERVAL * 2 - MS);
    assert_eq!(story.disconnects(), 0);
    story.after(MS);
    assert_eq!(story.disconnects(), 1);
    let events = story.events();
    assert!(
        matches!(&events[..], [SessionEvent::Broken { cause }]
            if cause == "the coordinator did not answer a ping"),
        "{events:?}"
    );
}

fn nothing_new_is_sent_to_one_that_goes_away() {
    let mut story = Story::open();
    let sent = story.start(acquire("a", "me"));
    story.sent();
    story.going_away();
    let new = story.start(acquire("b", "me"));
    story.step(Event::Abandon(sent));
    story.step(Event::Close);
    assert!(story.sent().is_empty());
    let mut story = Story::open();
    let held = story.lock("a", "me");
    story.going_away();
    assert!(story.start(acquire("b", "me")) > new);
    story.release(held.guard);
    assert!(story.sent().is_empty());
    story.after(LEAVE_TIMEOUT + FIRST_PAUSE);
    story.opened(Vec::new());
    assert_eq!(story.sent_kinds(), ["Acquire", "Release"]);
}

fn a_resume_names_what_may_be_held() {
    let mut story = Story::open();
    story.lock("a", "me");
    let mut leased = acquire("b", "me");
    if let Request::Acquire(it) = &mut leased {
        it.lease = super::story::proto(LEASE);
    }
    story.start(leased);
    // Permits cannot be named, and one name is enough.
    story.start(acquire_permits());
    story.start(acquire_all(&["a", "c"], "me"));
    story.start(acquire("c", "me"));
    story.broken();
    let resume = story.resume();
    let named = resume.grants.iter();
    let named: Vec<_> = named
        .map(|it| (it.name.as_str(), it.hold_count, it.watched))
        .collect();
    assert_eq!(named, [("a", 1, true), ("b", 1, false), ("c", 1, true)]);
}

fn a_resumed_stream_gets_everything_again() {
    let mut story = Story::open();
    let held = story.lock("a", "me");
    let wait = Some(Duration::from_secs(2));
    let sent = story.start_for(acquire("b", "me"), wait);
    let first = story.sent_one().1;
    story.broken();
    let meanwhile = story.start(acquire("c", "me"));
    story.after(Duration::from_millis(200));
    story.opened(vec![grant("a", "me")]);
    let events = story.events();
    assert!(
        matches!(&events[..], [.., SessionEvent::Resumed]),
        "{events:?}"
    );
    // From before anything was sent.
    assert_eq!(held.valid_for(&story), LEASE - Duration::from_millis(200));
    let frames = story.sent();
    let ids: Vec<_> = frames.iter().map(|it| it.0).collect();
    assert_eq!(ids, [sent, meanwhile]);
    let again = &frames[0].1;
    assert_eq!(request_id(again), request_id(&first));
    let Request::Acquire(again) = again else {
        panic!("{again:?}");
    };
    let left = Duration::try_from(again.wait_timeout.unwrap()).unwrap();
    assert!(left < Duration::from_millis(1800), "{left:?}");
    // The deadline is over.
    story.after(LEASE);
    assert!(!story.is_ended());
}

fn permits_start_anew() {
    let mut story = Story::open();
    let op_id = story.start(acquire_permits());
    let first = story.sent_one().1;
    let given_up = story.start(acquire_permits());
    story.step(Event::Abandon(given_up));
    story.sent();
    story.broken();
    story.opened(Vec::new());
    let (again_id, again) = story.sent_one();
    assert_eq!(again_id, op_id);
    assert_ne!(request_id(&again), request_id(&first));
}

fn a_part_of_several_locks_is_released() {
    for held in [&[][..], &["a"], &["a", "b"]] {
        let mut story = Story::open();
        story.start(acquire_all(&["a", "b"], "me"));
        let first = story.sent_one().1;
        story.broken();
        story.opened(held.iter().map(|it| grant(it, "me")).collect());
        let sent = story.sent();
        let is_part = held.len() == 1;
        assert_eq!(sent.len(), if is_part { 2 } else { 1 });
        assert_eq!(request_id(&sent[0].1) != request_id(&first), is_part);
        if let Some((_, Request::Release(release))) = sent.get(1) {
            assert_eq!(release.name, "a");
        }
    }
}

fn a_lock_of_another_guard_is_not() {
    let mut story = Story::open();
    story.lock("a", "me");
    story.start(acquire_all(&["a", "b"], "me"));
    let first = story.sent_one().1;
    story.broken();
    story.opened(vec![grant("a", "me")]);
    assert_eq!(request_id(&story.sent_one().1), request_id(&first));
}

fn each_round_tries_every_endpoint() {
    let mut story = Story::open();
    story.broken();
    story.connects();
    let mut pauses = Vec::new();
    for _ in 0..8 {
        story.stream_fails(Code::Unavailable);
        pauses.push(story.until_connects());
    }
    let within: Vec<_> = pauses.iter().step_by(2).collect();
    assert!(within.iter().all(|it| **it <= MS), "{within:?}");
    for (round, pause) in pauses.iter().skip(1).step_by(2).enumerate() {
        let most = Duration::from_millis(50 << round).min(Duration::from_secs(1));
        assert!(*pause >= most / 2 && *pause <= most + MS, "{pauses:?}");
    }
}

fn slow_attempts_get_more_time() {
    let mut story = Story::open();
    story.stream_fails(Code::Unavailable);
    story.until_connects();
    let limits = [(); 3].map(|()| story.until_connects());
    // A sixth of the lease, doubled in each round of two, and the pause after the first.
    let most = [LEASE / 6, LEASE / 6 + BACKOFF_MIN, LEASE / 3];
    for (limit, most) in limits.iter().zip(most) {
        assert!(
            *limit <= most + MS && *limit + BACKOFF_MIN > most,
            "{limits:?}"
        );
    }
}

fn an_attempt_without_opened_fails() {
    let mut story = Story::open();
    story.broken();
    story.connects();
    story.receive(0, Response::Pong(pb::Pong {}));
    assert_eq!(story.disconnects(), 1);
    story.step(Event::StreamEnded(None));
    story.after(MS);
    assert_eq!(story.connects().len(), 1);
    story.step(Event::StreamEnded(None));
    assert!(!story.is_ended());
}

fn a_session_that_nobody_knows_has_ended() {
    let ends = |answers: Vec<Status>| {
        let mut story = Story::open();
        story.broken();
        for answer in answers {
            story.stream_ends(answer);
            story.after(Duration::from_millis(100));
        }
        story.is_ended()
    };
    for code in [
        Code::InvalidArgument,
        Code::NotFound,
        Code::FailedPrecondition,
        Code::Unimplemented,
    ] {
        assert!(ends(vec![refusal(code); 2]), "{code:?}");
        assert!(!ends([code, Code::Unavailable, code].map(refusal).into()));
        assert!(!ends(vec![Status::new(code, "a proxy's"); 2]), "{code:?}");
    }
    for code in [Code::Unauthenticated, Code::PermissionDenied] {
        assert!(!ends(vec![refusal(code); 2]), "credentials may be replaced");
    }
}

fn a_lease_without_a_stream_ends_the_session() {
    for is_refused in [true, false] {
        let mut story = Story::open();
        story.stream_fails(Code::Unavailable);
        let until = story.now + LEASE;
        while story.now + MS < until {
            story.after(MS);
            assert!(!story.is_ended());
            if is_refused && !story.connects().is_empty() {
                story.stream_fails(Code::Unavailable);
            }
        }
        story.after(MS);
        assert!(story.is_ended());
    }
}

fn the_end_loses_and_fails_everything() {
    let mut story = Story::open();
    let held = story.lock("a", "me");
    let waiting = story.start(acquire("b", "me"));
    story.broken();
    story.stream_fails(Code::NotFound);
    story.after(MS);
    story.stream_fails(Code::NotFound);
    assert_eq!(story.lost(), [held.guard]);
    assert_eq!(held.loss().as_deref(), Some("UNSPECIFIED"));
    assert!(story.failure(waiting).is_session_ended());
    let events = story.events();
    assert!(
        matches!(&events[..], [.., SessionEvent::Ended { cause }] if cause == "NotFound: scripted"),
        "{events:?}"
    );
    story.connects();
    let late = story.start(acquire("c", "me"));
    assert!(story.failure(late).is_session_ended());
    let release = story.release(held.guard);
    assert!(story.failure(release).is_session_ended());
    story.after(LEASE * 10);
    assert!(story.connects().is_empty(), "it was opened again");
}
