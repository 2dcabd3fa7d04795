//! No reply is large, whatever another program has put into our keys.

use std::fmt;

use async_trait::async_trait;
use lockkeeper_store::{
    host::{Call, ScanCursor, Scanned, ScriptHost},
    script::{Attempt, Hold, Mode, Refusal, Scripts, WalkCursor},
};
use parking_lot::Mutex;

use super::super::requests::{attempt_all, member, members, permit_attempt};
use super::{super::story::config, planting::NAME};
use crate::support::hosts::{Host, Store};
use crate::support::prelude::*;

/// What is planted, in bytes.
const HUGE: usize = 8 << 20;

/// The largest reply: a thousand holders and as many waiters, each with a long name.
const REPLY_MAX: usize = 4 << 20;

const DIGEST: (&str, &str) = ("", "d");

const OWNER: &str = "8f14e45f-ceea-467f-a8a1-0b1c2d3e4f50:0";

/// A client that measures replies.
struct Scale {
    client: Arc<dyn ScriptHost>,
    largest: Mutex<(&'static str, usize)>,
}

// === impl Scale ===

impl Scale {
    fn weigh(&self, name: &'static str, bytes: usize) {
        let mut largest = self.largest.lock();
        if bytes > largest.1 {
            *largest = (name, bytes);
        }
    }
}

fn bytes_of(value: &Value) -> usize {
    match value {
        Value::Nil | Value::Int(_) => 8,
        Value::Bytes(bytes) => bytes.len(),
        Value::Array(items) => items.iter().map(bytes_of).sum(),
    }
}

#[async_trait]
impl ScriptHost for Scale {
    async fn eval(&self, call: Call) -> Result<Value, HostError> {
        let name = call.script.name;
        let reply = self.client.eval(call).await;
        let bytes = match &reply {
            Ok(value) => bytes_of(value),
            Err(error) => error.to_string().len(),
        };
        self.weigh(name, bytes);
        reply
    }

    async fn subscribe(&self, channel: &str) -> Result<(), HostError> {
        self.client.subscribe(channel).await
    }

    fn unsubscribe(&self, channel: &str) {
        self.client.unsubscribe(channel);
    }

    async fn scan(
        &self,
        from: ScanCursor,
        containing: &[u8],
        work: u32,
    ) -> Result<Scanned, HostError> {
        let scanned = self.client.scan(from, containing, work).await?;
        self.weigh("scan", scanned.keys.iter().map(bytes::Bytes::len).sum());
        Ok(scanned)
    }
}

impl fmt::Debug for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scale")
    }
}

/// Everything that reads what may be under a name. What it answers does not matter here.
async fn ask_all(scripts: &Scripts) {
    for mode in [Mode::Exclusive, Mode::Read, Mode::Write, Mode::Fair] {
        let hold = Hold::new(NAME, mode, OWNER);
        for request_id in [Some("r"), None] {
            let attempt = Attempt {
                request_id,
                ..Attempt::new("a", 1)
            };
            let _ = scripts
                .acquire(hold, secs(60), &attempt, Refusal::Recorded)
                .await;
            let _ = scripts.release(hold, None, secs(60), request_id).await;
        }
    }
    let locks = [member(NAME, Mode::Exclusive)];
    let members = members(OWNER, &locks);
    let attempt = attempt_all("r");
    let _ = scripts
        .acquire_all(members, secs(60), attempt, Refusal::Recorded)
        .await;
    let _ = scripts.release_all(members, &[secs(60)], Some("r")).await;
    let attempt = permit_attempt(&[[1; 16]], Some("r"), "a");
    let _ = scripts
        .acquire_permits(NAME, OWNER, secs(60), attempt, true)
        .await;
    let _ = scripts
        .release_permits(NAME, OWNER, &[[1; 16]], Some("r"))
        .await;
    let _ = scripts.inspect_semaphore(NAME, u32::MAX).await;
    let _ = scripts.inspect_latch(NAME).await;
    let _ = scripts.inspect(NAME, 1000).await;
    let _ = scripts.forced(NAME).await;
    let _ = scripts.proclaim(NAME, OWNER, 1, "client", "value").await;
    let _ = scripts.inspect_election(NAME, Some(0)).await;
    let _ = scripts.shared_waits(DIGEST).await;
    let forced = scripts.force_release(NAME, "why", secs(20), None, 100);
    let _ = forced.await;
}

async fn plant(store: &Store, words: &[&[u8]]) {
    store.try_command(words).await.unwrap();
}

#[tokio::test]
async fn what_others_have_planted_is_not_sent() {
    let store = Host::Redis.start().await;
    let (client, _wakes) = store.connect();
    let scale = Arc::new(Scale {
        client,
        largest: Mutex::default(),
    });
    let scripts = Scripts::new(Arc::clone(&scale) as _, config());
    let huge = vec![b'h'; HUGE];
    let long_name = [b"n", huge.as_slice()].concat();
    let (lock, record, forced) = (
        keys::lock(NAME).to_bytes(),
        keys::record(NAME, "r").to_bytes(),
        keys::forced(NAME).to_bytes(),
    );
    let (queue, counter) = (keys::queue(NAME).to_bytes(), keys::counter(NAME).to_bytes());
    let (leases, owners) = (
        keys::permit_leases(NAME).to_bytes(),
        keys::permit_owners(NAME).to_bytes(),
    );
    let digits = hex::encode([1; 16]);
    let (note, waits) = (keys::note(NAME).to_bytes(), keys::waits(DIGEST.0, DIGEST.1));
    let (election, of_leader) = (
        keys::election(NAME),
        [b"2\n1\no\nc\n", huge.as_slice()].concat(),
    );
    let shared_waits = [b"1 ", huge.as_slice()].concat();
    let cases: [&[&[u8]]; 16] = [
        &[b"HSET", &lock, &huge, b"1"],
        &[b"HSET", &lock, OWNER.as_bytes(), &huge],
        &[b"HSET", &lock, b"mode", b"read", &huge, b"1"],
        &[b"HSET", &lock, b"mode", &huge],
        &[b"SET", &lock, &huge],
        &[b"SET", &counter, &huge],
        &[b"RPUSH", &queue, &huge],
        &[b"ZADD", &leases, b"9000000000000", &huge],
        &[b"HSET", &owners, digits.as_bytes(), &huge],
        &[
            b"HSET",
            &record,
            b"op",
            b"acquire",
            b"owner",
            OWNER.as_bytes(),
            b"answer",
            &huge,
        ],
        &[b"HSET", &note, b"note", &huge, b"owner", &huge],
        &[b"RPUSH", election.as_bytes(), &of_leader],
        &[b"RPUSH", election.as_bytes(), &of_leader, b"3\n1\no\nc\nv"],
        &[b"SET", waits.as_bytes(), &shared_waits],
        &[b"HSET", &forced, b"token", b"1", b"reason", &huge],
        &[b"HSET", &long_name, b"f", b"1"],
    ];
    for (planted, number) in cases.into_iter().zip(1..) {
        store.command(&["FLUSHALL"]).await;
        plant(&store, &[b"HSET", b"n-good", OWNER.as_bytes(), b"1"]).await;
        plant(&store, planted).await;
        ask_all(&scripts).await;
        // The other names are listed all the same.
        let walked = scripts.walk(WalkCursor::default(), "n", 1000).await;
        let (names, next) = walked.unwrap();
        let is_good = |(name, _): &(String, _)| name == "n-good";
        assert!(names.iter().any(is_good) && next.is_none(), "case {number}");
        let largest = *scale.largest.lock();
        assert!(largest.1 <= REPLY_MAX, "case {number}: {largest:?}");
    }
}
