//! The reentrant lock as it stands in the store: holds, leases, messages.

use lockkeeper_store::script::keys;

use super::world::World;
use crate::prelude::*;

/// The answer to PTTL, if there is a time to live.
fn left(answer: &str) -> u64 {
    answer.parse().unwrap_or(0)
}

pub(super) async fn mission_6_one_hash_per_lock_with_a_field_for_its_owner(world: World) {
    const NAME: &str = "hash";
    let store = world.store();
    let (mut near, mut far) = (world.client(0).await, world.client(1).await);
    let mut session = near.open().await;
    let op_id = session.send_acquire(NAME, "worker");
    let grant = session.expect_granted(op_id).await;
    let field = format!("{}:worker", session.id());
    assert_eq!((grant.owner.as_str(), grant.hold_count), ("worker", 1));
    store.until(NAME, &["TYPE", NAME], |it| it == "hash").await;
    store.until(NAME, &["HLEN", NAME], |it| it == "1").await;
    let count = ["HGET", NAME, &field];
    store.until(NAME, &count, |it| it == "1").await;
    let whole = 25_000..=30_000;
    store
        .until(NAME, &["PTTL", NAME], |it| whole.contains(&left(it)))
        .await;

    assert_eq!(session.acquire_as(NAME, "worker").await.hold_count, 2);
    store.until(NAME, &count, |it| it == "2").await;
    let refused = far.try_acquire(NAME, "y", secs(1)).await.unwrap();
    assert!(!refused.acquired && refused.grant.is_none());
    let remaining = std_duration(refused.holder_remaining_lease);
    assert!(
        remaining > secs(15) && remaining <= secs(30),
        "{remaining:?}"
    );
    session.close().await.unwrap();
    store.until(NAME, &["EXISTS", NAME], |it| it == "0").await;
}

pub(super) async fn mission_7_holds_are_counted_and_the_last_release_frees_and_says_so(
    world: World,
) {
    const NAME: &str = "counted";
    let store = world.store();
    let mut client = world.client(0).await;
    let mut session = client.open().await;
    let watch = store.watch(NAME).await;
    let first = session.acquire(NAME).await;
    let second = session.acquire(NAME).await;
    assert_eq!((first.hold_count, second.hold_count), (1, 2));
    assert_eq!(first.fencing_token, second.fencing_token, "kept");
    tokio::time::sleep(secs(4)).await;
    let between = session.release(NAME).await;
    assert_eq!((between.released, between.hold_count), (false, 1));
    // No renewal comes before 10 s are over.
    store
        .until(NAME, &["PTTL", NAME], |it| left(it) > 27_000)
        .await;
    let seen = std_duration(client.describe(NAME).await.remaining_lease);
    assert!(seen > secs(27), "a fresh time to live: {seen:?}");
    let last = session.release(NAME).await;
    assert_eq!((last.released, last.hold_count), (true, 0));
    store.until(NAME, &["EXISTS", NAME], |it| it == "0").await;
    for messages in watch.published_to(&keys::channel(NAME)).await {
        assert_eq!(messages, ["0"], "the last release alone says so");
    }
    let again = session.acquire(NAME).await;
    assert!(again.fencing_token > first.fencing_token);
    let op_id = session.send(Request::Release(pb::ReleaseRequest::named(NAME)));
    assert!(matches!(session.answer(op_id).await, Response::Released(_)));
}
