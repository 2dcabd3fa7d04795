//! What the rows do not tell apart: boundaries, and what is left behind.

use std::time::Duration;

use lockkeeper_api::pb::{self, Grant, LostReason, session_response::Response};
use tokio::time::Instant;
use tonic::Code;

use super::{
    kinds::{try_acquire, try_acquire_permits},
    story::{
        LEASE, MS, PING_INTERVAL, RENEW_INTERVAL, Story, TOKEN, acquire, failed, grant, proto,
    },
};
use crate::{
    holding::Holding,
    machine::{
        Completion, Effect, Event, Ids,
        holding_table::HoldingTable,
        operations::RETRY_PAUSE,
        stream::{FIRST_PAUSE, LEAVE_TIMEOUT},
    },
    session::SessionEvent,
    validity::Loss,
};

fn renewed(story: &mut Story, op_id: u64, valid_for: Duration) {
    let grant = Some(Grant {
        valid_for: proto(valid_for),
        ..grant("a", "me")
    });
    story.receive(op_id, Response::Renewed(pb::RenewResponse { grant }));
}

#[test]
fn permits_that_were_tried_for_are_delivered() {
    let mut story = Story::open();
    let op_id = story.start(try_acquire_permits("s"));
    let tried = pb::TryAcquirePermitsResponse {
        acquired: true,
        grant: Some(pb::PermitGrant {
            permit_ids: vec!["1".to_owned()],
            valid_for: proto(LEASE),
            ..pb::PermitGrant::default()
        }),
        ..pb::TryAcquirePermitsResponse::default()
    };
    story.receive(op_id, Response::PermitsTried(tried));
    assert_eq!(story.held(op_id).valid_for(&story), LEASE);
}

#[test]
fn the_coordinator_says_when_a_grant_with_the_lease_of_the_session_is_renewed() {
    const INTERVAL: Duration = Duration::from_millis(700);
    let mut story = Story::new();
    story.after(Duration::ZERO);
    let opened = pb::SessionOpened {
        lease: proto(LEASE),
        renew_interval: proto(INTERVAL),
        ..pb::SessionOpened::default()
    };
    story.receive(0, Response::Opened(opened));
    assert_eq!(story.machine.lease(), LEASE);
    story.lock("a", "me");
    story.after(INTERVAL - MS);
    assert!(story.sent().is_empty());
    story.after(MS);
    assert_eq!(story.sent_kinds(), ["Renew"]);
}

#[test]
fn a_failed_renewal_is_repeated_sooner_if_the_lease_is_short() {
    const SHORT: Duration = Duration::from_millis(600);
    let mut story = Story::new();
    story.after(Duration::ZERO);
    let opened = pb::SessionOpened {
        lease: proto(SHORT),
        ..pb::SessionOpened::default()
    };
    story.receive(0, Response::Opened(opened));
    let op_id = story.start(acquire("a", "me"));
    let short = Grant {
        lease: proto(SHORT),
        valid_for: proto(SHORT),
        ..grant("a", "me")
    };
    story.receive(op_id, Response::Granted(short));
    story.sent();
    story.after(SHORT * 3 / 10);
    let (renewal, _) = story.sent_one();
    story.receive(renewal, failed("STORE_UNAVAILABLE", None));
    assert!(SHORT / 6 < RETRY_PAUSE);
    story.after(SHORT / 6 - MS);
    assert!(story.sent().is_empty());
    story.after(MS);
    assert_eq!(story.sent_kinds(), ["Renew"]);
}

#[test]
fn another_hold_does_not_renew_while_a_renewal_is_unanswered() {
    let mut story = Story::open();
    story.lock("a", "me");
    let pong = |story: &mut Story| story.receive(0, Response::Pong(pb::Pong {}));
    for _ in 0..3 {
        story.after(RENEW_INTERVAL / 3);
        pong(&mut story);
    }
    let (renewal, _) = story.sent_one();
    story.lock("a", "me");
    for _ in 0..3 {
        story.after(RENEW_INTERVAL / 3);
        pong(&mut story);
    }
    assert!(story.sent().is_empty());
    // But on the next stream, where it is not answered.
    story.broken();
    story.opened(vec![grant("a", "me")]);
    story.sent();
    for _ in 0..3 {
        story.after(RENEW_INTERVAL / 3);
        pong(&mut story);
    }
    let (again, _) = story.sent_one();
    assert_ne!(again, renewal);
}

/// Even if the coordinator does not name it.
#[test]
fn what_was_due_without_a_stream_is_renewed_when_the_session_is_resumed() {
    let mut story = Story::open();
    story.lock("a", "me");
    story.after(PING_INTERVAL - MS);
    story.receive(0, Response::Pong(pb::Pong {}));
    story.after(RENEW_INTERVAL - PING_INTERVAL - MS * 100);
    story.broken();
    story.after(MS * 200);
    story.opened(Vec::new());
    assert_eq!(story.sent_kinds(), ["Renew"]);
}

#[test]
fn a_grant_that_is_a_third_of_its_lease_old_is_delivered_without_a_renewal() {
    for (late, is_delivered) in [(Duration::ZERO, true), (MS, false)] {
        let mut story = Story::open();
        let op_id = story.start(acquire("a", "me"));
        story.sent();
        for _ in 0..4 {
            story.after(LEASE / 12);
            story.receive(0, Response::Pong(pb::Pong {}));
        }
        story.after(late);
        story.receive(op_id, Response::Granted(grant("a", "me")));
        assert_eq!(story.done(op_id).is_some(), is_delivered);
    }
}

#[test]
fn a_renewal_that_is_over_when_it_arrives_confirms_nothing() {
    let mut story = Story::open();
    let op_id = story.start(acquire("a", "me"));
    story.sent();
    for _ in 0..4 {
        story.after(LEASE / 8);
        story.receive(0, Response::Pong(pb::Pong {}));
    }
    story.receive(op_id, Response::Granted(grant("a", "me")));
    let (renewal, _) = story.sent_one();
    story.after(MS * 10);
    renewed(&mut story, renewal, MS * 10);
    assert!(story.done(op_id).is_none());
    story.after(RENEW_INTERVAL);
    let (renewal, _) = story.sent_one();
    renewed(&mut story, renewal, LEASE);
    assert_eq!(story.held(op_id).valid_for(&story), LEASE - MS * 10);
}

#[test]
fn an_undelivered_guard_fails_when_the_session_is_closed() {
    let mut story = Story::open();
    let op_id = story.start(try_acquire("a"));
    story.sent();
    for _ in 0..4 {
        story.after(LEASE / 8);
        story.receive(0, Response::Pong(pb::Pong {}));
    }
    let tried = pb::TryAcquireResponse {
        acquired: true,
        grant: Some(grant("a", "me")),
        ..pb::TryAcquireResponse::default()
    };
    story.receive(op_id, Response::Tried(tried));
    assert!(story.done(op_id).is_none());
    story.step(Event::Close);
    assert!(story.failure(op_id).is_session_ended());
}

#[test]
fn a_lock_that_is_taken_away_is_safe_until_the_next_grant() {
    let mut story = Story::open();
    let held = story.lock("a", "me");
    let notice = pb::GrantLost {
        valid_for: proto(LEASE / 3),
        grant: Some(grant("a", "me")),
        reason: LostReason::ForceReleased.into(),
        detail: String::new(),
    };
    story.receive(0, Response::Lost(notice));
    assert_eq!(held.valid_for(&story), LEASE / 3);
}

#[test]
fn what_is_lost_without_a_grace_period_is_valid_no_more() {
    let losses: [fn(&mut Story); 3] = [
        |story| {
            let notice = pb::GrantLost {
                grant: Some(grant("a", "me")),
                reason: LostReason::HandedOver.into(),
                ..pb::GrantLost::default()
            };
            story.receive(0, Response::Lost(notice));
        },
        |story| {
            story.after(RENEW_INTERVAL - MS * 500);
            let (renewal, _) = story.sent_one();
            story.receive(renewal, failed("NOT_OWNER", None));
        },
        |story| {
            story.step(Event::Close);
            story.step(Event::StreamEnded(None));
        },
    ];
    for lose in losses {
        let mut story = Story::open();
        let held = story.lock("a", "me");
        story.after(PING_INTERVAL);
        story.receive(0, Response::Pong(pb::Pong {}));
        lose(&mut story);
        assert_eq!(story.lost(), [held.guard]);
        assert_eq!(held.valid_for(&story), Duration::ZERO);
    }
}

#[test]
fn only_the_holder_of_that_grant_is_asked_to_yield() {
    let mut story = Story::open();
    let held = story.lock("a", "me");
    let ask = |story: &mut Story, token: u64| {
        let grant = Grant {
            fencing_token: token,
            ..grant("a", "me")
        };
        let notice = pb::YieldRequested {
            grant: Some(grant),
            within: proto(LEASE),
            ..pb::YieldRequested::default()
        };
        story.receive(0, Response::YieldRequested(notice));
        let now = story.now;
        let events = story.events().into_iter();
        let asked = events.map(|it| match it {
            SessionEvent::YieldRequested(request) => request.deadline - now,
            other => panic!("{other:?}"),
        });
        asked.collect::<Vec<_>>()
    };
    assert!(ask(&mut story, TOKEN - 1).is_empty());
    assert_eq!(ask(&mut story, TOKEN), [LEASE]);
    story.release(held.guard);
    assert!(ask(&mut story, TOKEN).is_empty());
}

#[test]
fn a_newer_grant_does_not_last_as_long_as_the_former_one() {
    let mut story = Story::open();
    let held = story.lock("a", "me");
    let mut acquired = |token: u64| {
        let op_id = story.start(acquire("a", "me"));
        let again = Grant {
            fencing_token: token,
            valid_for: proto(LEASE / 3),
            ..grant("a", "me")
        };
        story.receive(op_id, Response::Granted(again));
        let again = story.held(op_id);
        (held.valid_for(&story), again.valid_for(&story))
    };
    assert_eq!(acquired(TOKEN), (LEASE, LEASE), "one more hold");
    assert_eq!(acquired(TOKEN + 1), (LEASE / 3, LEASE / 3));
}

/// Its owner acquired the lock again before it learned that the former grant had ended.
#[test]
fn a_guard_of_a_former_grant_releases_no_newer_one() {
    let mut story = Story::open();
    let held = story.lock("a", "me");
    let newer = story.lock_anew("a", "me");
    let op_id = story.release(held.guard);
    assert!(story.sent().is_empty());
    assert!(story.failure(op_id).is_lost());
    assert_eq!(newer.valid_for(&story), LEASE);
    story.release(newer.guard);
    assert_eq!(story.sent_kinds(), ["Release"]);
}

/// The coordinator could not be reached, and has not noticed the loss.
#[test]
fn a_lost_hold_that_the_coordinator_still_counts_is_released() {
    let mut story = Story::open();
    let held = story.lock("a", "me");
    let op_id = story.start(acquire("a", "me"));
    let again = Grant {
        hold_count: 2,
        ..grant("a", "me")
    };
    let notice = pb::GrantLost {
        grant: Some(grant("a", "me")),
        ..pb::GrantLost::default()
    };
    story.receive(0, Response::Lost(notice));
    story.receive(op_id, Response::Granted(again));
    story.sent();
    let again = story.held(op_id);
    for guard in [held.guard, again.guard] {
        story.release(guard);
        assert_eq!(story.sent_kinds(), ["Release"]);
    }
}

#[test]
fn nothing_of_what_was_released_or_lost_is_kept() {
    let now = Instant::now();
    let mut table = HoldingTable::new(Ids::new());
    let mut effects = Vec::new();
    let holding = || Holding::Lock(grant("a", "me"));
    table.grant(now, now, 1, vec![holding()], &mut effects);
    assert!(table.contains(&grant("a", "me")));
    let lost = Loss::new(LostReason::Expired, now);
    table.on_lost(&holding(), &lost, &mut effects);
    assert!(!table.contains(&grant("a", "me")));
    assert_eq!(table.wake_at(), None);

    table.grant(now, now, 2, vec![holding()], &mut effects);
    let mut guards = effects.iter().filter_map(|it| match it {
        Effect::Done {
            result: Ok(Completion::Granted { guard, .. }),
            ..
        } => Some(*guard),
        _ => None,
    });
    let guard = guards.next_back().unwrap();
    table.release(guard, None, &mut effects);
    assert!(table.contains(&grant("a", "me")), "it may still be held");
    table.on_released(guard);
    assert!(!table.contains(&grant("a", "me")));
    assert_eq!(table.wake_at(), None);
}

#[test]
fn an_ended_session_asks_for_nothing() {
    let mut story = Story::open();
    story.stream_fails(Code::Unavailable);
    while !story.is_ended() {
        story.now = story.machine.wake_at().unwrap();
        story.step(Event::Tick);
    }
    assert_eq!(story.machine.wake_at(), None);
    story.effects.clear();
    story.now += LEASE;
    story.step(Event::Tick);
    assert!(story.effects.is_empty(), "{:?}", story.effects);
}

#[test]
fn the_time_for_an_answer_grows_when_all_addresses_have_failed() {
    let mut story = Story::open();
    story.broken();
    let mut limits = Vec::new();
    for _ in 0..3 {
        story.connects();
        let begun = story.now;
        while story.disconnects() == 0 {
            story.now = story.machine.wake_at().unwrap();
            story.step(Event::Tick);
        }
        limits.push(story.now - begun);
        if limits.len() < 3 {
            while story.connects().is_empty() {
                story.now = story.machine.wake_at().unwrap();
                story.step(Event::Tick);
            }
        }
    }
    let first = LEASE / 6;
    assert_eq!(limits, [first, first, first * 2]);
}

#[test]
fn a_coordinator_that_stops_has_time_for_its_last_answers() {
    let mut story = Story::open();
    story.going_away();
    story.after(LEAVE_TIMEOUT - MS);
    assert_eq!(story.disconnects(), 0);
    story.after(MS);
    assert_eq!(story.disconnects(), 1);
}

#[test]
fn why_a_stream_ended_is_told() {
    let cause = |story: &mut Story| match &story.events()[..] {
        [SessionEvent::Broken { cause }] => cause.clone(),
        other => panic!("{other:?}"),
    };
    let mut story = Story::open();
    story.step(Event::StreamEnded(None));
    assert_eq!(cause(&mut story), "the coordinator ended the stream");
    let mut story = Story::open();
    story.after(PING_INTERVAL * 2 - FIRST_PAUSE);
    assert!(story.events().is_empty());
    story.after(FIRST_PAUSE);
    assert_eq!(cause(&mut story), "the coordinator did not answer a ping");
}
