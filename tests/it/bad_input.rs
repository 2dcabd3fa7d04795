//! Bad input gets an error that names the field, and changes nothing.

use prost_types::Duration;
use tonic_types::StatusExt as _;

use crate::support::prelude::*;

fn expect_field(status: &Status, field: &str) {
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    assert_eq!(reason(status), format!("INVALID_{}", field.to_uppercase()));
    let violations = status.get_details_bad_request().unwrap().field_violations;
    assert_eq!(violations[0].field, field);
    assert!(status.message().starts_with(field), "{}", status.message());
}

#[tokio::test(start_paused = true)]
async fn names_owners_modes_leases_and_waits_are_checked() {
    let (world, mut client) = World::with_client().await;
    let long = "n".repeat(513);
    for name in [
        "",
        long.as_str(),
        "a{",
        "a}",
        "}{",
        "{}",
        "a\0",
        "a\nb",
        "redisson_lock_token:{a}",
    ] {
        expect_field(
            &client.try_acquire(name, "x", secs(1)).await.unwrap_err(),
            "name",
        );
        expect_field(&client.release(name, "x").await.unwrap_err(), "name");
        expect_field(&client.renew(name, "x", secs(1)).await.unwrap_err(), "name");
    }
    for owner in ["mode", "x:write", "o\t", &"o".repeat(129)] {
        expect_field(
            &client.try_acquire("a", owner, secs(1)).await.unwrap_err(),
            "owner",
        );
    }
    expect_field(&client.release("a", "").await.unwrap_err(), "owner");
    for mode in [5, 99, -1] {
        let request = pb::TryAcquireRequest {
            mode,
            ..try_request("a", "x")
        };
        expect_field(&client.try_with(request).await.unwrap_err(), "mode");
    }
    let durations = [
        (0, 0),
        (-1, 0),
        (0, -1),
        (0, 99_000_000),
        (86_401, 0),
        (i64::MAX, 0),
    ];
    for (seconds, nanos) in durations {
        let lease = Some(Duration { seconds, nanos });
        let request = pb::TryAcquireRequest {
            lease,
            ..try_request("a", "x")
        };
        expect_field(&client.try_with(request).await.unwrap_err(), "lease");
    }
    let (seconds, nanos) = (-1, 0);
    let request = pb::AcquireRequest {
        wait_timeout: Some(Duration { seconds, nanos }),
        ..acquire_request("a", "x")
    };
    let refused = client.acquire(request).await.err().unwrap();
    expect_field(&refused, "wait_timeout");
    let request = try_request("a", "x").with_id("r".repeat(129));
    expect_field(&client.try_with(request).await.unwrap_err(), "request_id");
    assert_eq!(world.store.key_count(), 0, "nothing was changed");
}

#[tokio::test(start_paused = true)]
async fn a_key_of_another_kind_is_told_and_left_alone() {
    let (world, mut client) = World::with_client().await;
    world.redis(&["SET", "string", "x"]);
    world.redis(&["RPUSH", "list", "x"]);
    world.redis(&["HSET", "rwlock", "mode", "read", "u:1", "1"]);
    world.redis(&["HSET", "table", "x", "not a count"]);
    world.redis(&["RPUSH", "redisson_lock_token:{counter}", "x"]);
    for name in ["string", "list", "rwlock", "table", "counter"] {
        let described = client.api.describe(pb::DescribeRequest::named(name)).await;
        let tried = client.try_acquire(name, "x", secs(1)).await.unwrap_err();
        // A read/write lock can be described, but not be held in another mode.
        assert_eq!(described.is_ok(), name == "rwlock", "{name}");
        for status in described.err().into_iter().chain([tried]) {
            assert_eq!(
                (status.code(), reason(&status).as_str()),
                (Code::FailedPrecondition, "WRONG_KIND"),
                "{name}"
            );
        }
    }
    for name in ["string", "list", "rwlock", "table"] {
        assert_eq!(
            refusal(client.release(name, "x").await),
            "WRONG_KIND",
            "{name}"
        );
    }
    assert_eq!(world.store.key_count(), 5);
}

#[tokio::test(start_paused = true)]
async fn what_others_put_into_a_lock_is_shown_as_text_and_waited_for() {
    let (world, mut client) = World::with_client().await;
    world
        .store
        .command(&[b"HSET", b"a", b"\xff\xfe:1", b"3"])
        .unwrap();
    let seen = client.describe("a").await;
    assert_eq!(seen.holders[0].hold_count, 3);
    assert_eq!(seen.remaining_lease, None, "a key without time to live");
    let refused = client.try_acquire("a", "x", secs(1)).await.unwrap();
    assert!(!refused.acquired && refused.holder_remaining_lease.is_none());
    let mut waiting = client.acquire(acquire_request("a", "x")).await.unwrap();
    assert_eq!(waiting.expect_waiting().await.holder_remaining_lease, None);
    world.redis(&["DEL", "a"]);
    // No message comes; the bounded poll finds it.
    waiting.expect_granted().await;
}

#[tokio::test(start_paused = true)]
async fn out_of_memory_refuses_new_locks_but_gives_back_and_renews() {
    let (world, mut client) = World::with_client().await;
    client.try_acquire("a", "x", secs(10)).await.unwrap();
    client.try_acquire("a", "x", secs(10)).await.unwrap();
    world.store.set_out_of_memory(true);
    let refused = client.try_acquire("b", "x", secs(10)).await.unwrap_err();
    expect_status(&refused, Code::ResourceExhausted, "STORE_OUT_OF_MEMORY");
    client.renew("a", "x", secs(20)).await.unwrap();
    let request = |id: &str| pb::ReleaseRequest::named("a").by("x").with_id(id);
    assert!(!client.release_with(request("r1")).await.unwrap().released);
    assert!(client.release_with(request("r2")).await.unwrap().released);
}

/// The default limit of messages refuses nothing that the other limits allow.
#[test]
fn the_largest_legal_request_fits_into_a_message() {
    let limits = lockkeeper_server::config::Settings::default().limits;
    let lock = pb::LockSpec {
        name: "n".repeat(limits.name_bytes_max),
        mode: pb::LockMode::Write.into(),
    };
    let largest = pb::AcquireAllRequest {
        locks: vec![lock; limits.locks_per_request_max],
        owner: "o".repeat(limits.owner_bytes_max),
        request_id: "r".repeat(limits.request_id_bytes_max),
        session_id: "s".repeat(64),
        lease: Some(Duration::default()),
        wait_timeout: Some(Duration::default()),
        ..Default::default()
    };
    let bytes = prost::Message::encoded_len(&largest);
    assert!(bytes <= limits.message_bytes_max, "{bytes}");
}
