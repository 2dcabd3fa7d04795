//! Fencing tokens that several coordinators make for the same names, while the counters are lost.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use async_trait::async_trait;
use bytes::Bytes;
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_store::{
    host::{
        Call, Script, ScriptHost,
        embedded::{Clock, EmbeddedStore},
    },
    script::{Acquired, Attempt, HandOver, Hold, Mode, Refusal, Scripts, catalog::LOCK_ACQUIRE},
};
use parking_lot::Mutex;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::sync::RwLock;

use super::story::config;
use crate::support::prelude::*;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const COORDINATORS: u64 = 3;
const LOSSES: u32 = 12;
const START_MICROS: i64 = 1_700_000_000_000_000;

/// By how much the estimates of the store's clock differ: answers are late by as much.
const APART: Duration = Duration::from_millis(50);

/// Between two losses, in which steps of the counters are made.
const BETWEEN: Duration = Duration::from_secs(3);

/// How long nobody is served while a store takes over from another: longer than their clocks and
/// the estimates of them differ.
const FAILOVER: Duration = Duration::from_millis(150);

/// What is seen where the store runs scripts, so in the order in which it does.
#[derive(Debug, Default)]
struct Witness {
    newest: Mutex<HashMap<Bytes, u64>>,
    problems: Mutex<Vec<String>>,
    tokens: AtomicU64,
    steps: AtomicU64,
    /// Calls wait while this is written.
    served: RwLock<()>,
}

/// The way of one coordinator to the store, on which answers take a while.
#[derive(Debug)]
struct Way {
    to: Arc<dyn ScriptHost>,
    answers_after: Duration,
    witness: Arc<Witness>,
    acquire: &'static Script,
}

#[tokio::test(start_paused = true)]
async fn no_token_is_less_than_one_before_whatever_becomes_of_the_counters() {
    assert_eq!(problems_with(&LOCK_ACQUIRE).await, Vec::<String>::new());
}

/// It is the comparison with what was expected that sees to this.
#[tokio::test(start_paused = true)]
async fn a_token_that_nobody_compares_is_less_than_one_before() {
    let broken = LOCK_ACQUIRE
        .source()
        .replace("token - expected ~= 0", "false");
    assert_ne!(broken, LOCK_ACQUIRE.source());
    let broken = Script::new(LOCK_ACQUIRE.name, broken.leak());
    assert!(!problems_with(Box::leak(Box::new(broken))).await.is_empty());
}

/// What goes wrong where this script takes locks.
async fn problems_with(acquire: &'static Script) -> Vec<String> {
    let store = EmbeddedStore::new(Clock::starting_at(START_MICROS));
    let witness = Arc::new(Witness::default());
    let ended = Arc::new(AtomicBool::new(false));
    for number in 0..COORDINATORS {
        let way = Way {
            to: store.connect().0,
            answers_after: APART.saturating_sub(millis(2)) / 2 * u32::try_from(number).unwrap(),
            witness: Arc::clone(&witness),
            acquire,
        };
        let scripts = Scripts::new(Arc::new(way), config());
        let ended = Arc::clone(&ended);
        spawn_detached("coordinator", async move {
            let mut random = StdRng::seed_from_u64(number);
            while !ended.load(Ordering::Relaxed) {
                use_one(&scripts, number, &mut random).await;
            }
        });
    }
    let mut random = StdRng::seed_from_u64(COORDINATORS);
    for loss in 0..LOSSES {
        tokio::time::sleep(BETWEEN / 2).await;
        let known = NAMES.map(|name| read(&store, name));
        // In between lie tokens that are to be forgotten.
        tokio::time::sleep(BETWEEN / 2).await;
        let served = witness.served.write().await;
        for (name, known) in NAMES.iter().zip(known) {
            let (lock, counter) = (keys::lock(name).to_bytes(), keys::counter(name).to_bytes());
            store.command(&[b"DEL", &lock]).unwrap();
            let is_lost = random.random_ratio(1, 2);
            match known.filter(|_| !is_lost) {
                Some(known) => store.command(&[b"SET", &counter, &known, b"KEEPTTL"]),
                None => store.command(&[b"DEL", &counter]),
            }
            .unwrap();
        }
        tokio::time::sleep(FAILOVER).await;
        // The clocks of the two differ, this way or that.
        if loss % 2 == 0 {
            store.clock().step_back(APART);
        } else {
            store.clock().step_forward(APART);
        }
        drop(served);
    }
    tokio::time::sleep(BETWEEN).await;
    ended.store(true, Ordering::Relaxed);
    let [tokens, steps] = [&witness.tokens, &witness.steps].map(|it| it.load(Ordering::Relaxed));
    assert!(steps > 1000 && tokens > steps, "{steps} steps of {tokens}");
    std::mem::take(&mut *witness.problems.lock())
}

/// Takes a lock, may hand it over, and gives it back.
async fn use_one(scripts: &Scripts, number: u64, random: &mut StdRng) {
    // Some names are one coordinator's for a while, and some are everybody's.
    let at = if random.random_ratio(3, 4) {
        number
    } else {
        random.random_range(0..4)
    };
    let name = NAMES[usize::try_from(at).unwrap()];
    let owners = [0, 1].map(|owner| format!("6fa459ea-ee8a-3ca4-894e-{number:012}:{owner}"));
    let hold = |owner: usize| Hold::new(name, Mode::Exclusive, owners[owner].as_str());
    let attempt = Attempt {
        known_holds: Some(0),
        ..Attempt::new("a", 1)
    };
    let acquired = scripts.acquire(hold(0), secs(30), &attempt, Refusal::Forgotten);
    let pause = millis(random.random_range(0..4));
    if let Ok(Acquired::Granted { serial, .. }) = acquired.await {
        tokio::time::sleep(pause).await;
        let next = scripts.hand_over(hold(0), Some(serial), (&owners[1], secs(30)), &attempt);
        let released = match next.await.unwrap() {
            HandOver::Done(token) => scripts.release(hold(1), Some(token), secs(30), None).await,
            HandOver::NotFirst | HandOver::OthersRead(_) | HandOver::Refused => {
                scripts.release(hold(0), Some(serial), secs(30), None).await
            }
        };
        released.unwrap();
    }
    tokio::time::sleep(pause + millis(1)).await;
}

fn read(store: &EmbeddedStore, name: &str) -> Option<Bytes> {
    match store
        .command(&[b"GET", &keys::counter(name).to_bytes()])
        .unwrap()
    {
        Value::Bytes(token) => Some(token),
        Value::Nil => None,
        other => panic!("{other:?}"),
    }
}

// === impl Witness ===

impl Witness {
    fn see(&self, script: &str, name: &Bytes, reply: &Value) {
        let token = match reply {
            Value::Int(token) => {
                self.steps.fetch_add(1, Ordering::Relaxed);
                Some(*token)
            }
            Value::Bytes(text) => str::from_utf8(text).unwrap().parse().ok(),
            Value::Array(items) => match items[..] {
                [Value::Int(1), _, Value::Int(token), ..] => Some(token),
                _ => None,
            },
            Value::Nil => None,
        };
        let Some(token) = token.map(|token| u64::try_from(token).unwrap()) else {
            return;
        };
        self.tokens.fetch_add(1, Ordering::Relaxed);
        let before = self.newest.lock().insert(name.clone(), token);
        if before.is_some_and(|before| before >= token) {
            let problem = format!("{script} of {name:?}: {token} after {before:?}");
            self.problems.lock().push(problem);
        }
    }
}

// === impl Way ===

#[async_trait]
impl ScriptHost for Way {
    async fn eval(&self, mut call: Call) -> Result<Value, HostError> {
        if call.script.name == self.acquire.name {
            call.script = self.acquire;
        }
        let served = self.witness.served.read().await;
        let (script, name) = (
            call.script.name,
            Bytes::copy_from_slice(call.keys.first().unwrap()),
        );
        let reply = self.to.eval(call).await;
        if let Ok(reply) = &reply
            && matches!(script, "lock_acquire" | "lock_hand_on" | "grant_hand_on")
        {
            self.witness.see(script, &name, reply);
        }
        drop(served);
        tokio::time::sleep(self.answers_after).await;
        reply
    }

    async fn subscribe(&self, _: &str) -> Result<(), HostError> {
        Ok(())
    }

    fn unsubscribe(&self, _: &str) {}
}
