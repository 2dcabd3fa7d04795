//! What a session keeps of what its client names when it comes back, and what it gives back.

use crate::support::prelude::*;

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
async fn a_client_may_name_more_than_a_session_may_hold() {
    let default = Options::default();
    let world = World::with(&Options {
        limits: lockkeeper_coordinator::Limits {
            grants_per_session_max: 3,
            ..default.limits.clone()
        },
        ..default
    });
    let (mut client, mut back) = (world.client(0).await, world.client(0).await);
    for (locks, pools) in [(3, 0), (4, 0), (2, 2), (0, 4)] {
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
        let permits = (0..pools).map(|at| pb::PermitGrant {
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
        let mut resumed = back.session(first).await.unwrap();
        for _ in 0..locks {
            resumed.expect_lost().await;
        }
        for _ in 0..pools {
            let notice = resumed.notice().await;
            assert!(matches!(notice, Response::PermitsLost(_)), "{notice:?}");
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
