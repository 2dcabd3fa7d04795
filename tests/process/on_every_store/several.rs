//! Several locks at once.

use super::world::{LATE_MAX, World};
use crate::prelude::*;
use crate::several::{AllCall, release_all, specs, try_all};

fn all(names: &[&str], limit: u64) -> pb::AcquireAllRequest {
    pb::AcquireAllRequest::default()
        .of_locks(specs(names))
        .by("x")
        .lasting(secs(60))
        .within(secs(limit))
}

pub(super) async fn mission_19_several_locks_are_held_only_if_all_are_within_one_limit(
    world: World,
) {
    // On a cluster they are on several masters.
    const NAMES: [&str; 5] = ["all-a", "all-b", "all-c", "all-d", "all-e"];
    let (mut near, mut far) = (world.client(0).await, world.client(1).await);
    near.try_acquire(NAMES[3], "y", secs(60)).await.unwrap();
    let refused = far.try_all(try_all(specs(&NAMES), "x")).await.unwrap();
    assert!(!refused.acquired && refused.grants.is_empty());
    assert_eq!(refused.busy_name, NAMES[3]);
    expect_free(&mut near, &NAMES, &[3]).await;

    // The first is free soon, the second is not: the limit is over both.
    near.try_acquire(NAMES[0], "y", millis(1000)).await.unwrap();
    let begun = Instant::now();
    let mut call = AllCall::start(&mut far, all(&NAMES, 2)).await;
    call.expect_timeout().await;
    let waited = begun.elapsed();
    assert!(
        waited >= secs(2) && waited < secs(2) + LATE_MAX,
        "{waited:?}"
    );
    expect_free(&mut near, &NAMES, &[3]).await;

    let mut call = AllCall::start(&mut far, all(&NAMES, 60)).await;
    assert_eq!(call.expect_waiting().await, NAMES[3]);
    near.release(NAMES[3], "y").await.unwrap();
    let grants = call.expect_granted().await;
    let names: Vec<_> = grants.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, NAMES);
    for grant in &grants {
        assert_eq!(near.holders(&grant.name).await, ["x"]);
    }
    let request = release_all(specs(&NAMES), "x");
    let given = near.api.release_all(request).await.unwrap().into_inner();
    assert!(
        given
            .locks
            .iter()
            .all(|lock| lock.held && lock.hold_count == 0)
    );
    expect_free(&mut far, &NAMES, &[]).await;
}

/// What was taken on the way was given back, all but these.
async fn expect_free(client: &mut Client, names: &[&str], held: &[usize]) {
    for (number, name) in names.iter().enumerate() {
        let is_held = !client.holders(name).await.is_empty();
        assert_eq!(is_held, held.contains(&number), "{name}");
    }
}
