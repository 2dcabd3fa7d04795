//! The rights of callers that speak as etcd's clients do, and what one identity can use.

use lockkeeper_access::{Access, Quotas, Right};

use super::etcd::{Etcd, NO_LEASE, options};
use crate::access::{access, rule};
use crate::support::prelude::*;

const ALL: &[Right] = &[Right::Acquire, Right::Release, Right::Describe];

fn world(quotas: Quotas) -> World {
    let rules = vec![
        rule("alice", "team-a/", ALL),
        rule("bob", "team-b/", ALL),
        rule("carol", "team-a/", &[Right::Acquire]),
    ];
    world_under(access(rules, quotas))
}

fn world_under(access: Access) -> World {
    World::with(&Options {
        access,
        ..options()
    })
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_its_callers_and_names_follow_the_rules() {
    let world = world(Quotas::default());
    let mut alice = Etcd::of(&world.client_as(0, "alice").await);
    let mut bob = Etcd::of(&world.client_as(0, "bob").await);
    let lease = alice.grant_as(7, 60).await.unwrap();
    let (key, _) = alice.lock("team-a/x", lease).await.unwrap();

    let refused = alice.lock("team-b/x", lease).await.unwrap_err();
    expect_status(&refused, Code::PermissionDenied, "PERMISSION_DENIED");
    let refused = bob.unlock(&key).await.unwrap_err();
    expect_status(&refused, Code::PermissionDenied, "PERMISSION_DENIED");
    let refused = bob.lock("team-b/x", lease).await.unwrap_err();
    assert_eq!(refused.message(), NO_LEASE);
    assert_eq!(bob.time_to_live(lease).await.ttl, -1);
    assert_eq!(bob.keep_alive().await.ask(lease).await.unwrap(), 0);
    assert_eq!(bob.revoke(lease).await.unwrap_err().message(), NO_LEASE);
    assert!(bob.leases().await.is_empty());
    assert_eq!(bob.grant_as(7, 60).await.unwrap(), 7, "another lease");
    assert_eq!(alice.time_to_live(lease).await.keys, [key.as_bytes()]);

    let mut carol = Etcd::of(&world.client_as(0, "carol").await);
    let hers = carol.grant_as(0, 60).await.unwrap();
    let refused = carol.unlock(&format!("team-a/x/{hers:x}")).await;
    expect_refused(refused, Code::PermissionDenied, "PERMISSION_DENIED");
    let mut nobody = Etcd::of(&world.client_as(0, "nobody").await);
    let refused = nobody.grant_as(0, 60).await.unwrap_err();
    expect_status(&refused, Code::PermissionDenied, "PERMISSION_DENIED");
    let mut stranger = Etcd::of(&world.client(0).await);
    let refused = stranger.grant_as(0, 60).await.unwrap_err();
    expect_status(&refused, Code::Unauthenticated, "UNAUTHENTICATED");
}

#[tokio::test(start_paused = true)]
async fn leases_and_locks_count_towards_quotas() {
    let quotas = Quotas {
        sessions: 1,
        grants: 1,
        ..Quotas::default()
    };
    let world = world(quotas);
    let mut alice = Etcd::of(&world.client_as(0, "alice").await);
    let lease = alice.grant_as(0, 60).await.unwrap();
    let refused = alice.grant_as(0, 60).await.unwrap_err();
    expect_status(&refused, Code::ResourceExhausted, "QUOTA_SESSIONS");
    alice.lock("team-a/x", lease).await.unwrap();
    let refused = alice.lock("team-a/y", lease).await.unwrap_err();
    expect_status(&refused, Code::ResourceExhausted, "QUOTA_GRANTS");
    alice.revoke(lease).await.unwrap();
    alice.grant_as(0, 60).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn each_keepalive_counts_as_a_request() {
    let quotas = Quotas {
        requests_per_second: 5,
        ..Quotas::default()
    };
    let world = world(quotas);
    let mut alice = Etcd::of(&world.client_as(0, "alice").await);
    let lease = alice.grant_as(0, 60).await.unwrap();
    let mut keeping = alice.keep_alive().await;
    let mut asked = 0;
    let refused = loop {
        asked += 1;
        assert!(asked < 10_000, "as many as it likes");
        if let Err(refused) = keeping.ask(lease).await {
            break refused;
        }
    };
    let reason = "QUOTA_REQUESTS_PER_SECOND";
    expect_status(&refused, Code::ResourceExhausted, reason);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_right_to_its_name() {
    let rules = vec![rule("alice", "", ALL), rule("bob", "", ALL)];
    let access = access(rules, Quotas::default());
    let world = world_under(access.clone());
    let mut alice = Etcd::of(&world.client_as(0, "alice").await);
    let mut bob = Etcd::of(&world.client_as(0, "bob").await);
    let lease = alice.grant_as(0, 60).await.unwrap();
    let (key, _) = alice.lock("a", lease).await.unwrap();
    let waits = bob.grant_as(0, 60).await.unwrap();
    let (refused, ()) = tokio::join!(bob.lock("a", waits), async {
        world.until_waiting(0, 1).await;
        access.set(vec![rule("alice", "", ALL)], Quotas::default());
        alice.unlock(&key).await.unwrap();
    });
    expect_refused(refused, Code::PermissionDenied, "PERMISSION_DENIED");
    alice.lock("a", lease).await.unwrap();
}
