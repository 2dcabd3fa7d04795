//! Which names are contended most.

use super::admin;
use crate::support::prelude::*;

async fn contention(world: &World, prefix: &str) -> Vec<pb::ContendedName> {
    let request = pb::ListContentionRequest {
        prefix: prefix.to_owned(),
    };
    let answer = admin(&world.client(0).await).list_contention(request).await;
    answer.unwrap().into_inner().names
}

#[tokio::test(start_paused = true)]
async fn waits_holds_and_refusals_are_counted_by_name_and_client() {
    let (world, mut client) = World::with_client().await;
    let open = pb::OpenSession::default().called("ci");
    let mut holder = client.open_with(open).await.unwrap();
    holder.acquire("uncontended").await;
    holder.release("uncontended").await;
    holder.acquire("a").await;
    let mut call = client.acquire(acquire_request("a", "x")).await.unwrap();
    call.expect_waiting().await;
    let waiting = contention(&world, "").await;
    assert_eq!(waiting.len(), 1, "grants without a wait add no name");
    assert_eq!((waiting[0].wait_count, waiting[0].waiter_count), (1, 1));
    tokio::time::sleep(secs(10)).await;
    holder.release("a").await;
    call.expect_granted().await;
    assert!(!client.gets_for("a", "y", secs(60)).await);
    let short = acquire_request("a", "y").within(secs(1));
    client.acquire(short).await.unwrap().expect_timeout().await;

    let names = contention(&world, "").await;
    let a = &names[0];
    assert_eq!((names.len(), a.name.as_str(), a.waiter_count), (1, "a", 0));
    assert_eq!((a.wait_count, a.refusal_count, a.hold_count), (2, 2, 1));
    let waited = std_duration(a.waited);
    assert!(waited >= secs(11) && waited < millis(11_100), "{waited:?}");
    let held = std_duration(a.held);
    assert!(held >= secs(10) && held < millis(10_100), "{held:?}");
    let ci = pb::ContendedHolder {
        client_name: "ci".to_owned(),
        hold_count: 1,
        held: a.held,
    };
    assert_eq!(a.holders, [ci]);
    assert!(contention(&world, "b").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn each_name_has_its_own_waiters() {
    let (world, mut client) = World::with_client().await;
    let mut holder = client.open().await;
    for name in ["a", "b"] {
        holder.acquire(name).await;
    }
    let mut calls = Vec::new();
    for (name, owner) in [("a", "x"), ("b", "x"), ("b", "y")] {
        let mut call = client.acquire(acquire_request(name, owner)).await.unwrap();
        call.expect_waiting().await;
        calls.push(call);
    }
    let names = contention(&world, "").await;
    let waiters = names.iter().map(|it| (it.name.as_str(), it.waiter_count));
    let mut waiters: Vec<_> = waiters.collect();
    waiters.sort_unstable();
    assert_eq!(waiters, [("a", 1), ("b", 2)]);
}

#[tokio::test(start_paused = true)]
async fn semaphores_are_contended_and_latches_are_not() {
    let (world, mut client) = World::with_client().await;
    let mut semaphore = Semaphore::new(&client, "s");
    semaphore.set(1).await;
    assert!(semaphore.gets_for("x", 1, secs(60)).await);
    assert!(!semaphore.gets_for("y", 1, secs(60)).await);
    let mut latch = Latch::new(&client, "l");
    latch.set(1).await;
    latch.wait(Some(secs(1))).await.end().await;
    let mut session = client.open().await;
    session.acquire("a").await;
    let request = pb::AwaitFreeRequest::named("a").within(secs(1));
    let op_id = session.send(Request::AwaitFree(request));
    session.end(op_id).await;
    let names = contention(&world, "").await;
    let names: Vec<_> = names
        .iter()
        .map(|it| (it.name.as_str(), it.refusal_count))
        .collect();
    assert_eq!(
        names,
        [("s", 1)],
        "latches and waits for free locks hold up nobody"
    );
}
