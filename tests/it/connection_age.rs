//! A connection that reaches its age sends its client to a new one, and nothing is lost.

use crate::support::prelude::*;

const AGE: std::time::Duration = secs(60);

fn world() -> World {
    World::with(&Options::with(|it| it.connection_age_max = Some(AGE)))
}

#[tokio::test(start_paused = true)]
async fn a_session_of_an_old_connection_goes_on_with_another() {
    let world = world();
    let begun = tokio::time::Instant::now();
    let mut client = world.client_until(0, AGE).await;
    let mut session = client.open().await;
    let grant = session.acquire("a").await;
    assert!(matches!(session.notice().await, Response::GoingAway(_)));
    assert!(begun.elapsed() > AGE && begun.elapsed() < AGE + secs(6));
    assert_eq!(refusal(session.read_to_end().await), "CONNECTION_AGE_MAX");
    let mut next = world.client(0).await;
    let resumed = next.resume(&session.opened, vec![grant.clone()]).await;
    let mut resumed = resumed.unwrap();
    assert_eq!(resumed.opened.grants[0].fencing_token, grant.fencing_token);
    assert!(resumed.release("a").await.released);
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_an_old_connection_ends_and_leaves_nothing() {
    let world = world();
    let mut client = world.client_until(0, AGE).await;
    let mut holder = world.client(0).await;
    holder.try_acquire("a", "x", secs(3600)).await.unwrap();
    let mut waiting = client.waits(acquire_request("a", "w")).await;
    expect_refused(waiting.end().await, Code::Unavailable, "CONNECTION_AGE_MAX");
    world.until_waiting(0, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_grants_would_be_released_keeps_its_connection() {
    let world = world();
    let mut client = world.client_until(0, AGE).await;
    let open = pb::OpenSession::default().upon_disconnect(pb::OnDisconnect::Release);
    let mut session = client.open_with(open).await.unwrap();
    session.acquire("a").await;
    tokio::time::sleep(AGE * 2).await;
    assert!(session.release("a").await.released);
}
