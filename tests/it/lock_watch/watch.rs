//! Watching one lock.

use lockkeeper_api::pb::{GrantEnd, LockGapReason, watch_lock_response::Event};
use tonic::Streaming;

use crate::admin::{admin, force};
use crate::support::prelude::*;

/// The longest time until a look without a message, and a little more.
const POLL: Duration = Duration::from_millis(1300);

struct Watch(Streaming<pb::WatchLockResponse>);

// === impl Watch ===

impl Watch {
    async fn begin(client: &mut Client, name: &str) -> Self {
        let name = name.to_owned();
        let request = pb::WatchLockRequest::named(name);
        Self(client.api.watch_lock(request).await.unwrap().into_inner())
    }

    async fn next(&mut self) -> Result<Event, Status> {
        let answer = self.0.message().await?;
        Ok(answer.and_then(|it| it.event).expect("an event"))
    }

    /// An event in a few words.
    async fn told(&mut self) -> String {
        let owner = |holder: Option<pb::Holder>| holder.unwrap().owner;
        match self.next().await.unwrap() {
            Event::State(it) => {
                let owners: Vec<_> = it.holders.into_iter().map(|it| it.owner).collect();
                format!("state {owners:?} waiters {}", it.waiter_count)
            }
            Event::Granted(it) => format!("granted {}", owner(it.holder)),
            Event::Ended(it) => {
                let (end, detail) = (it.end(), it.detail.clone());
                format!(
                    "ended {} {}{detail}",
                    owner(it.holder),
                    GrantEnd::as_str_name(&end)
                )
            }
            Event::Free(_) => "free".to_owned(),
            Event::Waiters(it) => format!("waiters {}", it.waiter_count),
            Event::Gap(it) => format!("gap {}", LockGapReason::as_str_name(&it.reason())),
        }
    }

    async fn expect(&mut self, expected: &[&str]) {
        for expected in expected {
            assert_eq!(self.told().await, *expected);
        }
    }

    async fn expect_nothing(&mut self, within: Duration) {
        if let Ok(event) = tokio::time::timeout(within, self.told()).await {
            panic!("{event}");
        }
    }
}

/// Watches of a lock that nobody holds, on the first two coordinators.
async fn watches(world: &World, name: &str) -> [Watch; 2] {
    let mut watches = [
        Watch::begin(&mut world.client(0).await, name).await,
        Watch::begin(&mut world.client(1).await, name).await,
    ];
    for watch in &mut watches {
        watch.expect(&["state [] waiters 0"]).await;
    }
    world.until_listening(&keys::channel(name), 2).await;
    watches
}

#[tokio::test(start_paused = true)]
async fn every_coordinator_shows_the_life_of_a_lock() {
    let world = World::of(2);
    let [mut here, mut there] = watches(&world, "a").await;
    let note = pb::Note {
        reason: "release".to_owned(),
        ..pb::Note::default()
    };
    let open = pb::OpenSession::default().called("ci");
    let mut session = world.client(0).await.open_with(open).await.unwrap();
    let begun = Instant::now();
    let acquire = acquire_request("a", "x").noted(note.clone());
    let op_id = session.send(Request::Acquire(acquire));
    let grant = session.expect_granted(op_id).await;
    for (watch, within, client) in [(&mut here, millis(50), "ci"), (&mut there, POLL, "")] {
        let granted = expect!(watch.next().await.unwrap(), Event::Granted);
        assert!(begun.elapsed() < within);
        let holder = granted.holder.unwrap();
        assert_eq!(granted.fencing_token, grant.fencing_token);
        assert_eq!(
            (holder.owner.as_str(), holder.client_name.as_str()),
            ("x", client)
        );
        assert_eq!(holder.note, Some(note.clone()));
    }
    let next = session.send_acquire("a", "y");
    here.expect(&["waiters 1"]).await;
    let begun = Instant::now();
    session.send_release("a", "x");
    session.expect_granted(next).await;
    here.expect(&["ended x GRANT_END_RELEASED", "granted y", "waiters 0"])
        .await;
    assert!(begun.elapsed() < millis(50));
    assert!(there.told().await.starts_with("ended x"));
    there.expect(&["granted y"]).await;
    let begun = Instant::now();
    session.send_release("a", "y");
    for watch in [&mut here, &mut there] {
        watch.expect(&["ended y GRANT_END_RELEASED", "free"]).await;
        assert!(begun.elapsed() < millis(50), "by the message");
    }
    session.close().await.unwrap();
    drop((here, there));
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn how_a_grant_ended_is_told_as_far_as_it_is_known() {
    let world = World::of(2);
    let [mut here, mut there] = watches(&world, "a").await;
    let mut client = world.client(0).await;
    client.try_acquire("a", "x", secs(5)).await.unwrap();
    for watch in [&mut here, &mut there] {
        watch
            .expect(&["granted x", "ended x GRANT_END_EXPIRED", "free"])
            .await;
    }
    client.try_acquire("a", "x", secs(60)).await.unwrap();
    there.expect(&["granted x"]).await;
    force(&mut admin(&client), "a", "maintenance")
        .await
        .unwrap();
    there
        .expect(&["ended x GRANT_END_FORCE_RELEASEDmaintenance", "free"])
        .await;
    // As another program, which says nothing.
    client.try_acquire("a", "x", secs(60)).await.unwrap();
    there.expect(&["granted x"]).await;
    world.redis(&["DEL", "a"]);
    there
        .expect(&["ended x GRANT_END_UNANNOUNCED", "free"])
        .await;
    let redisson = "6fa459ea-ee8a-3ca4-894e-db77e160355e:7";
    world.redis(&["HSET", "a", redisson, "1"]);
    there.expect(&["granted 7"]).await;
    world.redis(&["DEL", "a"]);
    world.redis(&["PUBLISH", &keys::channel("a"), "0"]);
    there.expect(&["ended 7 GRANT_END_RELEASED", "free"]).await;
}

#[tokio::test(start_paused = true)]
async fn readers_come_and_go_one_by_one() {
    let world = World::of(2);
    let [_, mut there] = watches(&world, "a").await;
    let mut client = world.client(0).await;
    let read = |owner| {
        try_request("a", owner)
            .lasting(secs(60))
            .in_mode(LockMode::Read)
    };
    for owner in ["x", "y"] {
        client.api.try_acquire(read(owner)).await.unwrap();
        there.expect(&[&format!("granted {owner}")]).await;
    }
    for (owner, ends) in [("x", "UNANNOUNCED"), ("y", "RELEASED")] {
        let release = pb::ReleaseRequest::named("a")
            .by(owner)
            .in_mode(LockMode::Read);
        client.api.release(release).await.unwrap();
        there
            .expect(&[&format!("ended {owner} GRANT_END_{ends}")])
            .await;
    }
    there.expect(&["free"]).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_not_seen_is_told() {
    let world = World::of(2);
    let [_, mut there] = watches(&world, "a").await;
    let mut client = world.client(0).await;
    for owner in ["x", "y"] {
        client.try_acquire("a", owner, secs(60)).await.unwrap();
        client.release("a", owner).await.unwrap();
    }
    there.expect(&["gap LOCK_GAP_REASON_FOLDED"]).await;
    there.expect_nothing(secs(5)).await;

    let (faults, world, mut client) = World::faulty_with_client().await;
    client.try_acquire("a", "x", secs(60)).await.unwrap();
    let mut watch = Watch::begin(&mut client, "a").await;
    watch.expect(&[r#"state ["x"] waiters 0"#]).await;
    faults.set_unavailable(true);
    watch.expect_nothing(secs(5)).await;
    world.redis(&["DEL", "a"]);
    faults.set_unavailable(false);
    let told = [watch.told().await, watch.told().await];
    assert_eq!(told[0], "gap LOCK_GAP_REASON_STORE_UNREACHABLE");
    assert!(told[1].starts_with("ended x"), "{told:?}");
    faults.set_unavailable(true);
    let mut refused = Watch::begin(&mut client, "b").await;
    expect_refused(refused.next().await, Code::Unavailable, "STORE_UNAVAILABLE");
}

#[tokio::test(start_paused = true)]
async fn watchers_of_a_lock_share_its_looks_and_other_kinds_are_refused() {
    let (faults, _world, mut client) = World::faulty_with_client().await;
    let mut watches = Vec::new();
    for _ in 0..50 {
        let mut watch = Watch::begin(&mut client, "a").await;
        watch.expect(&["state [] waiters 0"]).await;
        watches.push(watch);
    }
    let before = faults.calls("lock_inspect");
    tokio::time::sleep(secs(20)).await;
    let looks = faults.calls("lock_inspect") - before;
    assert!((15..=27).contains(&looks), "{looks}");
    Semaphore::new(&client, "s").set(3).await;
    let refused = Watch::begin(&mut client, "s").await.next().await;
    expect_refused(refused, Code::FailedPrecondition, "WRONG_KIND");
}
