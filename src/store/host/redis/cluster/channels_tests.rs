//! Tests of where channels are subscribed.

use std::time::Duration;

use deadpool_redis::redis::{Value, parse_redis_value};
use tokio::{sync::mpsc, time::timeout};

use super::{
    super::{
        super::{fake, url::ClusterUrl},
        router::View,
    },
    *,
};
use crate::host::{WakeSender, redis::RedisConfig};

const LONG: Duration = Duration::from_secs(10);

fn address(name: &str) -> Address {
    Address::parse(&format!("{name}:1")).unwrap()
}

/// Nodes that serve no slot but these.
fn topology(ranges: &[(u16, u16, &Address)]) -> Topology {
    let ranges = ranges.iter().map(|(from, to, master)| {
        let text = format!(
            "*3\r\n:{from}\r\n:{to}\r\n*2\r\n${}\r\n{}\r\n:{}\r\n",
            master.host.len(),
            master.host,
            master.port
        );
        parse_redis_value(text.as_bytes()).unwrap()
    });
    Topology::parse(&Value::Array(ranges.collect()), &address("asked")).unwrap()
}

fn channels() -> (Channels, mpsc::Receiver<Wake>) {
    let config = RedisConfig {
        url: "redis+cluster://localhost:1".to_owned(),
        ..RedisConfig::default()
    };
    let url = ClusterUrl::parse(&config.url).unwrap();
    let (wakes, incoming) = WakeSender::channel();
    let router = Router::new(config, url, wakes);
    (Channels::new(Arc::new(router)), incoming)
}

fn place(channels: &Channels) -> Place {
    channels.wanted.lock()["channel"].clone()
}

#[tokio::test]
async fn a_channel_without_a_master_for_a_while_is_subscribed_again() {
    let (channels, mut wakes) = channels();
    let master = address("localhost");
    let (all, none) = (topology(&[(0, 16383, &master)]), topology(&[]));
    // The masters are not known yet.
    let subscribed = channels.subscribe("channel", Instant::now());
    assert!(subscribed.await.is_err());
    assert_eq!(place(&channels), Place::Nowhere);
    for _ in 0..2 {
        channels.follow(&all);
        assert_eq!(place(&channels), Place::At(master.clone()));
        // The node is opened to subscribe there. What was published meanwhile was missed.
        assert!(channels.router.open_node(&master).is_some());
        let wake = timeout(LONG, wakes.recv()).await;
        assert_eq!(wake, Ok(Some(Wake::Gap)));
        channels.follow(&none);
        assert_eq!(place(&channels), Place::Nowhere);
    }
}

#[tokio::test]
async fn a_channel_that_follows_its_slot_is_left_where_it_was() {
    let (channels, mut wakes) = channels();
    let (left, mut is_left) = mpsc::unbounded_channel();
    let here = fake::start(move |words| {
        if let ["UNSUBSCRIBE" | "SUNSUBSCRIBE", "channel"] = words {
            left.send(()).unwrap();
        }
        fake::answer(words)
    });
    let there = fake::start(fake::answer);
    let address = |port| Address::parse(&format!("127.0.0.1:{port}")).unwrap();
    let (here, there) = (address(here), address(there));
    let show = async |master: &Address| {
        let known = topology(&[(0, 16383, master)]);
        channels.router.show(View::Known(Arc::new(known.clone())));
        channels.follow(&known);
    };
    let deadline = Instant::now() + LONG;
    let subscribed = channels.subscribe("channel", deadline);
    let (subscribed, ()) = tokio::join!(subscribed, show(&here));
    subscribed.unwrap();
    show(&there).await;
    channels.subscribe("channel", deadline).await.unwrap();
    assert_eq!(place(&channels), Place::At(there));
    for _ in ["plain", "sharded"] {
        assert_eq!(timeout(LONG, is_left.recv()).await, Ok(Some(())));
    }
    assert_eq!(timeout(LONG, wakes.recv()).await, Ok(Some(Wake::Gap)));
    assert!(
        wakes.try_recv().is_err(),
        "at first there was nothing to miss"
    );
}
