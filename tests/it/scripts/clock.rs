//! What scripts make of the store's clock, which here stands still, or is stepped as no test can
//! step that of a real server.

use lockkeeper_store::{
    host::{
        Connected,
        embedded::{Clock, EmbeddedStore},
    },
    script::{Acquired, Attempt, CallError, Config, Hold, Mode, Refusal, Scripts},
};

use super::requests::renewal_of;
use crate::support::prelude::*;

const START_MICROS: i64 = 1_700_000_000_000_000;
const START_TOKEN: u64 = 1_700_000_000_000_000;

fn scripts(store: &EmbeddedStore) -> Scripts {
    let (client, _): Connected = store.connect();
    let config = Config {
        idle_token_retention: secs(1000),
        request_retention: secs(60),
        fair_waiter_timeout: secs(5),
        writer_hold_back: secs(5),
        holders_per_lock_max: 10_000,
        permits_per_name_max: 10_000,
        adopts_counters: true,
        native_commands: false,
    };
    Scripts::new(client, config)
}

fn hold(owner: &str) -> Hold<'_> {
    Hold::new("lock", Mode::Exclusive, owner)
}

/// The time to live of the fencing counter, in ms.
fn counter_lives_for(store: &EmbeddedStore) -> i64 {
    let left = store.command(&[b"PTTL", &keys::counter("lock").to_bytes()]);
    expect!(left, Ok(Value::Int(left)) => left)
}

async fn token(scripts: &Scripts, owner: &str, lease: Duration) -> u64 {
    token_of(scripts, owner, lease, None).await
}

async fn token_of(
    scripts: &Scripts,
    owner: &str,
    lease: Duration,
    request_id: Option<&str>,
) -> u64 {
    let attempt = Attempt {
        request_id,
        ..Attempt::new("a", 1)
    };
    let acquired = scripts.acquire(hold(owner), lease, &attempt, Refusal::Forgotten);
    expect!(acquired.await, Ok(Acquired::Granted { token, .. }) => token)
}

#[tokio::test(start_paused = true)]
async fn a_token_is_the_time_of_the_grant_and_grows_even_if_the_clock_is_put_back() {
    let store = EmbeddedStore::new(Clock::starting_at(START_MICROS));
    let scripts = scripts(&store);
    assert_eq!(token(&scripts, "x", secs(10)).await, START_TOKEN);
    tokio::time::advance(millis(10_001)).await;
    assert_eq!(
        token(&scripts, "y", secs(10)).await,
        START_TOKEN + 10_001_000
    );
    scripts
        .lower(hold("y"), u64::MAX, 0, secs(1))
        .await
        .unwrap();
    store.clock().step_back(secs(3600));
    assert_eq!(
        token(&scripts, "z", secs(10)).await,
        START_TOKEN + 10_001_001
    );
    scripts
        .lower(hold("z"), u64::MAX, 0, secs(1))
        .await
        .unwrap();
    assert_eq!(
        token(&scripts, "x", secs(10)).await,
        START_TOKEN + 10_001_002,
        "within one microsecond too"
    );
}

#[tokio::test(start_paused = true)]
async fn a_counter_outlives_its_grant_and_then_goes() {
    let store = EmbeddedStore::new(Clock::starting_at(START_MICROS));
    let scripts = scripts(&store);
    token(&scripts, "x", secs(10)).await;
    assert_eq!(store.key_count(), 2);
    tokio::time::advance(secs(11)).await;
    assert_eq!(store.key_count(), 1);
    tokio::time::advance(secs(990)).await;
    assert_eq!(store.key_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_counter_lives_as_long_as_its_grant_is_renewed() {
    let store = EmbeddedStore::new(Clock::starting_at(START_MICROS));
    let scripts = scripts(&store);
    let lease = secs(30);
    token(&scripts, "x", lease).await;
    let renewal = renewal_of(Hold::new("lock", Mode::Exclusive, "x"), lease);
    let mut shortest = i64::MAX;
    for _ in 0..500 {
        tokio::time::advance(lease / 3).await;
        let renewals = std::slice::from_ref(&renewal);
        let renewed = scripts.extend(renewals).await.complete().unwrap();
        assert_eq!(renewed, [Ok(lease)]);
        shortest = shortest.min(counter_lives_for(&store));
    }
    // It is looked after four times in its time to live, and gets all of it when half is over.
    assert!((240_000..=500_000).contains(&shortest), "{shortest} ms");
}

/// However often it is used: the time since the last use says nothing of how long ago its time to
/// live was set.
#[tokio::test(start_paused = true)]
async fn a_counter_in_use_keeps_nearly_all_of_its_time_to_live() {
    for every in [millis(700), secs(4), secs(9), secs(11)] {
        // The most frequent case has steps of its own; with a request id it is not taken.
        for has_record in [false, true] {
            let store = EmbeddedStore::new(Clock::starting_at(START_MICROS));
            let scripts = scripts(&store);
            let started = tokio::time::Instant::now();
            let mut least = i64::MAX;
            while started.elapsed() < secs(30) {
                let id = format!("{:?}", started.elapsed());
                let id = has_record.then_some(id.as_str());
                token_of(&scripts, "x", millis(100), id).await;
                least = least.min(counter_lives_for(&store));
                tokio::time::advance(every).await;
            }
            assert!(
                least >= 990_000,
                "every {every:?}, {has_record}: {least} ms"
            );
        }
    }
}

/// A key still exists in the millisecond in which its time to live is 0, and setting that again
/// would delete it.
#[tokio::test(start_paused = true)]
async fn a_hold_that_is_taken_back_in_the_last_millisecond_leaves_nothing_for_ever() {
    let store = EmbeddedStore::new(Clock::starting_at(START_MICROS));
    let scripts = scripts(&store);
    token(&scripts, "x", secs(10)).await;
    token(&scripts, "x", secs(10)).await;
    tokio::time::advance(secs(10)).await;
    assert_eq!(store.command(&[b"PTTL", b"lock"]), Ok(Value::Int(0)));
    assert!(
        scripts
            .lower(hold("x"), u64::MAX, 1, secs(1))
            .await
            .unwrap()
    );
    let holds = store.command(&[b"HGET", b"lock", b"x"]);
    assert_eq!(holds, Ok(Value::Bytes("1".into())));
    tokio::time::advance(millis(2)).await;
    assert_eq!(store.command(&[b"EXISTS", b"lock"]), Ok(Value::Int(0)));
}

/// The record of an answer ends in time, and with it the memory of the request. After a repeat it
/// is kept for as long as the first attempt may be undone.
#[tokio::test(start_paused = true)]
async fn a_request_is_remembered_for_its_retention_and_after_a_repeat_for_longer() {
    let store = EmbeddedStore::new(Clock::starting_at(START_MICROS));
    let scripts = scripts(&store);
    let attempt = Attempt {
        request_id: Some("r1"),
        ..Attempt::new("a1", 1)
    };
    let acquire = || scripts.acquire(hold("x"), secs(300), &attempt, Refusal::Forgotten);
    assert!(granted(&acquire().await, 1, false));
    tokio::time::advance(secs(61)).await;
    assert!(granted(&acquire().await, 2, false), "a new request");
    tokio::time::advance(secs(59)).await;
    assert!(granted(&acquire().await, 2, true));
    let undone = || scripts.undo(hold("x"), &attempt);
    tokio::time::advance(secs(61)).await;
    assert_eq!(undone().await, Ok(false));
    assert!(granted(&acquire().await, 2, true));
}

fn granted(outcome: &Result<Acquired, CallError>, holds: u32, again: bool) -> bool {
    matches!(
        outcome,
        Ok(Acquired::Granted { hold_count, repeated, .. })
            if *hold_count == holds && *repeated == again
    )
}
