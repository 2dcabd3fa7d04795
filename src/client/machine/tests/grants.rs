//! The rows of grants.

use std::time::Duration;

use lockkeeper_api::pb::{
    self, Grant, LostReason, session_request::Request, session_response::Response,
};

use super::{
    rows,
    story::{LEASE, MS, RENEW_INTERVAL, Story, TOKEN, acquire, acquire_all, failed, grant, proto},
};
use crate::{
    Error,
    machine::{Completion, Event, operations::RETRY_PAUSE},
    session::SessionEvent,
};

rows! {
    "`renew_at` passes, `Up`, no renewal unanswered" => a_grant_is_renewed_in_time,
        a_lease_of_the_request_is_not_renewed, a_grant_with_another_lease_is_renewed_in_its_time;
    "`renewed`" => a_renewal_counts_from_its_request, a_late_grant_is_delivered_when_renewed,
        a_late_grant_prolongs_no_other_guard;
    "renewal fails with `NOT_OWNER`, also one by the user" => what_is_not_owned_is_lost,
        what_the_user_cannot_renew_is_lost, a_newer_grant_is_not_lost;
    "renewal fails otherwise" => a_renewal_that_fails_is_repeated;
    "`valid_until` passes" => a_grant_that_is_not_renewed_expires;
    "`lost`, `permits_lost`" => a_loss_is_reported_once, the_loss_of_an_older_grant_is_ignored,
        an_undelivered_guard_fails;
    "the user releases" => a_release_is_sent, a_lost_guard_is_released_too,
        a_lost_guard_releases_no_newer_grant, a_lost_guard_releases_what_is_not_granted_anew,
        a_grant_during_the_release_counts_by_itself, a_loss_during_the_release_is_not_reported;
    "`at_risk`, `recovered`" => a_risk_is_no_loss;
}

/// Answers the renewals that were sent.
fn renew(story: &mut Story, grant: &Grant) -> usize {
    let sent = story.sent();
    let renewals = sent.iter().filter(|it| matches!(it.1, Request::Renew(_)));
    let ids: Vec<_> = renewals.map(|it| it.0).collect();
    for op_id in &ids {
        let grant = Some(grant.clone());
        story.receive(*op_id, Response::Renewed(pb::RenewResponse { grant }));
    }
    ids.len()
}

/// Lets time pass while pings are answered.
fn alive(story: &mut Story, time: Duration) {
    let until = story.now + time;
    while story.now < until {
        story.after((until - story.now).min(MS * 100));
        story.receive(0, Response::Pong(pb::Pong {}));
    }
}

fn lost(story: &mut Story, grant: Grant) {
    let notice = pb::GrantLost {
        valid_for: None,
        grant: Some(grant),
        reason: LostReason::TakenOver.into(),
        detail: String::new(),
    };
    story.receive(0, Response::Lost(notice));
}

/// Acquires a lock whose grant comes after half of its lease, and returns the operation.
fn late(story: &mut Story, owner: &str) -> u64 {
    let op_id = story.start(acquire("a", owner));
    story.sent();
    alive(story, LEASE / 2);
    story.receive(op_id, Response::Granted(grant("a", owner)));
    op_id
}

fn a_grant_is_renewed_in_time() {
    let mut story = Story::open();
    let held = story.lock("a", "me");
    for _ in 0..10 {
        alive(&mut story, RENEW_INTERVAL - MS);
        assert!(story.sent().is_empty());
        alive(&mut story, MS);
        assert_eq!(renew(&mut story, &grant("a", "me")), 1);
        assert_eq!(held.valid_for(&story), LEASE);
    }
    alive(&mut story, RENEW_INTERVAL * 2);
    assert_eq!(
        story.sent_kinds(),
        ["Renew"],
        "a second one without an answer"
    );
}

fn a_lease_of_the_request_is_not_renewed() {
    let mut story = Story::open();
    let op_id = story.start(acquire("a", "me"));
    let leased = Grant {
        watched: false,
        ..grant("a", "me")
    };
    story.receive(op_id, Response::Granted(leased));
    story.sent();
    alive(&mut story, LEASE);
    assert!(story.sent_kinds().is_empty());
    assert_eq!(story.lost().len(), 1);
}

fn a_grant_with_another_lease_is_renewed_in_its_time() {
    let mut story = Story::open();
    let op_id = story.start(acquire("a", "me"));
    let longer = Grant {
        lease: proto(LEASE * 2),
        valid_for: proto(LEASE * 2),
        ..grant("a", "me")
    };
    story.receive(op_id, Response::Granted(longer));
    story.sent();
    alive(&mut story, LEASE * 6 / 10 - MS);
    assert!(story.sent().is_empty());
    alive(&mut story, MS);
    assert_eq!(story.sent_kinds(), ["Renew"]);
}

fn a_renewal_counts_from_its_request() {
    let mut story = Story::open();
    let held = story.lock("a", "me");
    alive(&mut story, RENEW_INTERVAL);
    let (op_id, _) = story.sent_one();
    alive(&mut story, RENEW_INTERVAL / 2);
    let renewed = pb::RenewResponse {
        grant: Some(grant("a", "me")),
    };
    story.receive(op_id, Response::Renewed(renewed));
    assert_eq!(held.valid_for(&story), LEASE - RENEW_INTERVAL / 2);
    alive(&mut story, RENEW_INTERVAL / 2);
    assert_eq!(story.sent_kinds(), ["Renew"], "timed from the answer");
    // An answer that says less takes nothing.
    let shorter = Grant {
        valid_for: proto(MS),
        ..grant("a", "me")
    };
    let valid_for = held.valid_for(&story);
    let user = story.start(Request::Renew(pb::RenewRequest {
        name: "a".to_owned(),
        owner: "me".to_owned(),
        ..pb::RenewRequest::default()
    }));
    let grant = Some(shorter);
    story.receive(user, Response::Renewed(pb::RenewResponse { grant }));
    assert_eq!(held.valid_for(&story), valid_for);
}

fn a_late_grant_is_delivered_when_renewed() {
    for is_watched in [true, false] {
        let mut story = Story::open();
        let op_id = late(&mut story, "me");
        assert!(story.done(op_id).is_none());
        let renewed = Grant {
            watched: is_watched,
            ..grant("a", "me")
        };
        assert_eq!(renew(&mut story, &renewed), 1);
        assert_eq!(story.held(op_id).valid_for(&story), LEASE);
    }
}

fn a_late_grant_prolongs_no_other_guard() {
    let mut story = Story::open();
    let held = story.lock("a", "me");
    let op_id = late(&mut story, "me");
    assert_eq!(held.valid_for(&story), LEASE / 2);
    assert!(story.done(op_id).is_none());
    alive(&mut story, LEASE / 2);
    assert_eq!(story.lost(), [held.guard]);
    assert!(story.failure(op_id).is_lost());
}

fn what_is_not_owned_is_lost() {
    let states = [(Some("held_by_another"), "TAKEN_OVER"), (None, "EXPIRED")];
    for (state, reason) in states {
        let mut story = Story::open();
        let held = story.lock("a", "me");
        alive(&mut story, RENEW_INTERVAL);
        let (op_id, _) = story.sent_one();
        story.receive(op_id, failed("NOT_OWNER", state));
        assert_eq!(story.lost(), [held.guard]);
        assert_eq!(held.loss().as_deref(), Some(reason));
    }
}

fn what_the_user_cannot_renew_is_lost() {
    let mut story = Story::open();
    let held = story.lock("a", "me");
    let renewal = pb::RenewRequest {
        name: "a".to_owned(),
        owner: "me".to_owned(),
        ..pb::RenewRequest::default()
    };
    let op_id = story.start(Request::Renew(renewal));
    story.receive(op_id, failed("NOT_OWNER", None));
    assert!(story.failure(op_id).is_lost());
    assert_eq!(story.lost(), [held.guard]);
}

fn a_newer_grant_is_not_lost() {
    let mut story = Story::open();
    let held = story.lock("a", "me");
    alive(&mut story, RENEW_INTERVAL);
    let (renewal, _) = story.sent_one();
    let again = story.start(acquire("a", "me"));
    let newer = Grant {
        fencing_token: TOKEN + 1,
        ..grant("a", "me")
    };
    story.receive(again, Response::Granted(newer));
    story.receive(renewal, failed("NOT_OWNER", None));
    assert!(story.lost().is_empty());
    assert_eq!(held.loss(), None);
}

fn a_renewal_that_fails_is_repeated() {
    let mut story = Story::open();
    story.lock("a", "me");
    alive(&mut story, RENEW_INTERVAL);
    let (op_id, _) = story.sent_one();
    story.receive(op_id, failed("STORE_UNAVAILABLE", None));
    alive(&mut story, RETRY_PAUSE - MS);
    assert!(story.sent().is_empty());
    alive(&mut story, MS);
    assert_eq!(renew(&mut story, &grant("a", "me")), 1);
    assert!(story.lost().is_empty());
}

fn a_grant_that_is_not_renewed_expires() {
    let mut story = Story::open();
    let held = story.lock("a", "me");
    alive(&mut story, LEASE - MS);
    assert!(story.lost().is_empty());
    alive(&mut story, MS);
    assert_eq!(story.lost(), [held.guard]);
    assert_eq!(held.loss().as_deref(), Some("EXPIRED"));
}

fn a_loss_is_reported_once() {
    let mut story = Story::open();
    let (held, other) = (story.lock("a", "me"), story.lock("b", "me"));
    for _ in 0..2 {
        lost(&mut story, grant("a", "me"));
    }
    assert_eq!(story.lost(), [held.guard]);
    assert_eq!(held.loss().as_deref(), Some("TAKEN_OVER"));
    assert_eq!(other.loss(), None);

    let op_id = story.start(super::story::acquire_permits());
    let permits = pb::PermitGrant {
        permit_ids: vec!["1".to_owned()],
        valid_for: proto(LEASE),
        ..pb::PermitGrant::default()
    };
    story.receive(op_id, Response::PermitsGranted(permits.clone()));
    let held = story.held(op_id);
    let notice = pb::PermitsLost {
        grant: Some(permits),
        ..pb::PermitsLost::default()
    };
    story.receive(0, Response::PermitsLost(notice));
    assert_eq!(story.lost(), [held.guard]);
}

fn the_loss_of_an_older_grant_is_ignored() {
    let mut story = Story::open();
    story.lock("a", "me");
    let older = Grant {
        fencing_token: TOKEN - 1,
        ..grant("a", "me")
    };
    lost(&mut story, older);
    assert!(story.lost().is_empty());
}

/// Of several locks the others are still held.
fn an_undelivered_guard_fails() {
    let mut story = Story::open();
    let op_id = story.start(acquire_all(&["a", "b"], "me"));
    alive(&mut story, LEASE / 2);
    let grants = vec![grant("a", "me"), grant("b", "me")];
    story.receive(op_id, Response::GrantedAll(pb::GrantedAll { grants }));
    story.sent();
    lost(&mut story, grant("b", "me"));
    assert!(matches!(story.failure(op_id), Error::Lost { .. }));
    assert_eq!(story.sent_kinds(), ["ReleaseAll"]);
}

fn a_release_is_sent() {
    let mut story = Story::open();
    let held = story.lock("a", "me");
    let op_id = story.release(held.guard);
    let (sent, release) = story.sent_one();
    assert_eq!(sent, op_id);
    let id = super::story::request_id(&release).to_owned();
    assert!(!id.is_empty());
    story.broken();
    assert_eq!(story.resume().grants.len(), 1, "it may still be held");
    story.opened(vec![grant("a", "me")]);
    let (_, again) = story.sent_one();
    assert_eq!(super::story::request_id(&again), id);
    story.receive(op_id, Response::Released(pb::ReleaseResponse::default()));
    assert!(matches!(story.done(op_id), Some(Ok(Completion::Other(_)))));
    story.broken();
    assert!(story.resume().grants.is_empty());
}

fn a_lost_guard_is_released_too() {
    let mut story = Story::open();
    let held = story.lock("a", "me");
    lost(&mut story, grant("a", "me"));
    let guard = held.guard;
    story.step(Event::Release { guard, op_id: None });
    assert_eq!(story.sent_kinds(), ["Release"]);
}

/// The coordinator would release the present grant of this owner.
fn a_lost_guard_releases_no_newer_grant() {
    let mut story = Story::open();
    let held = story.lock("a", "me");
    lost(&mut story, grant("a", "me"));
    let newer = story.lock_anew("a", "me");
    let op_id = story.release(held.guard);
    assert!(story.sent().is_empty());
    let failure = story.failure(op_id);
    assert!(
        matches!(&failure, Error::Lost { name, reason, .. }
            if name == "a" && *reason == LostReason::TakenOver),
        "{failure:?}"
    );
    story.release(newer.guard);
    assert_eq!(story.sent_kinds(), ["Release"]);
}

fn a_lost_guard_releases_what_is_not_granted_anew() {
    let mut story = Story::open();
    let op_id = story.start(acquire_all(&["a", "b"], "me"));
    let grants = vec![grant("a", "me"), grant("b", "me")];
    story.receive(op_id, Response::GrantedAll(pb::GrantedAll { grants }));
    let held = story.held(op_id);
    story.sent();
    lost(&mut story, grant("a", "me"));
    story.lock_anew("a", "me");
    let guard = held.guard;
    story.step(Event::Release { guard, op_id: None });
    let (op_id, released) = story.sent_one();
    assert!(
        matches!(&released, Request::Release(it) if it.name == "b"),
        "{released:?}"
    );
    story.receive(op_id, Response::Released(pb::ReleaseResponse::default()));
    story.broken();
    let named = story.resume().grants;
    assert_eq!(named.iter().map(|it| &it.name).collect::<Vec<_>>(), ["a"]);
}

fn a_grant_during_the_release_counts_by_itself() {
    const SHORT: Duration = Duration::from_secs(1);
    let mut story = Story::open();
    let held = story.lock("a", "me");
    story.release(held.guard);
    let (release, _) = story.sent_one();
    story.receive(release, failed("OUTCOME_UNKNOWN", None));
    let op_id = story.start(acquire("a", "me"));
    let newer = Grant {
        fencing_token: TOKEN + 1,
        valid_for: proto(SHORT),
        ..grant("a", "me")
    };
    story.receive(op_id, Response::Granted(newer));
    let newer = story.held(op_id);
    assert_eq!(newer.valid_for(&story), SHORT);
    story.receive(release, Response::Released(pb::ReleaseResponse::default()));
    alive(&mut story, SHORT);
    assert_eq!(story.lost(), [newer.guard], "its renewal has no answer");
}

fn a_loss_during_the_release_is_not_reported() {
    let mut story = Story::open();
    let held = story.lock("a", "me");
    story.release(held.guard);
    lost(&mut story, grant("a", "me"));
    alive(&mut story, LEASE * 2);
    assert!(story.lost().is_empty());
    assert_eq!(held.loss(), None);
}

fn a_risk_is_no_loss() {
    let mut story = Story::open();
    let held = story.lock("a", "me");
    let at_risk = pb::SessionAtRisk {
        valid_for: proto(LEASE),
    };
    story.receive(0, Response::AtRisk(at_risk));
    story.receive(0, Response::Recovered(pb::SessionRecovered {}));
    let events = story.events();
    assert!(
        matches!(&events[..], [SessionEvent::AtRisk { valid_for }, SessionEvent::Recovered]
            if *valid_for == LEASE),
        "{events:?}"
    );
    assert!(story.lost().is_empty() && held.loss().is_none());
}
