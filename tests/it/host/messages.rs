//! Subscriptions and what arrives on them.

use std::collections::BTreeSet;

use bytes::Bytes;
use lockkeeper_store::host::Wake;
use tokio::{sync::mpsc, time::timeout};

use super::eval;
use crate::support::prelude::*;
use crate::{
    redis_server::eventually,
    support::hosts::{HOSTS, Store},
};

/// How long anything that should happen may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(15);

async fn next(wakes: &mut mpsc::Receiver<Wake>) -> (String, Bytes) {
    let wake = timeout(PATIENCE, wakes.recv()).await.expect("a wake came");
    match wake.expect("the client lives") {
        Wake::Message { channel, payload } => (channel, payload),
        Wake::Gap | Wake::TakenOver => panic!("nothing has been missed"),
    }
}

fn message(channel: &str, payload: &'static str) -> (String, Bytes) {
    (channel.to_owned(), payload.into())
}

/// How many clients got it.
async fn publish(store: &Store, channel: &str, payload: &str) -> i64 {
    expect!(
        store.command(&["PUBLISH", channel, payload]).await,
        Value::Int
    )
}

/// An unsubscription takes effect in a moment.
async fn nobody_listens(store: &Store, channel: &str) {
    eventually("nobody listens", || async {
        publish(store, channel, "still there?").await == 0
    })
    .await;
}

#[tokio::test]
async fn what_is_published_after_a_subscription_arrives_once() {
    for host in HOSTS {
        let store = host.start().await;
        let (client, mut wakes) = store.connect();
        assert_eq!(publish(&store, "channel", "too early").await, 0);
        for payload in ["1", "2", "3"] {
            // Twice is once.
            client.subscribe("channel").await.unwrap();
            assert_eq!(publish(&store, "channel", payload).await, 1, "{host:?}");
        }
        store
            .try_command(&[b"PUBLISH", b"channel", b"\xff\x00"])
            .await
            .unwrap();
        for payload in ["1", "2", "3"] {
            assert_eq!(next(&mut wakes).await, message("channel", payload));
        }
        assert_eq!(next(&mut wakes).await.1, Bytes::from_static(b"\xff\x00"));
    }
}

#[tokio::test]
async fn a_script_is_heard_by_every_client_also_its_own() {
    // In the slot of the scripts' keys: a cluster counts those who listen where the script runs.
    const CHANNEL: &str = "{key}";
    for host in HOSTS {
        let store = host.start().await;
        let (one, mut wakes_of_one) = store.connect();
        let (two, mut wakes_of_two) = store.connect();
        one.subscribe(CHANNEL).await.unwrap();
        two.subscribe(CHANNEL).await.unwrap();
        let heard = eval(&one, "return redis.call('publish', '{key}', 'x')").await;
        assert_eq!(heard, Ok(Value::Int(2)), "{host:?}");
        assert_eq!(next(&mut wakes_of_one).await, message(CHANNEL, "x"));
        assert_eq!(next(&mut wakes_of_two).await, message(CHANNEL, "x"));

        // The one goes, the other stays.
        one.unsubscribe(CHANNEL);
        eventually("one listens", || async {
            publish(&store, CHANNEL, "y").await == 1
        })
        .await;
        assert_eq!(next(&mut wakes_of_two).await, message(CHANNEL, "y"));
        drop(two);
        nobody_listens(&store, CHANNEL).await;
    }
}

#[tokio::test]
async fn what_is_published_after_an_unsubscription_does_not_arrive() {
    for host in HOSTS {
        let store = host.start().await;
        let (client, mut wakes) = store.connect();
        client.subscribe("channel").await.unwrap();
        client.subscribe("mark").await.unwrap();
        client.unsubscribe("channel");
        client.unsubscribe("never subscribed");
        nobody_listens(&store, "channel").await;
        while let Ok(wake) = wakes.try_recv() {
            drop(wake);
        }
        assert_eq!(publish(&store, "channel", "unheard").await, 0);
        publish(&store, "mark", "x").await;
        let (mut channel, mut payload) = next(&mut wakes).await;
        while channel == "channel" {
            assert_eq!(payload, "still there?", "{host:?}");
            (channel, payload) = next(&mut wakes).await;
        }
        assert_eq!((channel, payload), message("mark", "x"));

        // And it can be subscribed again.
        client.subscribe("channel").await.unwrap();
        assert_eq!(publish(&store, "channel", "back").await, 1);
        assert_eq!(next(&mut wakes).await, message("channel", "back"));
    }
}

#[tokio::test]
async fn a_thousand_channels() {
    const CHANNELS: usize = 1000;
    for host in HOSTS {
        let store = host.start().await;
        let (client, mut wakes) = store.connect();
        let names: Vec<_> = (0..CHANNELS).map(|n| format!("channel-{n}")).collect();
        let subscribed = join_all(names.iter().map(|name| client.subscribe(name))).await;
        assert!(subscribed.iter().all(Result::is_ok), "{host:?}");
        for name in &names {
            assert_eq!(publish(&store, name, "x").await, 1, "{host:?}");
        }
        // Each once, in whatever order: the servers of a cluster have none in common.
        let mut unheard: BTreeSet<_> = names.iter().map(|name| message(name, "x")).collect();
        for _ in &names {
            let heard = next(&mut wakes).await;
            assert!(unheard.remove(&heard), "{host:?}: {heard:?}");
        }
        let (gone, kept) = names.split_at(CHANNELS / 2);
        for name in gone {
            client.unsubscribe(name);
        }
        for name in gone {
            nobody_listens(&store, name).await;
        }
        assert_eq!(publish(&store, &kept[0], "y").await, 1, "{host:?}");
    }
}
