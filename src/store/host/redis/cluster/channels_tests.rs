//! Tests of where channels are subscribed.

use std::cell::RefCell;

use deadpool_redis::redis::{Value, parse_redis_value};
use tokio::{sync::mpsc, time::timeout};

use super::{super::super::url::ClusterUrl, *};
use crate::host::{WakeSender, redis::RedisConfig};

fn address(name: &str) -> Address {
    Address::parse(&format!("{name}:1")).unwrap()
}

/// Nodes that serve no slot but these.
fn topology(ranges: &[(u16, u16, &str)]) -> Topology {
    let ranges = ranges.iter().map(|(from, to, master)| {
        let text = format!(
            "*3\r\n:{from}\r\n:{to}\r\n*2\r\n${}\r\n{master}\r\n:1\r\n",
            master.len()
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

#[tokio::test]
async fn a_channel_without_a_master_for_a_while_is_subscribed_again() {
    let (channels, mut wakes) = channels();
    let (all, none) = (topology(&[(0, 16383, "localhost")]), topology(&[]));
    let at = Some(Place::At(address("localhost")));
    channels.seek("channel");
    assert!(channels.assign("channel", &address("localhost")));
    let place = || channels.wanted.lock().get("channel").cloned();
    channels.follow(&all);
    assert_eq!(place(), at);
    assert!(channels.router.open_node(&address("localhost")).is_none());
    channels.follow(&none);
    assert_eq!(place(), Some(Place::Nowhere));
    channels.follow(&all);
    assert_eq!(place(), at);
    // The node is opened to subscribe there. What was published meanwhile was missed.
    assert!(channels.router.open_node(&address("localhost")).is_some());
    let wake = timeout(Duration::from_secs(10), wakes.recv()).await;
    assert_eq!(wake, Ok(Some(Wake::Gap)));
}

#[test]
fn a_channel_that_was_unsubscribed_meanwhile_is_left() {
    let (here, there) = (address("here"), address("there"));
    let places = [
        ("wanted", Place::At(here.clone())),
        ("moved", Place::At(there)),
    ];
    let places = places.map(|(channel, place)| (channel.to_owned(), place));
    let wanted = Mutex::new(Wanted::from(places));
    let left = RefCell::new(Vec::new());
    let all = ["wanted", "moved", "unsubscribed"].map(str::to_owned);
    leave_unwanted(&wanted, &here, &all, |channel| {
        left.borrow_mut().push(channel.to_owned());
    });
    assert_eq!(left.into_inner(), ["moved", "unsubscribed"]);
}
