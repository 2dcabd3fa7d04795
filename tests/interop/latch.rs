//! Latches, against `RCountDownLatch`.

use std::time::Duration;

use futures::future::join_all;
use lockkeeper_api::pb::{
    self, await_latch_response::Event, latch_service_client::LatchServiceClient,
};
use lockkeeper_testkit::prelude::*;
use tokio::{task::JoinHandle, time::Instant};
use tonic::{Status, Streaming, transport::Channel};

use crate::{
    agent::{Told, Version},
    client::{proto, reason},
    redisson::JavaThread,
    world::{PROMPT, World, measured, millis, secs, timed},
};

const NAME: &str = "start";
const CHANNEL: &str = "redisson_countdownlatch__channel__{start}";

/// A caller of ours.
struct Ours(LatchServiceClient<Channel>);

// === impl Ours ===

impl Ours {
    async fn at(world: &World, coordinator: usize) -> Self {
        let client = world.coordinators[coordinator].client().await;
        Self(LatchServiceClient::new(client.channel()))
    }

    async fn set_count(&mut self, count: u32) -> pb::SetCountResponse {
        let request = pb::SetCountRequest::named(NAME).count(count);
        self.0.set_count(request).await.unwrap().into_inner()
    }

    /// What is left.
    async fn count_down(&mut self, by: u32) -> Result<u32, Status> {
        let request = pb::CountDownRequest::named(NAME).count_by(by);
        Ok(self.0.count_down(request).await?.into_inner().count)
    }

    async fn send(&mut self, wait: Option<Duration>) -> Streaming<pb::AwaitLatchResponse> {
        let request = pb::AwaitLatchRequest {
            name: NAME.to_owned(),
            wait_timeout: wait.map(proto),
            ..Default::default()
        };
        self.0.await_latch(request).await.unwrap().into_inner()
    }

    /// Waits until it is open; the wait has begun.
    async fn wait(&mut self) -> JoinHandle<(Instant, Event)> {
        let mut events = self.send(None).await;
        match events.message().await.unwrap().unwrap().event {
            Some(Event::Waiting(_)) => timed(end(events)),
            other => panic!("expected waiting, got {other:?}"),
        }
    }
}

async fn end(mut events: Streaming<pb::AwaitLatchResponse>) -> Event {
    while let Some(response) = events.message().await.unwrap() {
        match response.event.unwrap() {
            Event::Waiting(_) => {}
            end => return end,
        }
    }
    panic!("the stream ended without an answer");
}

fn java_waits(thread: &JavaThread) -> Told {
    thread.tell(&["latch-await", NAME, "-1"])
}

async fn java_counts_down(thread: &JavaThread) {
    thread.tell(&["latch-down", NAME]).value().await;
}

async fn java_sees(thread: &JavaThread) -> String {
    thread.tell(&["latch-count", NAME]).value().await
}

#[tokio::test]
async fn java_opens_the_latch_and_both_go_on() {
    let world = World::without_polls(Version::Current).await;
    let redisson = world.redisson().await;
    let (java, waiter) = (redisson.thread("a"), redisson.thread("b"));
    let mut ours = Ours::at(&world, 0).await;
    assert!(java.tell(&["latch-set", NAME, "3"]).yes().await);
    let seen = ours.set_count(5).await;
    assert_eq!((seen.set, seen.count), (false, 3));
    let waiting = ours.wait().await;
    let theirs = timed(java_waits(&waiter).yes());
    world.until_listening(CHANNEL, 1).await;
    assert_eq!(ours.count_down(1).await.unwrap(), 2);
    java_counts_down(&java).await;
    assert_eq!(java_sees(&java).await, "1");
    assert!(!waiting.is_finished() && !theirs.is_finished());
    let opened = Instant::now();
    java_counts_down(&java).await;
    let (ended, end) = waiting.await.unwrap();
    assert!(matches!(end, Event::Opened(_)), "{end:?}");
    assert!(ended - opened < PROMPT, "{:?}", ended - opened);
    assert!(theirs.await.unwrap().1);
    let refused = ours.count_down(1).await.unwrap_err();
    assert_eq!(reason(&refused), "COUNT_EXCEEDED");
}

#[tokio::test]
async fn we_open_the_latch_and_java_goes_on() {
    let world = World::without_polls(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut ours = Ours::at(&world, 0).await;
    assert!(ours.set_count(4).await.set);
    assert!(!java.tell(&["latch-set", NAME, "9"]).yes().await);
    assert_eq!(java_sees(&java).await, "4");
    let waiting = timed(java_waits(&java).yes());
    world.until_listening(CHANNEL, 1).await;
    assert_eq!(ours.count_down(3).await.unwrap(), 1);
    assert!(!waiting.is_finished());
    let opened = Instant::now();
    assert_eq!(ours.count_down(1).await.unwrap(), 0);
    let (ended, is_open) = waiting.await.unwrap();
    assert!(is_open);
    assert!(ended - opened < PROMPT, "{:?}", ended - opened);
}

#[tokio::test]
async fn a_wait_ends_on_either_side_while_the_latch_is_closed() {
    let world = World::start(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut ours = Ours::at(&world, 0).await;
    ours.set_count(1).await;
    assert!(!java.tell(&["latch-await", NAME, "300"]).yes().await);
    let events = ours.send(Some(millis(300))).await;
    match end(events).await {
        Event::NotOpened(ended) => assert_eq!(ended.count, 1),
        other => panic!("expected not_opened, got {other:?}"),
    }
    java_counts_down(&java).await;
    let events = ours.send(Some(secs(0))).await;
    assert!(matches!(end(events).await, Event::Opened(_)));
    // It can be used again.
    assert!(java.tell(&["latch-set", NAME, "2"]).yes().await);
    assert_eq!(ours.count_down(2).await.unwrap(), 0);
    assert!(java.tell(&["latch-await", NAME, "0"]).yes().await);
}

/// Everybody counts down once and waits for all the others, over and over.
#[tokio::test]
async fn a_crowd_of_both_sides_starts_together() {
    const SIDE: usize = 8;
    const ROUNDS: usize = 60;
    let world = World::with(Version::Current, 2, |settings| settings).await;
    let clients = [world.redisson().await, world.redisson().await];
    let mut ours = Vec::new();
    let mut java = Vec::new();
    for number in 0..SIDE {
        ours.push(Ours::at(&world, number % 2).await);
        java.push(clients[number % 2].thread(&number.to_string()));
    }
    let begun = Instant::now();
    for round in 0..ROUNDS {
        let count = u32::try_from(2 * SIDE).unwrap();
        assert!(ours[0].set_count(count).await.set, "round {round}");
        let told = java.iter().flat_map(|thread| {
            let down = thread.tell(&["latch-down", NAME]);
            [down, java_waits(thread)]
        });
        let told: Vec<_> = told.collect();
        let sessions = ours.iter_mut().map(|ours| async move {
            ours.count_down(1).await.unwrap();
            end(ours.send(None).await).await
        });
        for ended in join_all(sessions).await {
            assert!(
                matches!(ended, Event::Opened(_)),
                "round {round}: {ended:?}"
            );
        }
        for told in told {
            told.value().await;
        }
    }
    measured("60 rounds at a latch", begun.elapsed());
    assert_eq!(world.redis.text(&["EXISTS", NAME]).await, "0");
}

#[tokio::test]
async fn a_latch_that_we_delete_lets_java_go_on() {
    let world = World::without_polls(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut ours = Ours::at(&world, 0).await;
    ours.set_count(2).await;
    let waiting = timed(java_waits(&java).yes());
    world.until_listening(CHANNEL, 1).await;
    let request = pb::DeleteLatchRequest {
        name: NAME.to_owned(),
    };
    let deleted = Instant::now();
    assert!(
        ours.0
            .delete_latch(request)
            .await
            .unwrap()
            .into_inner()
            .deleted
    );
    let (ended, is_open) = waiting.await.unwrap();
    assert!(is_open);
    assert!(ended - deleted < PROMPT, "{:?}", ended - deleted);
}
