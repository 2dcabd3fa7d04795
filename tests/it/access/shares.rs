//! No identity takes what others need: sessions are for those who have a right, and watchers are
//! shared out.

use lockkeeper_access::{Quotas, Right};
use lockkeeper_api::pb::lock_admin_service_client::LockAdminServiceClient;

use super::{ALICE, MALLORY, rule, world_with};
use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn a_session_needs_some_right() {
    let rules = vec![rule(ALICE, "a/", &[Right::Describe])];
    let world = world_with(rules, Quotas::default());
    let mut mallory = world.client_as(0, MALLORY).await;
    let opened = mallory.open_with(pb::OpenSession::default()).await;
    expect_refused(opened, Code::PermissionDenied, "PERMISSION_DENIED");
    assert_eq!(world.coordinator(0).load().sessions, 0);
    let mut alice = world.client_as(0, ALICE).await;
    alice.open().await.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_admin_of_a_prefix_leaves_watchers_to_admins_of_everything() {
    let mut rules = vec![rule("root", "", &[Right::Admin])];
    for number in 0..10 {
        let team = format!("team-{number}");
        rules.push(rule(&team, &format!("{team}/"), &[Right::Admin]));
    }
    let world = world_with(rules, Quotas::default());
    let mut open = Vec::new();
    let mut refused = 0;
    for number in 0..10 {
        let team = format!("team-{number}");
        let client = world.client_as(0, &team).await;
        let mut admin = LockAdminServiceClient::new(client.channel());
        for _ in 0..9 {
            let prefix = format!("{team}/");
            match admin
                .watch(pb::WatchRequest {
                    prefix,
                    fleet: false,
                })
                .await
            {
                Ok(watch) => open.push(watch),
                Err(status) => {
                    expect_refused::<()>(Err(status), Code::ResourceExhausted, "WATCHERS_MAX");
                    refused += 1;
                }
            }
        }
    }
    assert_eq!((open.len(), refused), (48, 42));
    let root = world.client_as(0, "root").await;
    let mut admin = LockAdminServiceClient::new(root.channel());
    for _ in 0..8 {
        open.push(admin.watch(pb::WatchRequest::default()).await.unwrap());
    }
}
