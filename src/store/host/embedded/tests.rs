//! The short answers of scripts, and what the store adds to them. Times are in milliseconds unless
//! named otherwise.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::{Clock, EmbeddedStore};
use crate::{
    host::{Call, HostError, Script, ScriptHost, Value, Wake},
    script::catalog::{LOCK_ACQUIRE, LOCK_HAND_ON, LOCK_RELEASE, LOCK_RENEW},
};

const START_MICROS: i64 = 1_700_000_000_000_000;
const TTL: i64 = 30_000;

/// A store, one client of it, and the wakes of that.
struct Fixture {
    store: EmbeddedStore,
    host: Arc<dyn ScriptHost>,
    wakes: mpsc::Receiver<Wake>,
}

impl Fixture {
    fn new() -> Self {
        let store = EmbeddedStore::new(Clock::starting_at(START_MICROS));
        let (host, wakes) = store.connect();
        Self { store, host, wakes }
    }

    /// What a script answers, all of it numbers.
    async fn numbers(&self, script: &'static Script, keys: &str, args: &str) -> Vec<i64> {
        let reply = self.eval(script, keys, args).await.unwrap();
        let Value::Array(items) = reply else {
            panic!("{reply:?}")
        };
        let number = |item| {
            if let Value::Int(number) = item {
                number
            } else {
                panic!("{item:?}")
            }
        };
        items.into_iter().map(number).collect()
    }

    async fn eval(
        &self,
        script: &'static Script,
        keys: &str,
        args: &str,
    ) -> Result<Value, HostError> {
        let words = |text: &str| {
            text.split_ascii_whitespace()
                .map(|word| word.trim_matches('\''))
                .collect()
        };
        self.host
            .eval(Call {
                script,
                keys: words(keys),
                args: words(args),
            })
            .await
    }

    async fn acquire(&self, who: &str) -> Vec<i64> {
        let args = format!("{who} {TTL} 86400000 '' '' '' attempt-1 60000 0");
        self.numbers(&LOCK_ACQUIRE, "lock counter", &args).await
    }

    async fn release(&self, who: &str) -> Vec<i64> {
        let args = format!("{who} '' {TTL} channel");
        self.numbers(&LOCK_RELEASE, "lock counter", &args).await
    }

    fn int(&self, line: &str) -> i64 {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        match self.store.command(&words) {
            Ok(Value::Int(number)) => number,
            other => panic!("{other:?}"),
        }
    }
}

fn message(channel: &str, payload: &'static str) -> Wake {
    Wake::Message {
        channel: channel.to_owned(),
        payload: Bytes::from(payload),
    }
}

/// The most frequent case has a short answer, which says as much.
#[tokio::test(start_paused = true)]
async fn what_is_plain_is_answered_in_short() {
    let f = Fixture::new();
    let token = |micros: i64| Ok(Value::Bytes(micros.to_string().into()));
    let keys = "lock counter";
    let acquired = f.eval(&LOCK_ACQUIRE, keys, "a 30000 86400000").await;
    assert_eq!(acquired, token(START_MICROS));
    tokio::time::advance(Duration::from_millis(1)).await;
    let args = format!("a b 30000 - - {START_MICROS} 86400000");
    let handed_on = f.eval(&LOCK_HAND_ON, keys, &args).await;
    assert_eq!(handed_on, token(START_MICROS + 1000));
    let given_back = async |serial: i64| {
        let args = format!("b {serial} 30000 channel");
        f.eval(&LOCK_RELEASE, keys, &args).await
    };
    let now = START_MICROS + 1000;
    assert_eq!(f.acquire("c").await, [0, TTL, 0, now]);
    let renewed = f.eval(&LOCK_RENEW, "lock", &format!("'' {TTL} b")).await;
    assert_eq!(renewed, Ok(Value::Int(now)), "all have what was asked for");
    let leases = format!("'' '' c b c {TTL} {TTL} {TTL}");
    let others = f.numbers(&LOCK_RENEW, "lock lock none", &leases);
    assert_eq!(others.await, [now, 1, -2, 3, -1]);
    let newer = Ok(Value::Array(vec![Value::Int(0), Value::Int(2)]));
    assert_eq!(given_back(START_MICROS).await, newer);
    assert_eq!(given_back(START_MICROS + 1000).await, Ok(Value::Int(1)));
    assert_eq!(f.store.key_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_step_of_the_clock_moves_expiries() {
    let f = Fixture::new();
    f.acquire("a").await;
    f.store.clock().step_forward(Duration::from_secs(10));
    assert_eq!(f.int("pttl lock"), TTL - 10_000);
    f.store.clock().step_back(Duration::from_secs(20));
    assert_eq!(f.int("pttl lock"), TTL + 10_000);
}

#[tokio::test(start_paused = true)]
async fn a_last_release_is_published_to_every_subscriber() {
    let mut f = Fixture::new();
    let (other, mut other_wakes) = f.store.connect();
    f.host.subscribe("channel").await.unwrap();
    f.host.subscribe("channel").await.unwrap();
    other.subscribe("channel").await.unwrap();
    assert_eq!(f.store.subscription_count("channel"), 2);
    f.acquire("a").await;
    f.acquire("a").await;
    f.release("a").await;
    assert!(f.wakes.try_recv().is_err(), "one is left");
    f.release("a").await;
    assert_eq!(f.wakes.try_recv(), Ok(message("channel", "0")));
    assert!(
        f.wakes.try_recv().is_err(),
        "two subscriptions of one client are one"
    );
    assert_eq!(other_wakes.try_recv(), Ok(message("channel", "0")));

    f.host.unsubscribe("channel");
    assert_eq!(f.int("publish channel x"), 1);
    assert!(f.wakes.try_recv().is_err());
    drop(other);
    assert_eq!(f.store.subscription_count("channel"), 0);
    assert_eq!(f.int("publish channel x"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_not_counted() {
    let f = Fixture::new();
    f.host.subscribe("channel").await.unwrap();
    drop(f.wakes);
    assert_eq!(
        f.store.command(&[b"publish", b"channel", b"x"]),
        Ok(Value::Int(0))
    );
}

#[tokio::test(start_paused = true)]
async fn a_flush_forgets_keys_and_keeps_subscriptions() {
    let f = Fixture::new();
    f.host.subscribe("channel").await.unwrap();
    f.acquire("a").await;
    assert_eq!(f.store.key_count(), 2);
    f.store.flush_all();
    assert_eq!(f.store.key_count(), 0);
    assert_eq!(f.release("a").await, [0, 3]);
    assert_eq!(f.store.subscription_count("channel"), 1);
}
