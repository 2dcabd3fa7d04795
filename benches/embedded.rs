//! What the scripts of a try and a release cost on the embedded store, without a server around it.
//! `cargo bench --bench embedded`
//!
//! With a number of pairs as its argument it only runs so many of them, for tools that count
//! instructions.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for people, which has nobody to tell but them"
)]

use std::{hint::black_box, sync::Arc, time::Duration};

use futures::executor::block_on;
use lockkeeper_store::{
    host::{
        Call, Script, ScriptHost, Value, Words,
        embedded::{Clock, EmbeddedStore},
        words,
    },
    script::{
        catalog::{LOCK_ACQUIRE, LOCK_RELEASE},
        keys,
    },
};
use tokio::time::Instant;

const NAMES: usize = 64;
const ROUNDS: usize = 9;
const MEASURED: Duration = Duration::from_millis(300);

/// A client of a store, and the calls of one pair for each name.
struct Pairs {
    host: Arc<dyn ScriptHost>,
    calls: Vec<[Call; 2]>,
}

fn main() {
    let store = EmbeddedStore::new(Clock::system());
    let (host, _wakes) = store.connect();
    let pairs = Pairs::new(host);
    let count = std::env::args().find_map(|argument| argument.parse::<usize>().ok());
    if let Some(count) = count {
        for number in 0..count {
            pairs.run(number);
        }
        return;
    }
    for others in [0, 100_000] {
        fill(&store, others);
        let mut nanos: Vec<f64> = (0..ROUNDS).map(|_| pairs.measure()).collect();
        nanos.sort_by(f64::total_cmp);
        println!(
            "{:6.0} ns for a pair ({:.0} to {:.0}), {others} other keys",
            nanos[ROUNDS / 2],
            nanos[0],
            nanos[ROUNDS - 1]
        );
    }
}

/// Makes keys that nobody touches; they do not end while this runs.
fn fill(store: &EmbeddedStore, others: usize) {
    for number in 0..others {
        let key = format!("other-{number}");
        store
            .command(&[b"set", key.as_bytes(), b"1", b"px", b"86400000"])
            .unwrap();
    }
}

fn call(script: &'static Script, keys: Words, args: &[&str]) -> Call {
    Call {
        script,
        keys,
        args: args.iter().collect(),
    }
}

// === impl Pairs ===

impl Pairs {
    fn new(host: Arc<dyn ScriptHost>) -> Self {
        let pair = |number: usize| {
            let name = format!("lock-{number}");
            let owner = format!("c2f2a1b0-5b1e-4f0e-9c2e-{number:012}:1");
            let (lock, counter) = (keys::lock(&name), keys::counter(&name));
            let give_back = words![lock, counter, keys::channel(&name)];
            let take = [&owner, "30000", "604800000"];
            [
                call(&LOCK_ACQUIRE, words![lock, counter], &take),
                call(&LOCK_RELEASE, give_back, &[&owner, "", "0"]),
            ]
        };
        Self {
            host,
            calls: (0..NAMES).map(pair).collect(),
        }
    }

    fn run(&self, number: usize) {
        for call in &self.calls[number % NAMES] {
            let reply = block_on(self.host.eval(black_box(call.clone()))).unwrap();
            let is_done = matches!(reply, Value::Bytes(_) | Value::Int(1));
            assert!(is_done, "{}: {reply:?}", call.script.name);
        }
    }

    /// Nanoseconds of a pair.
    fn measure(&self) -> f64 {
        let start = Instant::now();
        let mut pairs = 0_u32;
        while start.elapsed() < MEASURED {
            for number in 0..NAMES {
                self.run(number);
                pairs += 1;
            }
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(pairs)
    }
}
