//! Sessions that are resumed on another coordinator.

use crate::support::FaultyHost;
use crate::support::prelude::*;

/// A stream that is broken without a sign, as by a cable that was pulled.
#[tokio::test(start_paused = true)]
async fn a_resume_elsewhere_ends_the_stream_and_the_waits_here() {
    let (world, mut client, mut elsewhere) = World::two_with_clients().await;
    let mut other = world.client(0).await;
    other.try_acquire("wanted", "o", secs(600)).await.unwrap();
    let mut session = client.open().await;
    let held = session.acquire("held").await;
    session.send_acquire("wanted", "");
    world.until_waiting(0, 1).await;
    let grants = vec![held.clone()];
    let mut resumed = elsewhere.resume(&session.opened, grants).await.unwrap();
    assert_eq!(resumed.opened.grants.len(), 1);
    assert_eq!(refusal(session.read_to_end().await), "SESSION_SUPERSEDED");
    world.until_waiting(0, 0).await;
    other.release("wanted", "o").await.unwrap();
    world.until_answer(&["EXISTS", "wanted"], 0).await;
    tokio::time::sleep(secs(100)).await;
    assert_eq!(world.redis(&["EXISTS", "wanted"]), Value::Int(0));
    assert!(resumed.release("held").await.released, "renewed elsewhere");

    // And back again, where it is new.
    let mut back = client.resume(&resumed.opened, Vec::new()).await.unwrap();
    assert_eq!(refusal(resumed.read_to_end().await), "SESSION_SUPERSEDED");
    back.acquire("wanted").await;
    back.close().await.unwrap();
    world.expect_nothing_left(&["held", "wanted"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_comes_back_ends_where_it_was_meanwhile() {
    let (faults, connect) = FaultyHost::connectors();
    let options = Options::with(|it| it.coordinators = 2);
    let world = World::on(&options, World::store(), connect);
    let (mut client, mut elsewhere) = (world.client(0).await, world.client(1).await);
    let session = client.open().await;
    // The first coordinator is not told of the resume on the second.
    faults.lock()[1].lose_requests("holders_tell", 1000);
    let mut resumed = elsewhere.resume(&session.opened, Vec::new()).await.unwrap();
    let mut back = client.resume(&resumed.opened, Vec::new()).await.unwrap();
    assert_eq!(refusal(resumed.read_to_end().await), "SESSION_SUPERSEDED");
    back.acquire("a").await;
    back.close().await.unwrap();
    world.expect_nothing_left(&["a"]).await;
}
