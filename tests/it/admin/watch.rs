//! Watchers: a snapshot, then what happens.

use lockkeeper_api::pb::{WatchEvent, watch_response};
use lockkeeper_coordinator::Watched;
use tonic::Streaming;

use super::{Admin, admin, force};
use crate::support::prelude::*;

async fn watch(admin: &mut Admin, prefix: &str) -> Streaming<pb::WatchResponse> {
    let prefix = prefix.to_owned();
    admin
        .watch(pb::WatchRequest {
            prefix,
            fleet: false,
        })
        .await
        .unwrap()
        .into_inner()
}

async fn delta(events: &mut Streaming<pb::WatchResponse>) -> pb::WatchDelta {
    expect!(
        events.message().await.unwrap().unwrap().event.unwrap(),
        watch_response::Event::Delta
    )
}

async fn snapshot(events: &mut Streaming<pb::WatchResponse>) -> Vec<pb::WatchDelta> {
    let mut entries = Vec::new();
    loop {
        match events.message().await.unwrap().unwrap().event.unwrap() {
            watch_response::Event::Snapshot(part) => {
                assert_eq!(part.first, entries.is_empty());
                entries.extend(part.entries);
                if part.last {
                    return entries;
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watcher_gets_a_snapshot_and_then_what_happens() {
    let world = World::new();
    let (mut client, mut other) = (world.client(0).await, world.client(0).await);
    let mut session = client.open().await;
    let held = session.acquire("a1").await;
    session.acquire("b").await;
    let mut events = watch(&mut admin(&other), "a").await;
    let entries = snapshot(&mut events).await;
    let entry = expect!(entries.as_slice(), [entry] => entry);
    assert_eq!(
        (entry.event(), entry.name.as_str()),
        (WatchEvent::Granted, "a1")
    );
    assert_eq!(
        (entry.fencing_token, entry.hold_count),
        (held.fencing_token, 1)
    );
    let op_id = session.send_acquire("a1", "another");
    let told = delta(&mut events).await;
    assert_eq!(
        (told.event(), told.owner.as_str()),
        (WatchEvent::WaitBegan, "another")
    );
    session.release("b").await;
    session.release("a1").await;
    session.expect_granted(op_id).await;
    let mut told = Vec::new();
    for _ in 0..3 {
        let delta = delta(&mut events).await;
        told.push((delta.event(), delta.owner));
    }
    told.sort();
    let expected = [
        (WatchEvent::Granted, "another"),
        (WatchEvent::Released, "0"),
        (WatchEvent::WaitEnded, "another"),
    ];
    assert!(
        told.iter()
            .map(|(event, owner)| (*event, owner.as_str()))
            .eq(expected),
        "{told:?}"
    );
    force(&mut admin(&other), "a1", "it hangs").await.unwrap();
    let lost = delta(&mut events).await;
    assert_eq!(
        (lost.event(), lost.reason()),
        (WatchEvent::Lost, LostReason::ForceReleased)
    );
    assert_eq!(lost.detail, "it hangs");
    other.try_acquire("a2", "x", secs(30)).await.unwrap();
    let granted = delta(&mut events).await;
    assert_eq!(
        (granted.event(), granted.session_digest.as_str()),
        (WatchEvent::Granted, "")
    );
    other.release("a2", "x").await.unwrap();
    assert_eq!(delta(&mut events).await.event(), WatchEvent::Released);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_falls_behind_starts_anew() {
    let (world, _client, mut session) = World::with_session().await;
    let coordinator = world.coordinator(0);
    let mut watcher = coordinator.watch(String::new()).unwrap();
    assert!(matches!(
        watcher.next().await,
        Ok(Watched::Snapshot { last: true, .. })
    ));
    for _ in 0..1000 {
        session.acquire("a").await;
        session.release("a").await;
    }
    session.acquire("b").await;
    let Ok(Watched::Snapshot {
        first,
        last,
        entries,
    }) = watcher.next().await
    else {
        panic!("what was missed is told as a snapshot")
    };
    assert!(first && last);
    assert_eq!(entries.len(), 1);
    session.release("b").await;
    assert!(matches!(watcher.next().await, Ok(Watched::Delta(_))));
}

#[tokio::test(start_paused = true)]
async fn watchers_are_bounded_and_end_when_the_coordinator_drains() {
    let world = World::new();
    let coordinator = world.coordinator(0);
    let mut watchers: Vec<_> = (0..64)
        .map(|_| coordinator.watch(String::new()).unwrap())
        .collect();
    assert!(coordinator.watch(String::new()).is_err());
    watchers.pop();
    let client = world.client(0).await;
    let mut events = watch(&mut admin(&client), "").await;
    assert!(snapshot(&mut events).await.is_empty());
    coordinator.drain(secs(1)).await;
    assert_eq!(refusal(events.message().await), "DRAINING");
}
