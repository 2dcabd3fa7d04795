//! Several locks at once.

use lockkeeper_api::pb::{self, LockMode, acquire_all_response::Event};
use tokio::time::Instant;
use tonic::Streaming;

use super::world::{LATE_MAX, World, holders};
use crate::{
    client::{Client, proto},
    steps::{millis, secs},
};

/// A streaming acquire of several locks.
struct Call(Streaming<pb::AcquireAllResponse>);

// === impl Call ===

impl Call {
    async fn start(client: &mut Client, names: &[&str], limit: u64) -> Self {
        let request = pb::AcquireAllRequest {
            locks: specs(names),
            owner: "x".to_owned(),
            lease: Some(proto(secs(60))),
            wait_timeout: Some(proto(secs(limit))),
            ..Default::default()
        };
        Self(client.api.acquire_all(request).await.unwrap().into_inner())
    }

    async fn next(&mut self) -> Event {
        let answer = self.0.message().await.unwrap();
        answer.expect("an answer").event.expect("an event")
    }

    /// Passes over news of the wait.
    async fn end(&mut self) -> Event {
        loop {
            match self.next().await {
                Event::Waiting(_) => {}
                end => return end,
            }
        }
    }
}

fn specs(names: &[&str]) -> Vec<pb::LockSpec> {
    let spec = |name: &&str| pb::LockSpec {
        name: (*name).to_owned(),
        mode: LockMode::Exclusive.into(),
    };
    names.iter().map(spec).collect()
}

async fn try_all(client: &mut Client, names: &[&str]) -> pb::TryAcquireAllResponse {
    let request = pb::TryAcquireAllRequest {
        locks: specs(names),
        owner: "x".to_owned(),
        ..Default::default()
    };
    let answer = client.api.try_acquire_all(request).await;
    answer.unwrap().into_inner()
}

pub(super) async fn mission_19_several_locks_are_held_only_if_all_are_within_one_limit(
    world: World,
) {
    // On a cluster they are on several masters.
    const NAMES: [&str; 5] = ["all-a", "all-b", "all-c", "all-d", "all-e"];
    let (mut near, mut far) = (world.client(0).await, world.client(1).await);
    near.try_acquire(NAMES[3], "y", secs(60)).await.unwrap();
    let refused = try_all(&mut far, &NAMES).await;
    assert!(!refused.acquired && refused.grants.is_empty());
    assert_eq!(refused.busy_name, NAMES[3]);
    expect_free(&mut near, &NAMES, &[3]).await;

    // The first is free soon, the second is not: the limit is over both.
    near.try_acquire(NAMES[0], "y", millis(1000)).await.unwrap();
    let begun = Instant::now();
    let mut call = Call::start(&mut far, &NAMES, 2).await;
    let Event::NotGranted(ended) = call.end().await else {
        panic!("expected not_granted");
    };
    assert_eq!(ended.reason(), pb::NotGrantedReason::WaitTimeout);
    let waited = begun.elapsed();
    assert!(
        waited >= secs(2) && waited < secs(2) + LATE_MAX,
        "{waited:?}"
    );
    expect_free(&mut near, &NAMES, &[3]).await;

    let mut call = Call::start(&mut far, &NAMES, 60).await;
    let Event::Waiting(waiting) = call.next().await else {
        panic!("expected waiting");
    };
    assert_eq!(waiting.name, NAMES[3]);
    near.release(NAMES[3], "y").await.unwrap();
    let Event::Granted(granted) = call.end().await else {
        panic!("expected granted");
    };
    let names: Vec<_> = granted.grants.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, NAMES);
    for grant in &granted.grants {
        assert_eq!(holders(&mut near, &grant.name).await, ["x"]);
    }
    let request = pb::ReleaseAllRequest {
        locks: specs(&NAMES),
        owner: "x".to_owned(),
        ..Default::default()
    };
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
        let is_held = !holders(client, name).await.is_empty();
        assert_eq!(is_held, held.contains(&number), "{name}");
    }
}
