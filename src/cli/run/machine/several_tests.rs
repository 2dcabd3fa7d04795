use nix::sys::signal::Signal::{SIGCONT, SIGTERM};

use super::{
    tests::{Story, broken, duration, grant, locks, opened, plan},
    *,
};
use crate::grpc::pb::{
    Grant, GrantLost, GrantedAll, LockMode, LostReason, NotGrantedReason, PermitGrant, PermitsLost,
    PermitsNotGranted, RenewPermitsResponse, RenewResponse, session_response::Response,
};

/// Up to a command that runs with two locks, each confirmed just now and valid for 29 s.
fn running_with_two() -> Story {
    let mut story = Story::new(Plan {
        wish: locks(&[("z", LockMode::Exclusive), ("a", LockMode::Read)]),
        ..plan()
    });
    story.frame(0, opened(Vec::new()));
    story.expect_sent("acquire_all");
    let grants = vec![named("a", 5, 29.0), named("z", 6, 29.0)];
    story.frame(1, Response::GrantedAll(GrantedAll { grants }));
    assert_eq!(story.sent(), ["renew", "renew"]);
    story.frame(2, renewed("a", 29.0));
    assert_eq!(story.actions, [], "one is not enough");
    story.frame(3, renewed("z", 29.0));
    let fencing_tokens = vec![("z".to_owned(), 6), ("a".to_owned(), 5)];
    assert_eq!(story.actions, [Action::StartChild { fencing_tokens }]);
    story.on(Input::ChildStarted(Ok(())));
    story
}

fn named(name: &str, fencing_token: u64, valid_for: f64) -> Grant {
    Grant {
        name: name.to_owned(),
        fencing_token,
        ..grant(valid_for)
    }
}

fn renewed(name: &str, valid_for: f64) -> Response {
    let grant = Some(named(name, 0, valid_for));
    Response::Renewed(RenewResponse { grant })
}

#[test]
fn several_locks_are_renewed_each_by_itself() {
    let mut story = running_with_two();
    story.advance(10.0);
    assert_eq!(story.sent(), ["renew", "renew"]);
    story.frame(4, renewed("a", 29.0));
    // The other one decides.
    story.advance(11.0);
    story.expect_signals(&[SIGTERM, SIGCONT]);
    assert!(
        story.said().contains("could not be renewed in time"),
        "{}",
        story.said()
    );
}

#[test]
fn the_loss_of_one_of_several_locks_stops_the_command() {
    let mut story = running_with_two();
    let lost = GrantLost {
        grant: Some(named("z", 6, 0.0)),
        reason: LostReason::TakenOver.into(),
        detail: String::new(),
    };
    story.frame(0, Response::Lost(lost));
    story.expect_signals(&[SIGTERM, SIGCONT]);
    assert_eq!(
        story.said(),
        "lost the lock z: somebody else holds it; stopping the command"
    );
}

#[test]
fn a_resume_that_does_not_bring_all_of_several_locks_back_is_a_loss() {
    let mut story = running_with_two();
    story.on(broken());
    story.frame(0, opened(vec![named("a", 5, 29.0), named("z", 6, 29.0)]));
    story.expect_signals(&[]);
    story.on(broken());
    story.frame(0, opened(vec![named("a", 5, 29.0)]));
    story.expect_signals(&[SIGTERM, SIGCONT]);
}

fn permits(valid_for: f64) -> PermitGrant {
    PermitGrant {
        name: "pool".to_owned(),
        owner: "0".to_owned(),
        permits: 2,
        permit_ids: vec!["aa".to_owned(), "bb".to_owned()],
        lease: duration(30.0),
        valid_for: duration(valid_for),
        ..PermitGrant::default()
    }
}

#[test]
fn permits_are_held_as_a_lock_is() {
    let plan = Plan {
        wish: Wish::Permits {
            name: "pool".to_owned(),
            permits: 2,
        },
        ..plan()
    };
    let mut refused = Story::new(plan.clone());
    refused.frame(0, opened(Vec::new()));
    let ended = PermitsNotGranted {
        reason: NotGrantedReason::WaitTimeout.into(),
        available: 1,
    };
    refused.frame(1, Response::PermitsNotGranted(ended));
    assert_eq!(
        refused.said(),
        "pool: too few permits are free, available=1"
    );

    let mut story = Story::new(plan);
    story.frame(0, opened(Vec::new()));
    story.expect_sent("acquire_permits");
    story.frame(1, Response::PermitsGranted(permits(29.0)));
    story.expect_sent("renew_permits");
    let grants = vec![permits(29.0)];
    story.frame(2, Response::PermitsRenewed(RenewPermitsResponse { grants }));
    let fencing_tokens = Vec::new();
    assert_eq!(story.actions, [Action::StartChild { fencing_tokens }]);
    story.on(Input::ChildStarted(Ok(())));

    story.on(broken());
    let Action::Connect(SessionRequest {
        request: Some(Request::Resume(resume)),
        ..
    }) = story.actions[2].clone()
    else {
        panic!("no resume: {:?}", story.actions);
    };
    assert_eq!((resume.grants.len(), resume.permits.len()), (0, 1));
    let Response::Opened(again) = opened(Vec::new()) else {
        panic!("not opened");
    };
    story.frame(
        0,
        Response::Opened(SessionOpened {
            permits: vec![permits(29.0)],
            ..again
        }),
    );
    story.expect_signals(&[]);
    let lost = PermitsLost {
        grant: Some(permits(0.0)),
        reason: LostReason::Expired.into(),
    };
    story.frame(0, Response::PermitsLost(lost));
    story.expect_signals(&[SIGTERM, SIGCONT]);
    assert!(story.said().contains("lost the permits of pool"));
}
