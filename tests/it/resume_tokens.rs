//! How long a resume token is good, and for which sessions.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::prelude::*;

const DAY: u64 = 24 * 3600;

/// The time of the coordinators of one test.
static NOW: AtomicU64 = AtomicU64::new(1_800_000_000);

async fn is_refused(
    client: &mut Client,
    opened: &pb::SessionOpened,
    grants: Vec<pb::Grant>,
) -> bool {
    match client.resume(opened, grants).await {
        Ok(session) => {
            drop(session);
            false
        }
        Err(refused) => {
            expect_status(&refused, Code::NotFound, "SESSION_NOT_FOUND");
            true
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_old_token_is_good_only_for_a_session_that_lives() {
    let world = World::with(&Options::with(|it| {
        it.coordinators = 2;
        it.unix_seconds = || NOW.load(Ordering::Relaxed);
    }));
    let (mut here, mut there) = (world.client(0).await, world.client(1).await);
    let mut holder = here.open().await;
    let grant = holder.acquire("a").await;
    let idle = here.open().await;
    NOW.fetch_add(DAY + 1, Ordering::Relaxed);
    let (held, opened) = (holder.opened.clone(), idle.opened.clone());
    // Elsewhere the store must show that it lives.
    assert!(is_refused(&mut there, &opened, Vec::new()).await);
    assert!(!is_refused(&mut there, &held, vec![grant]).await);
    // Its own coordinator has it.
    let again = here.resume(&opened, Vec::new()).await.unwrap();
    assert_ne!(again.opened.resume_token, opened.resume_token);
    assert!(!is_refused(&mut there, &again.opened, Vec::new()).await);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_lives_gets_new_tokens() {
    let (_world, mut client, mut other) = World::two_with_clients().await;
    let mut session = client.open().await;
    let renewed = expect!(session.notice().await, Response::Opened);
    assert_eq!(renewed.session_id, session.opened.session_id);
    let opened = pb::SessionOpened {
        resume_token: renewed.resume_token,
        ..session.opened.clone()
    };
    assert!(!is_refused(&mut other, &opened, Vec::new()).await);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_later_ones_have_replaced_is_refused() {
    let (_world, mut client) = World::with_client().await;
    let first = client.open().await;
    let second = client.resume(&first.opened, Vec::new()).await.unwrap();
    // Its answer might have been lost.
    let again = client.resume(&first.opened, Vec::new()).await.unwrap();
    let third = client.resume(&second.opened, Vec::new()).await.unwrap();
    assert!(is_refused(&mut client, &first.opened, Vec::new()).await);
    drop(again);
    assert!(!is_refused(&mut client, &third.opened, Vec::new()).await);
}

#[tokio::test(start_paused = true)]
async fn a_closed_session_comes_back_nowhere() {
    for stores in [1, 3] {
        let world = World::over(2, stores);
        let (mut client, mut other) = (world.client(0).await, world.client(1).await);
        let session = client.open().await;
        let opened = session.opened.clone();
        session.close().await.unwrap();
        for client in [&mut client, &mut other] {
            assert!(is_refused(client, &opened, Vec::new()).await, "{stores}");
        }
        // Another session of the same caller goes on.
        let broken = client.open().await;
        assert!(!is_refused(&mut other, &broken.opened, Vec::new()).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_secret_is_replaced_without_a_gap() {
    let mut world = World::new();
    let secrets = |of: &[&str]| of.iter().map(|it| it.as_bytes().to_vec()).collect();
    let other = world.add_coordinator(&Options::with(|it| it.secret = "new"));
    let (mut old, mut new) = (world.client(0).await, world.client(other).await);
    let session = old.open().await;
    assert!(is_refused(&mut new, &session.opened, Vec::new()).await);
    let in_force = world.coordinator(other).session_secrets();
    in_force.set(secrets(&["new", Options::default().secret]));
    let resumed = new.resume(&session.opened, Vec::new()).await.unwrap();
    // What it signs is signed by the new one.
    assert!(is_refused(&mut old, &resumed.opened, Vec::new()).await);
    in_force.set(secrets(&["new"]));
    assert!(is_refused(&mut new, &session.opened, Vec::new()).await);
    assert!(!is_refused(&mut new, &resumed.opened, Vec::new()).await);
}
