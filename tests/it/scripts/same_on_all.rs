//! The embedded store against a real Redis: whatever is called in whatever order, both answer alike
//! and end alike.

use std::{collections::BTreeSet, fmt::Write as _};

use async_trait::async_trait;
use bytes::Bytes;
use lockkeeper_store::{
    host::{Call, ScriptHost},
    script::{Attempt, Config, Hold, Mode, Refusal, Scripts},
};
use parking_lot::Mutex;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};

use super::requests::renewal_of;
use super::{mask::Mask, story::config};
use crate::support::hosts::{Store, TWINS};
use crate::support::prelude::*;

const SEEDS: std::ops::Range<u64> = 0..5;
const CALLS: usize = 800;
const NAMES: [&str; 3] = ["a", "b", "x{a}y"];
const OWNERS: [&str; 3] = ["o1", "o2", "s:o3"];
/// An owner uses a request id for about so many calls of the whole test.
const REQUEST_CALLS: usize = 40;
const ATTEMPTS: [&str; 2] = ["t1", "t2"];

/// A client of two stores, which must agree.
#[derive(Debug)]
struct Twins {
    clients: [Arc<dyn ScriptHost>; 2],
    masks: [Mutex<Mask>; 2],
    history: Mutex<Vec<String>>,
    /// Keys that calls named since they were compared.
    touched: Mutex<BTreeSet<Bytes>>,
}

#[tokio::test]
async fn random_calls_are_answered_alike_and_leave_the_same() {
    let stores = [TWINS[0].start().await, TWINS[1].start().await];
    for seed in SEEDS {
        for store in &stores {
            store.flush().await;
        }
        let [left, right] = &stores;
        let began = [left.now_micros().await, right.now_micros().await];
        let masks = began.map(|micros| Mutex::new(Mask::of_several_names(micros)));
        let clients = [&stores[0], &stores[1]].map(|store| store.connect().0);
        let twins = Arc::new(Twins {
            clients,
            masks,
            history: Mutex::default(),
            touched: Mutex::default(),
        });
        let config = Config {
            idle_token_retention: secs(1000),
            fair_waiter_timeout: secs(1000),
            writer_hold_back: secs(1000),
            ..config()
        };
        let scripts = Scripts::new(Arc::clone(&twins) as _, config);
        let mut random = StdRng::seed_from_u64(seed);
        for call in 0..CALLS {
            if random.random_ratio(1, 12) {
                disturb(&stores, &twins, call, &mut random).await;
            } else {
                call_something(&scripts, call, &mut random).await;
            }
            // Looking at everything each time would take longer than the calls.
            if call % 50 == 49 {
                compare(&stores, &twins, seed).await;
            }
        }
        compare(&stores, &twins, seed).await;
    }
}

/// One of the scripts, with arguments that often meet those of other calls. What it answers is
/// compared below.
async fn call_something(scripts: &Scripts, call: usize, random: &mut StdRng) {
    let name = pick(&NAMES, random);
    let owner = pick(&OWNERS, random);
    let lease = lease(random);
    let request_id = random
        .random_ratio(1, 2)
        .then(|| request(call, owner, random));
    let request_id = request_id.as_deref();
    let known_holds = random.random_ratio(1, 3).then(|| random.random_range(0..3));
    let attempt = Attempt {
        request_id,
        known_holds,
        ..Attempt::new(pick(&ATTEMPTS, random), 1)
    };
    let hold = Hold::new(name, mode(name, random), owner);
    match random.random_range(0..12) {
        0..4 => {
            let refusal = pick(
                &[Refusal::Forgotten, Refusal::Recorded, Refusal::Waits],
                random,
            );
            let _ = scripts.acquire(hold, lease, &attempt, refusal).await;
        }
        4..7 => drop(scripts.release(hold, None, lease, request_id).await),
        7 => drop(scripts.undo(hold, &attempt).await),
        8 => drop(scripts.leave(hold).await),
        9 => drop(scripts.fair_keepalive(name, &OWNERS).await),
        10 => {
            let holds = NAMES.map(|name| {
                renewal_of(
                    Hold::new(name, mode(name, random), pick(&OWNERS, random)),
                    self::lease(random),
                )
            });
            let _ = scripts
                .renew(&holds[..random.random_range(0..=holds.len())])
                .await;
        }
        _ => drop(scripts.inspect(name, 2).await),
    }
}

/// Mostly that of the name, so that the calls have something to do with each other.
fn mode(name: &str, random: &mut StdRng) -> Mode {
    const MODES: [Mode; 4] = [Mode::Exclusive, Mode::Fair, Mode::Read, Mode::Write];
    let own = NAMES.iter().position(|known| *known == name).unwrap() % 3;
    match random.random_range(0..20) {
        0 => pick(&MODES, random),
        _ if own == 2 => pick(&MODES[2..], random),
        _ => MODES[own],
    }
}

/// What an operator, a Redisson client or the end of a time to live may do in between.
async fn disturb(stores: &[Store; 2], twins: &Twins, call: usize, random: &mut StdRng) {
    let name = pick(&NAMES, random);
    let owner = pick(&OWNERS, random);
    let record = keys::record(name, &request(call, owner, random)).to_bytes();
    let (lock, counter) = (keys::lock(name).to_bytes(), keys::counter(name).to_bytes());
    let text: [&[u8]; 2] = [b"7", b"many"];
    let text = pick(&text, random);
    let commands: [&[&[u8]]; 16] = [
        // More often than what makes the lock unusable.
        &[b"DEL", &lock],
        &[b"DEL", &lock],
        &[b"DEL", &lock],
        &[b"DEL", &lock],
        &[b"DEL", &lock],
        &[b"DEL", &lock],
        &[b"DEL", &record],
        &[b"DEL", &counter],
        &[b"PERSIST", &lock],
        &[b"PEXPIRE", &counter, b"400000"],
        &[b"PEXPIRE", &lock, b"200000"],
        &[b"SET", &counter, text],
        &[b"SET", &counter, b"5000000000000000"],
        &[b"HSET", &lock, owner.as_bytes(), text],
        &[b"HSET", &lock, b"mode", b"read"],
        &[b"RPUSH", &lock, b"x"],
    ];
    let command = pick(&commands, random);
    let line = command.iter().map(|word| word.escape_ascii().to_string());
    twins
        .touched
        .lock()
        .insert(Bytes::copy_from_slice(command[1]));
    twins.note(line.collect::<Vec<_>>().join(" "));
    let [left, right] = stores.each_ref().map(|store| store.try_command(command));
    assert_eq!(left.await.is_ok(), right.await.is_ok());
}

/// Mostly an id of the owner's own, which it may have used for this or for something else.
fn request(call: usize, owner: &str, random: &mut StdRng) -> String {
    let owner = if random.random_ratio(1, 10) {
        pick(&OWNERS, random)
    } else {
        owner
    };
    format!("{owner}-{}", call / REQUEST_CALLS)
}

fn pick<T: Copy>(from: &[T], random: &mut StdRng) -> T {
    *from.choose(random).unwrap()
}

fn lease(random: &mut StdRng) -> Duration {
    secs(100 * random.random_range(1..=5))
}

/// Every key of both stores that may have changed.
async fn compare(stores: &[Store; 2], twins: &Twins, seed: u64) {
    let touched = std::mem::take(&mut *twins.touched.lock());
    let mut dumps = [String::new(), String::new()];
    for ((store, dump), mask) in stores.iter().zip(&mut dumps).zip(&twins.masks) {
        for key in &touched {
            let kind = store.try_command(&[b"TYPE", key]).await.unwrap();
            let held = match &kind {
                Value::Bytes(kind) if kind == "hash" => {
                    store.try_command(&[b"HGETALL", key]).await.unwrap()
                }
                Value::Bytes(kind) if kind == "string" => {
                    store.try_command(&[b"GET", key]).await.unwrap()
                }
                Value::Bytes(kind) if kind == "list" => store
                    .try_command(&[b"LRANGE", key, b"0", b"-1"])
                    .await
                    .unwrap(),
                // Scores are times, and how far apart two calls are is the machine's business.
                Value::Bytes(kind) if kind == "zset" => {
                    let words: [&[u8]; 4] = [b"ZRANGE", key, b"0", b"-1"];
                    sorted(store.try_command(&words).await.unwrap())
                }
                _ => kind,
            };
            let mut ttl = store.try_command(&[b"PTTL", key]).await.unwrap();
            if key.starts_with(b"redisson_lock_token") && matches!(ttl, Value::Int(1..)) {
                // A counter gets its whole time to live once in ten seconds of the store's clock,
                // which may pass between the calls of the two.
                ttl = Value::Bytes("ends".into());
            }
            let mut mask = mask.lock();
            let (held, ttl) = (mask.shown(&held), mask.shown(&ttl));
            let _ = writeln!(dump, "{}: {held} {ttl}", key.escape_ascii());
        }
        let _ = writeln!(dump, "{} keys", store.key_count().await);
    }
    let [left, right] = dumps;
    assert_eq!(left, right, "seed {seed}, after\n{}", twins.story());
}

fn sorted(members: Value) -> Value {
    let Value::Array(mut members) = members else {
        return members;
    };
    members.sort_by_key(|member| format!("{member:?}"));
    Value::Array(members)
}

/// The token of a first hold. Whether a script answers with it alone depends on the seconds of the
/// store's clock; see `lua/lib/next_token.lua`.
fn first_hold(reply: &Value) -> &Value {
    match reply {
        Value::Array(items) => match &items[..] {
            [Value::Int(1), Value::Int(1), token, _, serial] if token == serial => token,
            _ => reply,
        },
        _ => reply,
    }
}

// === impl Twins ===

impl Twins {
    fn note(&self, line: String) {
        self.history.lock().push(line);
    }

    /// What led here.
    fn story(&self) -> String {
        const SHOWN: usize = 60;
        let history = self.history.lock();
        history[history.len().saturating_sub(SHOWN)..].join("\n")
    }
}

#[async_trait]
impl ScriptHost for Twins {
    async fn eval(&self, call: Call) -> Result<Value, HostError> {
        let keys = call.keys.iter().map(Bytes::copy_from_slice);
        self.touched.lock().extend(keys);
        let left = self.clients[0].eval(call.clone()).await;
        let right = self.clients[1].eval(call.clone()).await;
        let words = call.keys.iter().chain(&call.args);
        let words: Vec<_> = words.map(|word| word.escape_ascii().to_string()).collect();
        let [shown_left, shown_right] =
            [(&left, 0), (&right, 1)].map(|(reply, twin)| match reply {
                // The first number of a renewal is the store's clock.
                Ok(Value::Array(items)) if call.script.name.ends_with("_renew") => self.masks[twin]
                    .lock()
                    .shown(&Value::Array(items[1..].to_vec())),
                Ok(value) => self.masks[twin].lock().shown(first_hold(value)),
                // The text of an error names lines differently.
                Err(HostError::Rejected { code, .. }) => code.clone(),
                Err(error) => error.to_string(),
            });
        self.note(format!(
            "{} {} -> {shown_left}",
            call.script.name,
            words.join(" ")
        ));
        assert_eq!(shown_left, shown_right, "after\n{}", self.story());
        left
    }

    async fn subscribe(&self, _: &str) -> Result<(), HostError> {
        Ok(())
    }

    fn unsubscribe(&self, _: &str) {}
}
