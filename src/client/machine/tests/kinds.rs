//! Operations by the kind of their request.

use lockkeeper_api::pb::{self, session_request::Request, session_response::Response};
use prost::Message as _;
use rand::{SeedableRng as _, rngs::StdRng};
use tokio::time::Instant;
use tonic::Status;

use super::story::{LEASE, MS, acquire, acquire_all, acquire_permits, failed, proto};
use crate::{
    Error,
    machine::operation::{Operation, Purpose, frame},
};

fn operation(request: Request) -> Operation {
    Operation::new(1, request, Purpose::Caller)
}

pub(super) fn try_acquire(name: &str) -> Request {
    Request::TryAcquire(pb::TryAcquireRequest {
        name: name.to_owned(),
        owner: "me".to_owned(),
        ..pb::TryAcquireRequest::default()
    })
}

pub(super) fn try_acquire_all(names: &[&str]) -> Request {
    let Request::AcquireAll(all) = acquire_all(names, "me") else {
        unreachable!("it is one")
    };
    Request::TryAcquireAll(pb::TryAcquireAllRequest {
        locks: all.locks,
        owner: all.owner,
        ..pb::TryAcquireAllRequest::default()
    })
}

pub(super) fn try_acquire_permits(name: &str) -> Request {
    Request::TryAcquirePermits(pb::TryAcquirePermitsRequest {
        name: name.to_owned(),
        permits: 1,
        ..pb::TryAcquirePermitsRequest::default()
    })
}

#[test]
fn each_request_that_changes_state_gets_an_id_once() {
    let changing = [
        acquire("a", "me"),
        try_acquire("a"),
        Request::Release(pb::ReleaseRequest::default()),
        acquire_all(&["a"], "me"),
        try_acquire_all(&["a"]),
        Request::ReleaseAll(pb::ReleaseAllRequest::default()),
        acquire_permits(),
        try_acquire_permits("s"),
        Request::ReleasePermits(pb::ReleasePermitsRequest::default()),
        Request::SetCount(pb::SetCountRequest::default()),
        Request::CountDown(pb::CountDownRequest::default()),
    ];
    let mut random = StdRng::seed_from_u64(1);
    let size = |it: &Operation| frame(1, it.request.clone()).encoded_len();
    for request in changing {
        let mut operation = operation(request);
        let before = size(&operation);
        operation.identify(&mut random);
        let with_id = operation.request.clone();
        assert!(size(&operation) > before, "{with_id:?}");
        operation.identify(&mut random);
        assert_eq!(operation.request, with_id);
        operation.renew_request_id(&mut random);
        assert_ne!(operation.request, with_id);
    }
    let mut renewal = operation(Request::Renew(pb::RenewRequest::default()));
    let before = renewal.request.clone();
    renewal.identify(&mut random);
    assert_eq!(renewal.request, before);
}

#[test]
fn an_operation_is_named_by_what_it_is_about() {
    let latch = Request::AwaitLatch(pb::AwaitLatchRequest {
        name: "l".to_owned(),
        ..pb::AwaitLatchRequest::default()
    });
    let named = [
        (acquire("a", "me"), "a"),
        (try_acquire("a"), "a"),
        (acquire_all(&["a", "b"], "me"), "a, b"),
        (try_acquire_all(&["a", "b"]), "a, b"),
        (acquire_permits(), "s"),
        (try_acquire_permits("s"), "s"),
        (latch, "l"),
    ];
    for (request, name) in named {
        assert_eq!(operation(request).name(), name);
    }
}

#[test]
fn what_was_sent_on_a_broken_stream_may_be_held() {
    let now = Instant::now();
    for request in [
        acquire("a", "me"),
        try_acquire("a"),
        acquire_all(&["a"], "me"),
        try_acquire_all(&["a"]),
    ] {
        let mut operation = operation(request);
        assert!(operation.acquires());
        operation.on_stream_ended();
        assert!(operation.possible_grants().is_empty(), "it was not sent");
        operation.frame(now);
        operation.on_stream_ended();
        let [possible] = &operation.possible_grants()[..] else {
            panic!("{operation:?}");
        };
        let named = (&*possible.name, &*possible.owner, possible.mode());
        assert_eq!(named, ("a", "me", pb::LockMode::Exclusive));
        assert!(possible.watched && possible.hold_count == 1);
    }
    let release = operation(Request::Release(pb::ReleaseRequest::default()));
    assert!(!release.acquires());
}

#[test]
fn each_wait_tells_the_coordinator_what_is_left_of_it() {
    let now = Instant::now();
    let left = |request: Option<Request>| match request.unwrap() {
        Request::Acquire(it) => it.wait_timeout,
        Request::AcquireAll(it) => it.wait_timeout,
        Request::AcquirePermits(it) => it.wait_timeout,
        Request::AwaitLatch(it) => it.wait_timeout,
        other => panic!("{other:?} does not wait"),
    };
    for request in [
        acquire("a", "me"),
        acquire_all(&["a"], "me"),
        acquire_permits(),
        Request::AwaitLatch(pb::AwaitLatchRequest::default()),
    ] {
        let mut operation = operation(request);
        assert!(operation.waits());
        operation.wait_until = Some(now + LEASE);
        assert_eq!(left(operation.frame(now + MS).request), proto(LEASE - MS));
    }
}

#[test]
fn patience_ends_when_it_is_over() {
    let now = Instant::now();
    let status = Status::unavailable("scripted");
    let Response::Failed(failure) = failed("STORE_UNAVAILABLE", None) else {
        unreachable!("it is one")
    };
    let failure = Error::from_frame(&failure);
    let mut operation = operation(acquire("a", "me"));
    assert!(!operation.may_retry(&Error::from(status), now, LEASE));
    operation.retry(now, now + MS);
    assert!(operation.may_retry(&failure, now + LEASE - MS, LEASE));
    assert!(!operation.may_retry(&failure, now + LEASE, LEASE));
}
