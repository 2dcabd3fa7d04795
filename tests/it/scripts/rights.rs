//! What becomes of a call whose commands the store's user may not all run: each right is taken away
//! in turn.

use lockkeeper_store::script::{Attempt, CallError, Hold, Member, Mode, Refusal, Scripts};

use super::requests::{attempt_all, members, permit_attempt, permit_renewal, renewal_of};
use super::story::config;
use crate::support::prelude::*;
use crate::{
    redis_server::RedisServer,
    support::hosts::{Store, connect_to},
};

const DOCUMENT: &str = include_str!("../../../docs/configuration/store.md");

/// Only these are without a time to live, as Redisson has them.
const ENDLESS: [&str; 3] = ["pool", "door", "{pool}:timeout"];

/// Only needed for lists of locks, or for keys that another program has changed.
const RARE: [&str; 3] = ["scan", "persist", "lpop"];

const MODES: [Mode; 4] = [Mode::Exclusive, Mode::Fair, Mode::Read, Mode::Write];

/// The commands that the documentation says scripts need.
fn documented() -> Vec<&'static str> {
    let from = DOCUMENT.find("+scan +del").expect("it lists them");
    let list = DOCUMENT[from..].split("```").next().unwrap_or_default();
    let words = list.split_whitespace();
    let words: Vec<_> = words.filter_map(|word| word.strip_prefix('+')).collect();
    assert!(words.len() > 30, "{words:?}");
    words
}

#[tokio::test]
async fn without_any_one_right_nothing_is_left_without_a_time_to_live() {
    let redis = RedisServer::start().await;
    let url = redis.url().replace("redis://", "redis://u:p@");
    let store = Store::on(redis).await;
    let grant = |rights: String| {
        let store = &store;
        async move {
            let words = format!("ACL SETUSER u reset on >p ~* &* +@all {rights}");
            let words: Vec<_> = words.split_whitespace().collect();
            store.command(&words).await;
        }
    };
    grant(String::new()).await;
    let (client, _wakes) = connect_to(url);
    let scripts = Scripts::new(Arc::clone(&client), config());
    assert_eq!(use_all(&scripts).await, Vec::<CallError>::new());
    let mut unused = Vec::new();
    for command in documented() {
        store.flush().await;
        grant(format!("-{command}")).await;
        let errors = use_all(&scripts).await;
        for error in &errors {
            assert!(
                matches!(error, CallError::Refused(_) | CallError::WrongKind),
                "{command}: {error:?}"
            );
        }
        if errors.is_empty() {
            unused.push(command);
        }
        let endless = endless(&store).await;
        assert!(endless.is_empty(), "without {command}: {endless:?}");
    }
    assert_eq!(unused, RARE);
}

/// The keys without a time to live that should have one.
async fn endless(store: &Store) -> Vec<String> {
    let keys = expect!(store.command(&["KEYS", "*"]).await, Value::Array);
    let mut endless = Vec::new();
    for key in keys {
        let key = expect!(key, Value::Bytes);
        let key = String::from_utf8_lossy(&key).into_owned();
        if store.command(&["PTTL", &key]).await == Value::Int(-1) {
            endless.push(key);
        }
    }
    endless.retain(|key| !ENDLESS.contains(&key.as_str()));
    endless
}

/// Uses every script, and returns what failed.
async fn use_all(scripts: &Scripts) -> Vec<CallError> {
    let mut errors = Vec::new();
    for mode in MODES {
        locks(scripts, mode, &mut errors).await;
    }
    several(scripts, &mut errors).await;
    permits(scripts, &mut errors).await;
    errors.extend(scripts.end_session("x", "d", secs(60)).await.err());
    errors.extend(scripts.has_session_ended("x", "d").await.err());
    let shared = scripts.share_waits(("x", "d"), secs(60), Some("{}"));
    errors.extend(shared.await.err());
    errors.extend(scripts.shared_waits(("x", "d")).await.err());
    let announced = scripts.announce("x", "d", secs(60), Some("{}"));
    errors.extend(announced.await.err());
    errors
}

async fn locks(scripts: &Scripts, mode: Mode, errors: &mut Vec<CallError>) {
    let name = format!("{mode:?}");
    let hold = |owner| Hold::new(&name, mode, owner);
    let attempt = |request_id, attempt| Attempt {
        request_id,
        ..Attempt::new(attempt, 7)
    };
    for round in ["1", "2"] {
        let (by_request, plain) = (attempt(Some(round), round), attempt(None, "a"));
        for attempt in [by_request, plain] {
            let taken = scripts.acquire(hold("x"), secs(60), &attempt, Refusal::Waits);
            errors.extend(taken.await.err());
        }
        for refused in [Refusal::Waits, Refusal::Recorded] {
            let other = Mode::Write;
            let other = Hold::new(&name, if mode == Mode::Read { other } else { mode }, "y");
            let record = attempt((refused == Refusal::Recorded).then_some("r"), "r");
            let busy = scripts.acquire(other, secs(60), &record, refused);
            errors.extend(busy.await.err());
        }
        if mode == Mode::Fair {
            errors.extend(scripts.fair_keepalive(&name, &["y", "z"]).await.err());
        }
        let renewal = renewal_of(Hold::new(name.as_str(), mode, "x"), secs(60));
        errors.extend(scripts.renew(&[renewal]).await.error);
        errors.extend(scripts.inspect(&name, 10).await.err());
        if mode == Mode::Fair {
            proclaim(scripts, &name, round, errors).await;
        }
        let release = scripts.release(hold("x"), None, secs(60), Some("g"));
        errors.extend(release.await.err());
        errors.extend(scripts.undo(hold("x"), &attempt(None, "a")).await.err());
        if mode == Mode::Fair {
            errors.extend(scripts.fair_first(&name, "y").await.err());
        }
        errors.extend(scripts.leave(hold("y")).await.err());
    }
    let same = attempt(None, "a");
    let again = scripts.acquire(hold("x"), secs(60), &same, Refusal::Waits);
    errors.extend(again.await.err());
    let next = scripts.hand_over(hold("x"), None, ("y", secs(60)), &same);
    errors.extend(next.await.err());
    errors.extend(
        scripts
            .force_release(&name, "why", secs(20), None, 10)
            .await
            .err(),
    );
    errors.extend(scripts.forced(&name).await.err());
    tell(scripts, &name, errors).await;
}

async fn tell(scripts: &Scripts, name: &str, errors: &mut Vec<CallError>) {
    let message = lockkeeper_store::script::ToHolders {
        id: "i".to_owned(),
        by: String::new(),
        token: 1,
        within: secs(20),
        preempts: true,
        handed_over: false,
        name: name.to_owned(),
        reason: "why".to_owned(),
        holders: vec!["x".to_owned()],
    };
    let channel = lockkeeper_store::script::keys::holders_channel("");
    errors.extend(scripts.tell_holders(&channel, &message).await.err());
    let reached = scripts.holders_reached(name, "i", &["x"], secs(20));
    errors.extend(reached.await.err());
}

async fn proclaim(scripts: &Scripts, name: &str, value: &str, errors: &mut Vec<CallError>) {
    if let Ok(seen) = scripts.inspect(name, 1).await {
        let proclaimed = scripts.proclaim(name, "x", seen.token, "app", value);
        errors.extend(proclaimed.await.err());
    }
    let after = Some(u64::MAX >> 11);
    errors.extend(scripts.inspect_election(name, after).await.err());
}

async fn several(scripts: &Scripts, errors: &mut Vec<CallError>) {
    let locks = [
        ("{n}1", Mode::Exclusive),
        ("{n}2", Mode::Read),
        ("{n}3", Mode::Write),
    ];
    let locks = locks.map(|(name, mode)| Member {
        name,
        mode,
        known_holds: Some(0),
        serial: None,
    });
    let members = members("x", &locks);
    let attempt = attempt_all("a");
    let taken = scripts.acquire_all(members, secs(60), attempt, Refusal::Waits);
    errors.extend(taken.await.err());
    errors.extend(scripts.undo_all(members, attempt, |_| true).await.err());
    let taken = scripts.acquire_all(members, secs(60), attempt, Refusal::Waits);
    errors.extend(taken.await.err());
    let leases = [secs(60); 3];
    let released = scripts.release_all(members, &leases, Some("g"));
    errors.extend(released.await.err());
}

async fn permits(scripts: &Scripts, errors: &mut Vec<CallError>) {
    errors.extend(scripts.set_permits("pool", 5, false).await.err());
    let ids = [[1; 16], [2; 16]];
    let attempt = |request_id, ids| permit_attempt(ids, request_id, "a");
    let taken = scripts.acquire_permits("pool", "x", secs(60), attempt(Some("r"), &ids[..1]), true);
    errors.extend(taken.await.err());
    let taken = scripts.acquire_permits("pool", "x", secs(60), attempt(None, &ids[1..]), true);
    errors.extend(taken.await.err());
    let renewal = permit_renewal("pool", "x", secs(60), ids);
    errors.extend(scripts.renew_permits(&[renewal]).await.error);
    errors.extend(scripts.inspect_semaphore("pool", 10).await.err());
    let undone = scripts.undo_permits("pool", attempt(Some("r"), &ids[..1]));
    errors.extend(undone.await.err());
    let released = scripts.release_permits("pool", "x", &ids[1..], Some("g"));
    errors.extend(released.await.err());
    let released = scripts.release_permits("pool", "x", &[], None);
    errors.extend(released.await.err());
    errors.extend(scripts.set_count("door", 2, None, Some("s")).await.err());
    errors.extend(scripts.count_down("door", 1, Some("c")).await.err());
    errors.extend(scripts.inspect_latch("door").await.err());
    errors.extend(scripts.delete_latch("door").await.err());
    errors.extend(scripts.takes_writes("").await.err());
}
