//! The events of all coordinators in one stream.

use lockkeeper_api::pb::{WatchEvent, watch_response::Event};
use tonic::Streaming;

use super::{Admin, admin, options, world_of};
use crate::support::prelude::*;

async fn watch(admin: &mut Admin) -> Streaming<pb::WatchResponse> {
    let request = pb::WatchRequest {
        prefix: "a".to_owned(),
        fleet: true,
    };
    admin.watch(request).await.unwrap().into_inner()
}

async fn next(events: &mut Streaming<pb::WatchResponse>) -> Event {
    let next = tokio::time::timeout(secs(30), events.message()).await;
    next.expect("an event").unwrap().unwrap().event.unwrap()
}

/// The next event that is no snapshot.
async fn delta(events: &mut Streaming<pb::WatchResponse>) -> pb::WatchDelta {
    loop {
        match next(events).await {
            Event::Snapshot(_) => {}
            Event::Delta(delta) => return delta,
            Event::Unasked(unasked) => panic!("{unasked:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_events_of_all_coordinators_name_theirs() {
    let mut world = world_of(2).await;
    let mut there = world.client(1).await.open().await;
    there.acquire("a1").await;
    let mut events = watch(&mut admin(&world, 0).await).await;
    let mut shown = Vec::new();
    for _ in 0..2 {
        let part = expect!(next(&mut events).await, Event::Snapshot);
        assert!(part.first && part.last);
        let names = part.entries.into_iter().map(|it| it.name);
        shown.push((part.coordinator, names.collect::<Vec<_>>().concat()));
    }
    shown.sort();
    let expected = [("http://node:0", ""), ("http://node:1", "a1")];
    assert_eq!(
        shown,
        expected.map(|(node, names)| (node.to_owned(), names.to_owned()))
    );
    there.acquire("a2").await;
    let told = delta(&mut events).await;
    let seen = (told.event(), told.name.as_str(), told.coordinator.as_str());
    assert_eq!(seen, (WatchEvent::Granted, "a2", "http://node:1"));
    let mut here = world.client(0).await.open().await;
    here.acquire("a3").await;
    let told = delta(&mut events).await;
    assert_eq!(
        (told.name.as_str(), told.coordinator.as_str()),
        ("a3", "http://node:0")
    );
    // One that appears later is added.
    let third = world.add_coordinator(&options(1));
    let part = expect!(next(&mut events).await, Event::Snapshot);
    assert_eq!(part.coordinator, "http://node:2");
    let mut new = world.client(third).await.open().await;
    new.acquire("a4").await;
    let told = delta(&mut events).await;
    assert_eq!(
        (told.name.as_str(), told.coordinator.as_str()),
        ("a4", "http://node:2")
    );
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_whose_events_end_is_named_once() {
    let mut world = world_of(2).await;
    let mut events = watch(&mut admin(&world, 0).await).await;
    for _ in 0..2 {
        assert!(matches!(next(&mut events).await, Event::Snapshot(_)));
    }
    world.end(1);
    let mut lost = expect!(next(&mut events).await, Event::Unasked);
    assert_eq!(lost.coordinator, "http://node:1");
    tokio::time::sleep(secs(20)).await;
    let mut here = world.client(0).await.open().await;
    here.acquire("a").await;
    let told = loop {
        match next(&mut events).await {
            // It was tried again, and failed for another reason.
            Event::Unasked(again) => {
                assert_eq!(again.coordinator, "http://node:1");
                assert_ne!(again.reason, lost.reason);
                lost = again;
            }
            Event::Delta(delta) => break delta,
            Event::Snapshot(part) => panic!("{part:?}"),
        }
    };
    assert_eq!(told.name, "a");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_goes_is_watched_for_no_longer_anywhere() {
    let world = world_of(2).await;
    let mut events = watch(&mut admin(&world, 0).await).await;
    for _ in 0..2 {
        assert!(matches!(next(&mut events).await, Event::Snapshot(_)));
    }
    drop(events);
    // 64 watchers are all that there may be.
    for _ in 0..100 {
        let mut events = watch(&mut admin(&world, 0).await).await;
        for _ in 0..2 {
            assert!(matches!(next(&mut events).await, Event::Snapshot(_)));
        }
    }
}
