//! Dapr's distributed lock.

use lockkeeper_access::{Quotas, Right};
use lockkeeper_facades::dapr::v1::{
    TryLockRequest, UnlockRequest, dapr_client::DaprClient, unlock_response::Status as Unlocked,
};
use lockkeeper_testkit::client::Caller;

use super::etcd::options;
use crate::access::{access, rule};
use crate::support::prelude::*;

const NAME: &str = "orders/7";

struct Dapr(DaprClient<Caller>);

impl Dapr {
    fn of(client: &Client) -> Self {
        Self(DaprClient::new(client.caller()))
    }

    async fn try_lock(&mut self, owner: &str, expiry: i32) -> Result<bool, Status> {
        let locked = self.0.try_lock_alpha1(TryLockRequest {
            store_name: "orders".to_owned(),
            resource_id: "7".to_owned(),
            lock_owner: owner.to_owned(),
            expiry_in_seconds: expiry,
        });
        Ok(locked.await?.into_inner().success)
    }

    async fn unlock(&mut self, owner: &str) -> Result<Unlocked, Status> {
        let unlocked = self.0.unlock_alpha1(UnlockRequest {
            store_name: "orders".to_owned(),
            resource_id: "7".to_owned(),
            lock_owner: owner.to_owned(),
        });
        Ok(unlocked.await?.into_inner().status())
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_held_until_its_owner_unlocks_it_or_it_expires() {
    let world = World::with(&options());
    let mut client = world.client(0).await;
    let mut dapr = Dapr::of(&client);
    assert_eq!(dapr.unlock("a").await.unwrap(), Unlocked::LockDoesNotExist);
    assert!(dapr.try_lock("a", 60).await.unwrap());
    assert!(!dapr.try_lock("b", 60).await.unwrap());
    assert!(!dapr.try_lock("a", 60).await.unwrap(), "not a second time");
    let seen = client.describe(NAME).await;
    assert_eq!(
        (seen.holders[0].owner.as_str(), seen.holders[0].hold_count),
        ("a", 1)
    );
    assert_eq!(
        dapr.unlock("b").await.unwrap(),
        Unlocked::LockBelongsToOthers
    );
    assert_eq!(dapr.unlock("a").await.unwrap(), Unlocked::Success);
    assert_eq!(dapr.unlock("a").await.unwrap(), Unlocked::LockDoesNotExist);
    assert!(dapr.try_lock("b", 5).await.unwrap());
    tokio::time::sleep(secs(6)).await;
    assert!(dapr.try_lock("a", 5).await.unwrap(), "it has expired");
    assert_eq!(dapr.unlock("a").await.unwrap(), Unlocked::Success);
    world.expect_nothing_left(&[NAME]).await;
}

#[tokio::test(start_paused = true)]
async fn of_two_calls_of_one_owner_at_once_one_locks() {
    let world = World::with(&options());
    let mut client = world.client(0).await;
    let (mut one, mut other) = (Dapr::of(&client), Dapr::of(&client));
    let (one, other) = tokio::join!(one.try_lock("a", 60), other.try_lock("a", 60));
    assert!(one.unwrap() != other.unwrap());
    assert_eq!(client.describe(NAME).await.holders[0].hold_count, 1);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_refused_by_field() {
    let world = World::with(&options());
    let mut dapr = Dapr::of(&world.client(0).await);
    for expiry in [0, -1, 90_000] {
        let refused = dapr.try_lock("a", expiry).await.unwrap_err();
        expect_status(&refused, Code::InvalidArgument, "INVALID_EXPIRY_IN_SECONDS");
    }
    assert_eq!(refusal(dapr.try_lock("", 60).await), "INVALID_OWNER");
    let refused = dapr.0.try_lock_alpha1(TryLockRequest::default()).await;
    assert_eq!(refusal(refused), "INVALID_STORE_NAME");

    let without = World::new();
    let mut dapr = Dapr::of(&without.client(0).await);
    let refused = dapr.try_lock("a", 60).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
}

#[tokio::test(start_paused = true)]
async fn an_owner_is_its_callers_alone() {
    let both = &[Right::Acquire, Right::Release];
    let rules = vec![rule("alice", "orders/", both), rule("bob", "orders/", both)];
    let world = World::with(&Options {
        access: access(rules, Quotas::default()),
        ..options()
    });
    let mut alice = Dapr::of(&world.client_as(0, "alice").await);
    let mut bob = Dapr::of(&world.client_as(0, "bob").await);
    assert!(alice.try_lock("a", 60).await.unwrap());
    assert_eq!(
        bob.unlock("a").await.unwrap(),
        Unlocked::LockBelongsToOthers
    );
    assert_eq!(alice.unlock("a").await.unwrap(), Unlocked::Success);
    let mut nobody = Dapr::of(&world.client_as(0, "nobody").await);
    let refused = nobody.try_lock("a", 60).await.unwrap_err();
    expect_status(&refused, Code::PermissionDenied, "PERMISSION_DENIED");
}
