//! Tests of subscriptions over connections to a fake server.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::{super::fake, *};

const LONG: Duration = Duration::from_secs(10);

fn subscriber(server: u16) -> (Subscriber, mpsc::Receiver<Wake>) {
    let target = Target::Fixed(Box::new(fake::endpoint(server)));
    let (wakes, incoming) = WakeSender::channel();
    let subscriber = Subscriber::of_both_kinds(target, LONG, wakes);
    (subscriber, incoming)
}

#[tokio::test]
async fn subscribers_get_the_reason_why_there_is_no_connection() {
    let (subscriber, _wakes) = subscriber(1);
    let failed = subscriber.subscribe("a", LONG).await.unwrap_err();
    assert!(failed.to_string().contains("refused"), "{failed}");
}

#[tokio::test]
async fn what_the_server_ends_is_subscribed_again_over_a_new_connection() {
    for kind in ["unsubscribe", "sunsubscribe"] {
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let server = fake::start(move |words| {
            let opened = usize::from(words[0] == "HELLO");
            let number = opened + counted.fetch_add(opened, Ordering::SeqCst);
            let ends = number == 1 && words[1..] == ["b"];
            let ended = ends.then(|| fake::confirmation(kind, "a"));
            ended.unwrap_or_default() + &fake::answer(words)
        });
        let (subscriber, mut wakes) = subscriber(server);
        for channel in ["a", "b"] {
            subscriber.subscribe(channel, LONG).await.unwrap();
        }
        let wake = timeout(LONG, wakes.recv()).await;
        assert_eq!(wake, Ok(Some(Wake::Gap)), "{kind}");
        assert_eq!(connections.load(Ordering::SeqCst), 2, "{kind}");
    }
}

#[tokio::test]
async fn a_channel_whose_slot_has_moved_when_it_is_left_can_be_subscribed_again() {
    let server = fake::start(|words| match words {
        ["SUNSUBSCRIBE", _] => "-MOVED 1 127.0.0.1:1\r\n".to_owned(),
        _ => fake::answer(words),
    });
    let (subscriber, _wakes) = subscriber(server);
    subscriber.subscribe("a", LONG).await.unwrap();
    subscriber.unsubscribe("a");
    subscriber.subscribe("a", LONG).await.unwrap();
}
