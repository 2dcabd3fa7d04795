//! How to wait, how not to, and the names that one can wait for.

use lockkeeper_api::pb::{
    await_free_response::Event as Awaited, watch_lock_response::Event as Watched,
};
use lockkeeper_store::script::keys;

use super::world::{LATE_MAX, LEASE, World};
use crate::prelude::*;
use crate::{
    modes::wait,
    steps::{sessionless_wait, until_settled},
};

/// Scripts of one wait of 4 s at most: a try, another when it is subscribed, and the poll that
/// falls into it; twice that, for what is taken back.
const SCRIPTS_MAX: usize = 6;

pub(super) async fn mission_9_four_ways_to_take_it(world: World) {
    const NAMES: [&str; 5] = ["way-1", "way-2", "way-3", "way-4", "way-5"];
    let mut client = world.client(0).await;
    let mut session = client.open().await;
    let request = |name: &str, lease: Option<u64>, limit: Option<u64>| {
        Request::Acquire(pb::AcquireRequest {
            lease: lease.map(|it| proto(secs(it))),
            wait_timeout: limit.map(|it| proto(secs(it))),
            ..acquire_request(name, "")
        })
    };
    let mut other = world.client(1).await;
    for (number, (lease, limit)) in [
        (None, None),
        (Some(40), None),
        (None, Some(10)),
        (Some(40), Some(10)),
    ]
    .into_iter()
    .enumerate()
    {
        let name = NAMES[number];
        other.try_acquire(name, "x", secs(60)).await.unwrap();
        let op_id = session.send(request(name, lease, limit));
        until_waiting(&client, name, 1).await;
        other.release(name, "x").await.unwrap();
        let grant = session.expect_granted(op_id).await;
        assert_eq!(grant.watched, lease.is_none(), "{name}");
        assert_eq!(std_duration(grant.lease), secs(lease.unwrap_or(30)));
    }
    assert!(
        session
            .try_acquire(try_request(NAMES[4], ""))
            .await
            .acquired
    );
    let again = client.api.try_acquire(try_request(NAMES[4], "y")).await;
    assert!(!again.unwrap().into_inner().acquired, "once, and no more");
    session.close().await.unwrap();
}

pub(super) async fn mission_10_a_wait_sleeps_until_the_message_the_lease_or_its_limit(
    world: World,
) {
    const NAME: &str = "waited-for";
    let store = world.store();
    let channel = keys::channel(NAME);
    let (mut near, mut far) = (world.client(0).await, world.client(1).await);
    near.try_acquire(NAME, "x", secs(60)).await.unwrap();

    let watch = store.watch(NAME).await;
    let begun = Instant::now();
    let limited = wait(NAME, "limited", LockMode::Exclusive).within(secs(4));
    far.acquire(limited).await.unwrap().expect_timeout().await;
    let waited = begun.elapsed();
    assert!(
        waited >= secs(4) && waited < secs(4) + LATE_MAX,
        "{waited:?}"
    );
    for scripts in watch.scripts_with(NAME).await {
        let count = scripts.len();
        assert!((2..=SCRIPTS_MAX).contains(&count), "{scripts:#?}");
    }
    drop(watch);
    store.until_listened_to(NAME, &channel, false).await;

    let mut waiting = far.waits(sessionless_wait(NAME, "w", secs(1))).await;
    store.until_listened_to(NAME, &channel, true).await;
    let woken = timed(async move { waiting.expect_granted().await });
    until_settled().await;
    let released = Instant::now();
    near.release(NAME, "x").await.unwrap();
    let (granted_at, _) = woken.await.unwrap();
    assert!(
        granted_at - released < LATE_MAX,
        "{:?}",
        granted_at - released
    );

    // Nobody releases this one: its lease ends.
    let mut heir = near
        .acquire(sessionless_wait(NAME, "z", secs(60)))
        .await
        .unwrap();
    heir.expect_granted().await;
    let waited = granted_at.elapsed();
    assert!(waited < secs(1) + LATE_MAX, "{waited:?}");
    near.release(NAME, "z").await.unwrap();
    store.until_listened_to(NAME, &channel, false).await;
}

pub(super) async fn mission_11_names_with_braces_keep_lock_and_channel_in_one_slot(world: World) {
    const NAMES: [&str; 6] = [
        "slot",
        "a:{slot}",
        "{slot}{b}",
        "{s{lot}}",
        "x{slot}y",
        "s lot",
    ];
    let (mut near, mut far) = (world.client(0).await, world.client(1).await);
    for name in NAMES {
        let watch = world.store().watch(name).await;
        assert!(near.gets(name, "x", LockMode::Exclusive).await, "{name}");
        let mut waiting = far.waits(sessionless_wait(name, "w", secs(60))).await;
        let channel = keys::channel(name);
        world.store().until_listened_to(name, &channel, true).await;
        near.release(name, "x").await.unwrap();
        let granted = waiting.expect_granted().await;
        let counter = keys::counter(name).to_string();
        let token = granted.fencing_token.to_string();
        world
            .store()
            .until(name, &["GET", &counter], |it| it == token)
            .await;
        far.release(name, "w").await.unwrap();
        // What a cluster would refuse: keys of one script in several slots.
        for scripts in watch.scripts_with(name).await {
            assert!(scripts.len() > 3, "{scripts:?}");
            for key in scripts.concat() {
                assert_eq!(hash_tag(&key), hash_tag(name), "{key}");
            }
        }
    }
}

/// What Redis hashes: the first non-empty `{...}`, else all.
fn hash_tag(key: &str) -> &str {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'));
    match tag {
        Some((tag, _)) if !tag.is_empty() => tag,
        _ => key,
    }
}

/// Polls are too rare to bring the answers in time.
pub(super) async fn a_release_is_heard_by_who_waits_for_a_free_lock_and_by_who_watches_it(
    world: World,
) {
    let name = "waiting:free";
    let (mut holder, mut other) = (world.client(0).await, world.client(1).await);
    let held = holder.try_acquire(name, "x", LEASE * 20).await.unwrap();
    let token = held.grant.unwrap().fencing_token;
    let request = pb::WatchLockRequest::named(name);
    let events = other.api.watch_lock(request).await.unwrap();
    let mut events = events.into_inner();
    let mut next = async || events.message().await.unwrap().unwrap().event.unwrap();
    let Watched::State(state) = next().await else {
        panic!("it begins with the state");
    };
    assert_eq!(state.holders[0].owner, "x");
    let request = pb::AwaitFreeRequest::named(name);
    let answers = other.api.await_free(request).await.unwrap();
    let mut answers = answers.into_inner();
    let first = answers.message().await.unwrap().unwrap().event;
    assert!(matches!(first, Some(Awaited::Waiting(_))), "{first:?}");
    // Its subscription is confirmed meanwhile, or the release is seen by the look after that.
    let released_at = Instant::now();
    holder.release(name, "x").await.unwrap();
    let free = loop {
        match answers.message().await.unwrap().unwrap().event {
            Some(Awaited::Waiting(_)) => {}
            last => break last,
        }
    };
    assert!(matches!(free, Some(Awaited::Free(_))), "{free:?}");
    let Watched::Ended(ended) = next().await else {
        panic!("it was released");
    };
    assert_eq!(ended.fencing_token, token);
    assert!(matches!(next().await, Watched::Free(_)));
    assert!(
        released_at.elapsed() < LATE_MAX,
        "{:?}",
        released_at.elapsed()
    );
}
