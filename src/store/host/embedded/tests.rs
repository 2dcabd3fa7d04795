//! The scripts of the catalogue on the store, and what the store adds to them. Times are in
//! milliseconds unless named otherwise.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::{Clock, EmbeddedStore};
use crate::{
    host::{Call, HostError, Script, ScriptHost, Value, Wake},
    script::catalog::{
        LOCK_ACQUIRE, LOCK_HAND_ON, LOCK_INSPECT, LOCK_RELEASE, LOCK_RENEW, LOCK_UNDO,
    },
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

    async fn acquire_as(&self, who: &str, request: &str, attempt: &str) -> Vec<i64> {
        let args = format!("{who} {TTL} 86400000 '' '' '' {attempt} 60000 1");
        self.numbers(&LOCK_ACQUIRE, &format!("lock counter {request}"), &args)
            .await
    }

    async fn release(&self, who: &str) -> Vec<i64> {
        let args = format!("{who} '' {TTL}");
        self.numbers(&LOCK_RELEASE, "lock counter channel", &args)
            .await
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

#[tokio::test(start_paused = true)]
async fn acquire_busy_again_release() {
    let f = Fixture::new();
    assert_eq!(
        f.acquire("a").await,
        [1, 1, START_MICROS, TTL, START_MICROS]
    );
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(f.acquire("b").await, [0, TTL - 1000, 0, START_MICROS]);
    assert_eq!(
        f.acquire("a").await,
        [1, 2, START_MICROS, TTL, START_MICROS]
    );
    assert_eq!(f.release("b").await, [0, 1]);
    assert_eq!(f.release("a").await, [1, 1, TTL]);
    assert_eq!(f.release("a").await, [1, 0, TTL]);
    assert_eq!(f.release("a").await, [0, 2]);
    let later = START_MICROS + 1_000_000;
    assert_eq!(f.acquire("b").await, [1, 1, later, TTL, later]);
}

#[tokio::test(start_paused = true)]
async fn a_time_to_live_runs_out_and_the_token_rises_all_the_same() {
    let f = Fixture::new();
    f.acquire("a").await;
    tokio::time::advance(Duration::from_millis(30_001)).await;
    assert_eq!(f.release("a").await, [0, 2]);
    f.store.clock().step_back(Duration::from_secs(3600));
    let next = START_MICROS + 1;
    assert_eq!(f.acquire("b").await, [1, 1, next, TTL, next]);
    tokio::time::advance(Duration::from_secs(3 * 86_400)).await;
    assert_eq!(f.store.key_count(), 0);
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
        let args = format!("b {serial} 30000");
        f.eval(&LOCK_RELEASE, "lock counter channel", &args).await
    };
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
async fn a_request_is_answered_once_and_remembered() {
    let f = Fixture::new();
    let first = f.acquire_as("a", "request-1", "attempt-1").await;
    assert_eq!(first, [1, 1, START_MICROS, TTL, START_MICROS]);
    let again = f.acquire_as("a", "request-1", "attempt-2").await;
    assert_eq!(again, [5, 1, START_MICROS, TTL, START_MICROS]);
    let holds = f.store.command(&[b"hget", b"lock", b"a"]);
    assert_eq!(holds, Ok(Value::Bytes(Bytes::from("1"))));
    assert_eq!(f.acquire_as("b", "request-1", "attempt-1").await, [3]);
    assert_eq!(
        f.acquire_as("b", "request-2", "attempt-1").await,
        [0, TTL, 0, START_MICROS]
    );
    let args = format!("a '' {TTL} publish 60000");
    for answer in [&[1, 0, TTL][..], &[5, 0, 0, -2]] {
        let released = f
            .numbers(&LOCK_RELEASE, "lock counter channel request-3", &args)
            .await;
        assert_eq!(released, answer);
    }
    assert_eq!(f.acquire_as("a", "request-1", "attempt-3").await, [2]);
    assert_eq!(
        f.acquire_as("b", "request-2", "attempt-2").await,
        [0, TTL, 0, START_MICROS],
        "it was answered"
    );
}

#[tokio::test(start_paused = true)]
async fn undo_takes_back_what_the_attempt_took() {
    let mut f = Fixture::new();
    f.host.subscribe("channel").await.unwrap();
    f.acquire_as("a", "request-1", "attempt-1").await;
    let keys = "lock counter channel request-1";
    assert_eq!(
        f.numbers(&LOCK_UNDO, keys, "a attempt-9 0 publish free")
            .await,
        [0, 1]
    );
    assert_eq!(
        f.numbers(&LOCK_UNDO, keys, "a attempt-1 0 publish free")
            .await,
        [1, 0]
    );
    assert_eq!(
        f.numbers(&LOCK_UNDO, keys, "a attempt-1 0 publish free")
            .await,
        [0, 0]
    );
    assert_eq!(f.wakes.try_recv(), Ok(message("channel", "free")));
    assert_eq!(f.int("exists lock request-1"), 0);

    f.acquire("a").await;
    f.acquire("a").await;
    assert_eq!(
        f.numbers(&LOCK_UNDO, "lock counter channel", "a x 1 publish free")
            .await,
        [1, 1]
    );
    assert_eq!(
        f.numbers(&LOCK_UNDO, "lock counter channel", "a x 1 publish free")
            .await,
        [0, 1]
    );
}

#[tokio::test(start_paused = true)]
async fn renewals_extend_what_is_held_and_name_what_is_not() {
    let f = Fixture::new();
    f.acquire("a").await;
    f.int("hset other b 1");
    f.int("rpush list x");
    tokio::time::advance(Duration::from_secs(10)).await;
    let keys = "lock counter other counter-2 none counter-3 list counter-4";
    let args = format!("86400000 {TTL} a a a a");
    let renewed = f.numbers(&LOCK_RENEW, keys, &args).await;
    let now = START_MICROS + 10_000_000;
    assert_eq!(
        renewed,
        [
            now,
            TTL,
            1,
            START_MICROS,
            0,
            -2,
            0,
            0,
            0,
            -1,
            0,
            0,
            0,
            -2,
            0,
            0,
            0
        ]
    );
    let leases = format!("'' '' a a a a {TTL} {TTL} {TTL} {TTL}");
    let others = f.numbers(&LOCK_RENEW, "lock other none list", &leases);
    assert_eq!(others.await, [now, 2, -2, 3, -1, 4, -2]);
    let all = format!("'' {TTL} a");
    let all = f.eval(&LOCK_RENEW, "lock", &all).await;
    assert_eq!(all, Ok(Value::Int(now)), "all have what was asked for");
    assert_eq!(f.int("pttl lock"), TTL);
    assert_eq!(f.int("pttl other"), -1);
}

#[tokio::test(start_paused = true)]
async fn inspect_names_who_has_it() {
    let f = Fixture::new();
    let keys = "lock counter queue lock";
    let text = |text: &'static str| Value::Bytes(Bytes::from(text));
    let reply = |mode, numbers: [i64; 3], holders| {
        let numbers = numbers.map(Value::Int);
        let [queue_len, queue] = [Value::Int(0), Value::Array(Vec::new())];
        let head = [Value::Int(1), text(mode)].into_iter().chain(numbers);
        let tail = [Value::Array(holders), queue_len, queue];
        Ok(Value::Array(head.chain(tail).collect()))
    };
    assert_eq!(
        f.eval(&LOCK_INSPECT, keys, "9").await,
        reply("free", [-2, 0, 0], Vec::new())
    );
    f.acquire("a").await;
    let holder = vec![text("a"), Value::Int(1), Value::Int(TTL), text("")];
    assert_eq!(
        f.eval(&LOCK_INSPECT, keys, "9").await,
        reply("sole", [TTL, START_MICROS, 1], holder)
    );
}

#[tokio::test(start_paused = true)]
async fn foreign_keys_are_refused_with_the_code_of_redis() {
    let f = Fixture::new();
    f.int("rpush lock x");
    let error = f
        .eval(&LOCK_INSPECT, "lock counter queue lock", "9")
        .await
        .unwrap_err();
    assert!(matches!(error, HostError::Rejected { code, .. } if code == "WRONGTYPE"));
    let error = f.store.command(&[b"get", b"lock"]).unwrap_err();
    assert!(matches!(error, HostError::Rejected { code, .. } if code == "WRONGTYPE"));
}

#[tokio::test(start_paused = true)]
async fn out_of_memory_refuses_to_give_but_takes_back() {
    let f = Fixture::new();
    f.acquire("a").await;
    f.acquire("a").await;
    f.store.set_out_of_memory(true);
    let args = format!("b {TTL} 86400000 '' attempt-1 60000 0");
    let refused = f.eval(&LOCK_ACQUIRE, "lock-2 counter-2", &args).await;
    assert_eq!(refused, Err(HostError::OutOfMemory));
    assert_eq!(f.release("a").await, [1, 1, TTL]);
    assert_eq!(f.release("a").await, [1, 0, TTL]);
    f.store.set_out_of_memory(false);
    assert_eq!(
        f.numbers(&LOCK_ACQUIRE, "lock-2 counter-2", &args)
            .await
            .len(),
        5
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
