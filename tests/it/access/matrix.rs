//! Identity, right and call: every RPC and every frame of a session that the descriptors have,
//! asked by callers who may not. One without a row fails.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::uri::PathAndQuery;
use lockkeeper_access::{Quotas, Right};
use lockkeeper_api::pb::session_request::Request as Frame;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, MethodDescriptor, Value};
use tonic::{Request, client::Grpc};
use tonic_types::StatusExt as _;

use super::{raw::Raw, rule, world_with};
use crate::support::prelude::*;

/// The call; the right that it needs, empty if it names nothing; the reason of the refusal when
/// another identity gives the session id of the owner, about the owner's name and about its own.
type Row = (&'static str, &'static str, &'static str, &'static str);

const DENIED: &str = "PERMISSION_DENIED";
const NO_SESSION: &str = "SESSION_NOT_FOUND";
const NOT_ITS: &str = "INVALID_SESSION_ID";
/// The call has no field for it.
const NONE: &str = "";

const RPCS: &[Row] = &[
    ("LockService.Acquire", "acquire", DENIED, NO_SESSION),
    ("LockService.TryAcquire", "acquire", DENIED, NO_SESSION),
    ("LockService.AcquireAll", "acquire", DENIED, NO_SESSION),
    ("LockService.TryAcquireAll", "acquire", DENIED, NO_SESSION),
    ("LockService.Release", "release", DENIED, NO_SESSION),
    ("LockService.ReleaseAll", "release", NO_SESSION, NO_SESSION),
    ("LockService.Renew", "acquire", DENIED, NO_SESSION),
    ("LockService.Describe", "describe", NONE, NONE),
    ("LockService.Explain", "describe", NONE, NONE),
    ("LockService.AwaitFree", "describe", DENIED, NO_SESSION),
    ("LockService.WatchLock", "describe", NONE, NONE),
    ("LockService.CheckToken", "describe", NONE, NONE),
    ("LockService.RequestYield", "acquire", NONE, NONE),
    ("LockService.Offer", "acquire", DENIED, NO_SESSION),
    ("LockService.Claim", "acquire", DENIED, NO_SESSION),
    ("LockService.Session", NONE, NONE, NONE),
    (
        "SemaphoreService.AcquirePermits",
        "acquire",
        DENIED,
        NO_SESSION,
    ),
    (
        "SemaphoreService.TryAcquirePermits",
        "acquire",
        DENIED,
        NO_SESSION,
    ),
    (
        "SemaphoreService.ReleasePermits",
        "release",
        DENIED,
        NO_SESSION,
    ),
    (
        "SemaphoreService.RenewPermits",
        "acquire",
        DENIED,
        NO_SESSION,
    ),
    ("SemaphoreService.SetPermits", "acquire", NONE, NONE),
    ("SemaphoreService.DescribeSemaphore", "describe", NONE, NONE),
    ("LatchService.SetCount", "acquire", NONE, NONE),
    ("LatchService.CountDown", "acquire", NONE, NONE),
    ("LatchService.AwaitLatch", "acquire", DENIED, NO_SESSION),
    ("LatchService.DescribeLatch", "describe", NONE, NONE),
    ("LatchService.DeleteLatch", "acquire", NONE, NONE),
    ("ElectionService.Campaign", "acquire", DENIED, NO_SESSION),
    ("ElectionService.Proclaim", "acquire", DENIED, NO_SESSION),
    ("ElectionService.Resign", "release", DENIED, NO_SESSION),
    ("ElectionService.Transfer", "acquire", NONE, NONE),
    ("ElectionService.Leader", "describe", NONE, NONE),
    ("ElectionService.Observe", "describe", NONE, NONE),
    ("LockAdminService.ListLocks", "admin", NONE, NONE),
    ("LockAdminService.ListCoordinators", "admin", NONE, NONE),
    ("LockAdminService.ListSessions", "admin", NONE, NONE),
    ("LockAdminService.ListContention", "admin", NONE, NONE),
    ("LockAdminService.ForceRelease", "admin", NONE, NONE),
    ("LockAdminService.EndSession", "admin", NONE, NONE),
    ("LockAdminService.ReadPage", "admin", NONE, NONE),
    ("LockAdminService.Watch", "admin", NONE, NONE),
];

const FRAMES: &[Row] = &[
    ("open", NONE, NONE, NONE),
    ("resume", NONE, NONE, NONE),
    ("close", NONE, NONE, NONE),
    ("cancel", NONE, NONE, NONE),
    ("ping", NONE, NONE, NONE),
    ("acquire", "acquire", DENIED, NOT_ITS),
    ("try_acquire", "acquire", DENIED, NOT_ITS),
    ("acquire_all", "acquire", DENIED, NOT_ITS),
    ("try_acquire_all", "acquire", DENIED, NOT_ITS),
    ("release", "release", DENIED, NOT_ITS),
    ("release_all", "release", NOT_ITS, NOT_ITS),
    ("renew", "acquire", DENIED, NOT_ITS),
    ("describe", "describe", NONE, NONE),
    ("explain", "describe", NONE, NONE),
    ("await_free", "describe", DENIED, NOT_ITS),
    ("check_token", "describe", NONE, NONE),
    ("acquire_permits", "acquire", DENIED, NOT_ITS),
    ("try_acquire_permits", "acquire", DENIED, NOT_ITS),
    ("release_permits", "release", DENIED, NOT_ITS),
    ("renew_permits", "acquire", DENIED, NOT_ITS),
    ("set_permits", "acquire", NONE, NONE),
    ("describe_semaphore", "describe", NONE, NONE),
    ("set_count", "acquire", NONE, NONE),
    ("count_down", "acquire", NONE, NONE),
    ("await_latch", "acquire", DENIED, NOT_ITS),
    ("describe_latch", "describe", NONE, NONE),
    ("delete_latch", "acquire", NONE, NONE),
    ("campaign", "acquire", DENIED, NOT_ITS),
    ("proclaim", "acquire", DENIED, NOT_ITS),
    ("resign", "release", DENIED, NOT_ITS),
    ("transfer", "acquire", NONE, NONE),
    ("leader", "describe", NONE, NONE),
    ("offer", "acquire", DENIED, NOT_ITS),
    ("claim", "acquire", DENIED, NOT_ITS),
];

/// The owner, and those who may not: another team, its admin, and one whom no rule mentions.
const OWNER: &str = "alice";
const OTHERS: [&str; 2] = ["bob", "bob-admin"];
const NOBODY: &str = "nobody";

/// A name of the owner, and one of the others.
const HERS: &str = "team-a/x";
const THEIRS: &str = "team-b/x";

/// What a call is about.
struct About<'a> {
    name: &'a str,
    session_id: &'a str,
    digest: &'a str,
}

fn world() -> World {
    let own = [Right::Acquire, Right::Release, Right::Describe];
    let rules = vec![
        rule(OWNER, "team-a/", &own),
        rule("bob*", "team-b/", &own),
        rule("bob-admin", "team-b/", &[Right::Admin]),
    ];
    world_with(rules, Quotas::default())
}

fn pool() -> DescriptorPool {
    DescriptorPool::decode(pb::DESCRIPTORS).unwrap()
}

/// The RPCs by their names in the table.
fn rpcs() -> Vec<(String, MethodDescriptor)> {
    let pool = pool();
    let services = pool
        .services()
        .filter(|it| it.full_name().starts_with("lockkeeper."));
    let methods = services.flat_map(|service| service.methods().collect::<Vec<_>>());
    let named = methods.map(|it| (format!("{}.{}", it.parent_service().name(), it.name()), it));
    named.collect()
}

/// The frames of a client by the names of their fields.
fn frames() -> Vec<(String, MessageDescriptor)> {
    let request = pool()
        .get_message_by_name("lockkeeper.v1.SessionRequest")
        .unwrap();
    let oneof = request.oneofs().next().unwrap();
    let frames = oneof.fields().map(|field| {
        let message = field.kind().as_message().unwrap().clone();
        (field.name().to_owned(), message)
    });
    frames.collect()
}

fn row(rows: &[Row], call: &str) -> Row {
    let row = rows.iter().find(|row| row.0 == call);
    *row.unwrap_or_else(|| panic!("{call} has no row: who may call it?"))
}

/// A request whose fields are set by their names. Fails for a field that is not known here.
fn request(of: &MessageDescriptor, about: &About<'_>) -> DynamicMessage {
    let text = |text: &str| Value::String(text.to_owned());
    let mut message = DynamicMessage::new(of.clone());
    for field in of.fields() {
        let value = match field.name() {
            "name" | "prefix" => text(about.name),
            "session_id" => text(about.session_id),
            "session_digest" => text(about.digest),
            "owner" | "ticket" => text("ci"),
            "reason" | "value" => text("why"),
            "page" => text("lock"),
            "query" => text(&format!("name={}", about.name)),
            "permits" | "count" | "by" => Value::U32(1),
            "fencing_token" | "term" => Value::U64(1),
            "permit_ids" => Value::List(vec![text(&"0".repeat(32))]),
            "locks" => {
                let lock = field.kind().as_message().unwrap().clone();
                let names = [THEIRS, about.name].into_iter().collect::<BTreeSet<_>>();
                let lock = |name| {
                    let about = About { name, ..*about };
                    Value::Message(request(&lock, &about))
                };
                Value::List(names.into_iter().map(lock).collect())
            }
            "note" => Value::Message(request(field.kind().as_message().unwrap(), about)),
            "to" | "labels" | "grace_period" | "identity" | "mode" | "lease" | "wait_timeout"
            | "within" | "hold_at_least" | "lock_delay" | "preempt" | "client_name"
            | "request_id" | "min_replica_acks" | "end_on_deadlock" | "only_if_absent" | "ttl"
            | "page_size" | "page_token" | "after_revision" | "fleet" | "waited_for_here"
            | "holders_of" | "preferred" => {
                continue;
            }
            other => panic!("{}: what is {other} to be?", of.name()),
        };
        message.set_field(&field, value);
    }
    message
}

/// Calls an RPC of any kind, and returns its first answer; what is allowed may wait.
async fn call(client: &Client, rpc: &MethodDescriptor, about: &About<'_>) -> Result<(), Status> {
    let path = format!("/{}/{}", rpc.parent_service().full_name(), rpc.name());
    let path = PathAndQuery::try_from(path).unwrap();
    let message = request(&rpc.input(), about).encode_to_vec();
    let mut grpc = Grpc::new(client.channel());
    grpc.ready().await.unwrap();
    let answers = grpc.server_streaming(Request::new(Bytes::from(message)), path, Raw);
    let mut answers = answers.await?.into_inner();
    let first = tokio::time::timeout(Duration::from_secs(1), answers.message()).await;
    first.map_or(Ok(()), |first| first.map(drop))
}

/// Sends a frame, and returns its first answer.
async fn send(session: &mut Session, name: &str, about: &About<'_>) -> Result<(), Status> {
    let mut frames = frames().into_iter();
    let message = frames.find(|frame| frame.0 == name).unwrap().1;
    let whole = pool()
        .get_message_by_name("lockkeeper.v1.SessionRequest")
        .unwrap();
    let mut frame = DynamicMessage::new(whole);
    frame.set_field_by_name(name, Value::Message(request(&message, about)));
    let frame = pb::SessionRequest::decode(frame.encode_to_vec().as_slice()).unwrap();
    let op_id = session.send(frame.request.unwrap());
    // What is allowed may wait.
    match tokio::time::timeout(Duration::from_secs(1), session.answer(op_id)).await {
        Ok(Response::Failed(failed)) => {
            let (code, details) = (Code::from_i32(failed.code), failed.encode_to_vec());
            Err(Status::with_details(code, failed.message, details.into()))
        }
        _ => Ok(()),
    }
}

#[track_caller]
fn assert_denied(answer: Result<(), Status>, right: &str, name: &str, what: &str) {
    let Err(refused) = answer else {
        panic!("{what}: allowed")
    };
    let info = refused.get_details_error_info().unwrap();
    assert_eq!(info.reason, DENIED, "{what}: {refused}");
    assert_eq!(info.metadata["right"], right, "{what}");
    // Some calls are about every name.
    let about = info.metadata["name"].as_str();
    assert!([name, ""].contains(&about), "{what}: {info:?}");
}

#[track_caller]
fn assert_reason(answer: Result<(), Status>, expected: &str, what: &str) {
    let Err(refused) = answer else {
        panic!("{what}: allowed")
    };
    assert_eq!(reason(&refused), expected, "{what}: {refused}");
}

/// What the owner's session holds, and what its digest is.
async fn hold(world: &World) -> (Session, String) {
    let mut owner = world.client_as(0, OWNER).await;
    let mut session = owner.open().await;
    session.acquire(HERS).await;
    let listed = world.coordinator(0).list_sessions(10, "");
    let digest = listed.sessions[0].digest.clone();
    (session, digest)
}

#[test]
fn every_call_has_a_row_and_every_row_a_call() {
    let rpcs = rpcs();
    assert!(rpcs.len() > 20, "{rpcs:?}");
    for (rows, calls) in [
        (
            RPCS,
            rpcs.into_iter().map(|rpc| rpc.0).collect::<BTreeSet<_>>(),
        ),
        (FRAMES, frames().into_iter().map(|frame| frame.0).collect()),
    ] {
        let named: BTreeSet<String> = rows.iter().map(|row| row.0.to_owned()).collect();
        assert_eq!(named.len(), rows.len(), "one row each");
        assert_eq!(named, calls, "rows, and what the descriptors have");
    }
}

#[tokio::test(start_paused = true)]
async fn no_rpc_lets_another_identity_at_what_is_hers() {
    let world = world();
    let (mut session, digest) = hold(&world).await;
    for caller in OTHERS.into_iter().chain([NOBODY]) {
        let client = world.client_as(0, caller).await;
        for (name, rpc) in rpcs() {
            let (_, right, hers, theirs) = row(RPCS, &name);
            if right.is_empty() {
                continue;
            }
            let what = format!("{caller} {name}");
            let ask = async |name, session_id: &str| {
                let about = About {
                    name,
                    session_id,
                    digest: &digest,
                };
                call(&client, &rpc, &about).await
            };
            assert_denied(ask(HERS, "").await, right, HERS, &what);
            let id = session.id();
            if !hers.is_empty() {
                assert_reason(ask(HERS, &id).await, hers, &what);
            }
            if !theirs.is_empty() && caller != NOBODY {
                assert_reason(ask(THEIRS, &id).await, theirs, &what);
            }
        }
    }
    assert_eq!(
        session.acquire(HERS).await.hold_count,
        2,
        "it noticed nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn no_frame_lets_another_identity_at_what_is_hers() {
    let world = world();
    let (mut session, digest) = hold(&world).await;
    for caller in OTHERS {
        let mut own = world.client_as(0, caller).await.open().await;
        for (name, _) in frames() {
            let (_, right, hers, theirs) = row(FRAMES, &name);
            if right.is_empty() {
                continue;
            }
            let what = format!("{caller} {name}");
            let mut ask = async |about, session_id: &str| {
                let about = About {
                    name: about,
                    session_id,
                    digest: &digest,
                };
                send(&mut own, &name, &about).await
            };
            assert_denied(ask(HERS, "").await, right, HERS, &what);
            let id = session.id();
            if !hers.is_empty() {
                assert_reason(ask(HERS, &id).await, hers, &what);
            }
            if !theirs.is_empty() {
                assert_reason(ask(THEIRS, &id).await, theirs, &what);
            }
        }
        assert_eq!(
            own.acquire(THEIRS).await.hold_count,
            1,
            "its session goes on"
        );
        own.close().await.unwrap();
    }
    assert_eq!(
        session.acquire(HERS).await.hold_count,
        2,
        "it noticed nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn the_first_frames_open_no_session_of_hers() {
    let world = world();
    let (mut session, _) = hold(&world).await;
    let opened = session.opened.clone();
    let hers = session.acquire(HERS).await;
    let mut nobody = world.client_as(0, NOBODY).await;
    let open = Frame::Open(pb::OpenSession::default());
    assert_eq!(refusal(nobody.session(open).await), DENIED);
    assert_eq!(refusal(nobody.resume(&opened, Vec::new()).await), DENIED);
    for caller in OTHERS {
        let mut client = world.client_as(0, caller).await;
        for grants in [Vec::new(), vec![hers.clone()]] {
            let refused = client.resume(&opened, grants.clone()).await.err().unwrap();
            assert_eq!(reason(&refused), NO_SESSION, "{caller}");
            let own = client.open().await;
            let resumed = client.resume(&own.opened, grants).await.unwrap();
            assert_eq!(resumed.opened.grants, [], "{caller}");
        }
    }
    assert_eq!(
        session.acquire(HERS).await.hold_count,
        3,
        "it noticed nothing"
    );
}

/// The table would say nothing if these calls were refused to everyone.
#[tokio::test(start_paused = true)]
async fn what_she_may_is_not_refused_for_want_of_a_right() {
    let world = world();
    let client = world.client_as(0, OWNER).await;
    let about = About {
        name: HERS,
        session_id: "",
        digest: "",
    };
    let is_hers = |right: &str| !matches!(right, NONE | "admin");
    let is_denied =
        |answer: Result<(), Status>| answer.is_err_and(|refused| reason(&refused) == DENIED);
    for (name, rpc) in rpcs() {
        // Several locks are one of hers and one of theirs.
        let is_one = !name.ends_with("All");
        if is_hers(row(RPCS, &name).1) && is_one {
            assert!(!is_denied(call(&client, &rpc, &about).await), "{name}");
        }
    }
    let mut own = world.client_as(0, OWNER).await.open().await;
    for (name, _) in frames() {
        let is_one = !name.ends_with("_all");
        if is_hers(row(FRAMES, &name).1) && is_one {
            assert!(!is_denied(send(&mut own, &name, &about).await), "{name}");
        }
    }
}
