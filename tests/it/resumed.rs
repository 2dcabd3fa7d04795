//! What a session keeps of what its client names when it comes back, and what it gives back.

use lockkeeper_api::pb::{self, LockMode};
use lockkeeper_store::host::Value;
use tonic::Code;

use crate::support::{Options, World, client::expect_status, eventually, secs};

#[tokio::test(start_paused = true)]
async fn a_lock_that_a_resuming_client_does_not_name_is_free_at_once() {
    let (world, client, mut session) = World::with_session().await;
    let a = session.acquire("a").await;
    session.acquire("b").await;
    let opened = session.opened.clone();
    client.cut();
    let mut back = world.client(0).await;
    let mut session = back.resume(&opened, vec![a]).await.unwrap();
    eventually("it is released", || async {
        world.redis(&["EXISTS", "b"]) == Value::Int(0)
    })
    .await;
    assert!(session.release("a").await.released, "it is kept");
}

#[tokio::test(start_paused = true)]
async fn a_client_names_no_more_than_a_session_may_hold() {
    let default = Options::default();
    let world = World::with(&Options {
        limits: lockkeeper_coordinator::Limits {
            grants_per_session_max: 3,
            ..default.limits.clone()
        },
        ..default
    });
    let (mut client, mut back) = (world.client(0).await, world.client(0).await);
    for (locks, permits, is_refused) in [(3, 0, false), (4, 0, true), (2, 2, true), (1, 2, false)] {
        let session = client.open().await;
        let opened = &session.opened;
        let grants = (0..locks).map(|at| pb::Grant {
            name: format!("lock{at}"),
            session_id: opened.session_id.clone(),
            owner: "0".to_owned(),
            mode: LockMode::Exclusive.into(),
            fencing_token: 1,
            hold_count: 1,
            ..pb::Grant::default()
        });
        let permits = (0..permits).map(|at| pb::PermitGrant {
            name: format!("pool{at}"),
            session_id: opened.session_id.clone(),
            owner: "0".to_owned(),
            permits: 1,
            permit_ids: vec!["00".repeat(16)],
            ..pb::PermitGrant::default()
        });
        let resume = pb::ResumeSession {
            session_id: opened.session_id.clone(),
            resume_token: opened.resume_token.clone(),
            grants: grants.collect(),
            permits: permits.collect(),
            ..Default::default()
        };
        let first = pb::session_request::Request::Resume(resume);
        match back.session(first).await {
            Ok(_) => assert!(!is_refused, "{locks}"),
            Err(status) => {
                expect_status(&status, Code::ResourceExhausted, "GRANTS_PER_SESSION_MAX");
                assert!(is_refused, "{locks}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_loss_that_was_not_read_is_told_once_after_a_resume() {
    let (world, client, mut session) = World::with_session().await;
    let a = session.acquire("a").await;
    let opened = session.opened.clone();
    world.redis(&["DEL", "a"]);
    client.cut();
    tokio::time::sleep(secs(40)).await;
    let mut back = world.client(0).await;
    let mut session = back.resume(&opened, vec![a]).await.unwrap();
    assert_eq!(session.expect_lost().await.grant.unwrap().name, "a");
    let again = tokio::time::timeout(secs(5), session.notice()).await;
    assert!(again.is_err(), "{again:?}");
}
