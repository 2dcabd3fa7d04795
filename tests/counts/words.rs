//! How much is said for an operation, in words to the store and bytes back: Redis spends as much on
//! that as on the commands of the script.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::future::BoxFuture;
use lockkeeper_store::{
    host::{
        Call, Commands, HostError, Numbers, ScriptHost, Value,
        embedded::{Clock, EmbeddedStore},
    },
    script::{Acquired, Attempt, Config, HandOver, Hold, Mode, Refusal, Renewal, Scripts, keys},
};
use parking_lot::Mutex;
use tokio::time::Instant;

const LEASE: Duration = Duration::from_secs(30);
const OWNER: &str = "6fa459ea-ee8a-3ca4-894e-36c7f0b2d6f1:0";
const NEXT: &str = "6fa459ea-ee8a-3ca4-894e-36c7f0b2d6f1:1";
const START_MICROS: i64 = 1_700_000_000_000_000;

/// The default, so that numbers are as long as usual.
const WEEK: Duration = Duration::from_secs(7 * 86_400);

/// Writes down how much is said.
#[derive(Debug)]
struct Counting {
    to: Arc<dyn ScriptHost>,
    said: Mutex<Vec<Said>>,
}

/// A script, its keys and arguments, and the bytes of its reply.
type Said = (&'static str, usize, usize);

#[tokio::test(start_paused = true)]
async fn words_and_bytes_of_the_most_frequent_calls() {
    let store = EmbeddedStore::new(Clock::starting_at(START_MICROS));
    let host = Arc::new(Counting {
        to: store.connect().0,
        said: Mutex::default(),
    });
    let scripts = Scripts::new(Arc::clone(&host) as _, config());
    for mode in [Mode::Exclusive, Mode::Fair, Mode::Read, Mode::Write] {
        let name = format!("{mode:?}");
        for _ in 0..2 {
            let hold = Hold::new(&name, mode, OWNER);
            let serial = acquire(&scripts, hold).await;
            let released = scripts.release(hold, Some(serial), LEASE, None).await;
            released.unwrap();
        }
    }
    let hold = Hold::new("hot", Mode::Exclusive, OWNER);
    let serial = acquire(&scripts, hold).await;
    let outcome = scripts
        .hand_over(hold, Some(serial), (NEXT, LEASE), &Attempt::new("a", 1))
        .await;
    assert!(matches!(outcome.unwrap(), HandOver::Done(_)));
    let hold = Hold::new("Write", Mode::Read, OWNER);
    let serial = acquire(&scripts, hold).await;
    let outcome = scripts
        .hand_over(hold, Some(serial), (NEXT, LEASE), &Attempt::new("a", 1))
        .await;
    assert!(matches!(outcome.unwrap(), HandOver::Done(_)));
    renew(&scripts, Mode::Exclusive).await;
    renew(&scripts, Mode::Read).await;
    let expected: [Said; 22] = [
        ("lock_acquire", 5, 23),
        ("lock_release", 6, 4),
        ("lock_acquire", 7, 19),
        ("lock_release", 6, 4),
        ("fair_acquire", 12, 23),
        ("fair_release", 10, 4),
        ("fair_acquire", 14, 19),
        ("fair_release", 10, 4),
        ("read_acquire", 11, 4),
        ("read_release", 9, 4),
        ("read_acquire", 11, 4),
        ("read_release", 9, 4),
        ("write_acquire", 10, 23),
        ("write_release", 6, 4),
        ("write_acquire", 12, 19),
        ("write_release", 6, 4),
        ("lock_acquire", 5, 23),
        ("lock_hand_on", 7, 19),
        ("read_acquire", 11, 19),
        ("read_hand_on", 12, 19),
        ("lock_renew", 202, 19),
        ("read_renew", 402, 19),
    ];
    let mut said = std::mem::take(&mut *host.said.lock());
    let grants_to_renew = 20..said.len();
    let mut at = 0..;
    said.retain(|(script, ..)| {
        let at = at.next();
        script.ends_with("_renew") || at.is_some_and(|at| !grants_to_renew.contains(&at))
    });
    assert_eq!(said, expected);
}

/// The first of two pairs sees the counter.
#[tokio::test(start_paused = true)]
async fn calls_of_pairs_without_scripts() {
    let store = EmbeddedStore::new(Clock::starting_at(START_MICROS));
    let host = Arc::new(Counting {
        to: store.connect().0,
        said: Mutex::default(),
    });
    let scripts = Scripts::new(Arc::clone(&host) as _, config());
    for grant in [1, 2] {
        let field = keys::grant_field(OWNER, grant).unwrap();
        let hold = Hold::new("native", Mode::Exclusive, &field).of_grant();
        let serial = acquire(&scripts, hold).await;
        let released = scripts.release_last(hold, Some(serial), LEASE).await;
        released.unwrap();
    }
    let [giver, next] = [3, 4].map(|grant| keys::grant_field(OWNER, grant).unwrap());
    let hold = Hold::new("native", Mode::Exclusive, &giver).of_grant();
    let serial = acquire(&scripts, hold).await;
    let outcome = scripts
        .hand_over(hold, Some(serial), (&next, LEASE), &Attempt::new("a", 1))
        .await;
    assert!(matches!(outcome.unwrap(), HandOver::Done(_)));
    let expected: [Said; 8] = [
        ("lock_acquire", 5, 23),
        ("remove_and_publish", 0, 0),
        ("create", 0, 0),
        ("add_and_look", 0, 0),
        ("remove_and_publish", 0, 0),
        ("create", 0, 0),
        ("add_and_look", 0, 0),
        ("grant_hand_on", 6, 19),
    ];
    assert_eq!(*host.said.lock(), expected);
}

/// Renews 100 grants, when it is not the time to look after their counters.
async fn renew(scripts: &Scripts, mode: Mode) {
    let names = (0..100).map(|name| format!("{mode:?}-{name}"));
    let names: Vec<_> = names.collect();
    for name in &names {
        acquire(scripts, Hold::new(name, mode, OWNER)).await;
    }
    tokio::time::advance(LEASE / 3).await;
    let renewals = names.iter().map(|name| Renewal {
        name: name.as_str().into(),
        mode,
        owner: OWNER.into(),
        lease: LEASE,
        noted: false,
    });
    let renewals: Vec<_> = renewals.collect();
    let renewed = scripts.extend(&renewals).await.complete().unwrap();
    assert!(renewed.iter().all(|lease| *lease == Ok(LEASE)));
}

async fn acquire(scripts: &Scripts, hold: Hold<'_>) -> u64 {
    let attempt = Attempt {
        known_holds: Some(0),
        ..Attempt::new("a", 1)
    };
    let acquired = scripts.acquire(hold, LEASE, &attempt, Refusal::Forgotten);
    match acquired.await.unwrap() {
        Acquired::Granted { serial, .. } => serial,
        other @ Acquired::Busy { .. } => panic!("{other:?}"),
    }
}

fn config() -> Config {
    Config {
        idle_token_retention: WEEK,
        request_retention: Duration::from_secs(60),
        fair_waiter_timeout: Duration::from_secs(5),
        writer_hold_back: Duration::from_secs(5),
        holders_per_lock_max: 10_000,
        permits_per_name_max: 10_000,
        adopts_counters: true,
        native_commands: true,
    }
}

/// What a reply takes in the protocol of Redis.
fn bytes(reply: &Value) -> usize {
    const LINE_END: usize = 2;
    let line = |text: &str| 1 + text.len() + LINE_END;
    match reply {
        Value::Nil => line("-1"),
        Value::Int(number) => line(&number.to_string()),
        Value::Bytes(text) => line(&text.len().to_string()) + text.len() + LINE_END,
        Value::Array(items) => {
            line(&items.len().to_string()) + items.iter().map(bytes).sum::<usize>()
        }
    }
}

// === impl Counting ===

#[async_trait]
impl ScriptHost for Counting {
    async fn eval(&self, call: Call) -> Result<Value, HostError> {
        let (script, words) = (call.script.name, call.keys.len() + call.args.len());
        let reply = self.to.eval(call).await?;
        self.said.lock().push((script, words, bytes(&reply)));
        Ok(reply)
    }

    fn runs_commands(&self) -> bool {
        true
    }

    /// What it says to Redis is counted there.
    fn run<'a>(
        &'a self,
        commands: &'a Commands<'a>,
        begun: Instant,
    ) -> BoxFuture<'a, Result<Numbers, HostError>> {
        self.said.lock().push((commands.name(), 0, 0));
        self.to.run(commands, begun)
    }

    async fn subscribe(&self, _: &str) -> Result<(), HostError> {
        Ok(())
    }

    fn unsubscribe(&self, _: &str) {}
}
