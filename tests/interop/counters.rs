//! Semaphores and latches that Redisson clients and ours use together: `RPermitExpirableSemaphore` and `RCountDownLatch`.

use std::time::Duration;

use lockkeeper::grpc::pb::{self, session_request::Request, session_response::Response};
use tokio::time::Instant;

use crate::{
    agent::Version,
    client::{Session, proto},
    redis_server::eventually,
    redisson::{JavaThread, millis_text},
    world::{PROMPT, World, measured, millis, secs, timed},
};

const POOL: &str = "pool";

/// Short enough to wait for its end, long enough to do something meanwhile.
const SHORT: Duration = millis(1500);

/// The end of a lease is noticed by who waits for it, on a busy machine within this.
const HAND_OVER_MAX: Duration = secs(3);

fn acquire(permits: u32, lease: Option<Duration>) -> Request {
    Request::AcquirePermits(pb::AcquirePermitsRequest {
        name: POOL.to_owned(),
        permits,
        lease: lease.map(proto),
        ..Default::default()
    })
}

async fn granted(session: &mut Session, op_id: u64) -> pb::PermitGrant {
    loop {
        match session.answer(op_id).await {
            Response::WaitingForPermits(_) => {}
            Response::PermitsGranted(grant) => return grant,
            other => panic!("expected permits, got {other:?}"),
        }
    }
}

/// Asks for permits and is told to wait.
async fn wait(session: &mut Session, permits: u32) -> u64 {
    let op_id = session.send(acquire(permits, None));
    match session.answer(op_id).await {
        Response::WaitingForPermits(_) => op_id,
        other => panic!("expected waiting, got {other:?}"),
    }
}

async fn set(session: &mut Session, permits: u32) -> pb::SetPermitsResponse {
    let op_id = session.send(Request::SetPermits(pb::SetPermitsRequest {
        name: POOL.to_owned(),
        permits,
        only_if_absent: false,
    }));
    match session.answer(op_id).await {
        Response::PermitsSet(set) => set,
        other => panic!("expected permits_set, got {other:?}"),
    }
}

async fn release(session: &mut Session, permit_ids: &[String]) -> pb::ReleasePermitsResponse {
    let op_id = session.send(Request::ReleasePermits(pb::ReleasePermitsRequest {
        name: POOL.to_owned(),
        permit_ids: permit_ids.to_vec(),
        ..Default::default()
    }));
    match session.answer(op_id).await {
        Response::PermitsReleased(released) => released,
        other => panic!("expected permits_released, got {other:?}"),
    }
}

async fn describe(session: &mut Session) -> pb::DescribeSemaphoreResponse {
    let op_id = session.send(Request::DescribeSemaphore(pb::DescribeSemaphoreRequest {
        name: POOL.to_owned(),
    }));
    match session.answer(op_id).await {
        Response::SemaphoreDescribed(seen) => seen,
        other => panic!("expected semaphore_described, got {other:?}"),
    }
}

async fn java_takes(java: &JavaThread, permits: &str, lease: Duration) -> String {
    let words = ["semaphore-try", POOL, permits, "0", &millis_text(lease)];
    java.tell(&words).value().await
}

#[tokio::test]
async fn permits_of_either_side_count_for_the_other() {
    let world = World::without_polls(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut ours = world.coordinators[0].client().await.open().await;
    let made = java.tell(&["semaphore-set", POOL, "4"]).yes();
    assert!(made.await);
    assert_eq!(set(&mut ours, 5).await.available, 5);
    assert!(!java.tell(&["semaphore-set", POOL, "9"]).yes().await);

    let theirs = java_takes(&java, "2", secs(60)).await;
    assert_eq!(theirs.split(',').count(), 2);
    let op_id = ours.send(acquire(2, None));
    let grant = granted(&mut ours, op_id).await;
    let available = ["semaphore-available", POOL];
    assert_eq!(java.tell(&available).value().await, "1");
    let seen = describe(&mut ours).await;
    assert_eq!((seen.total, seen.available), (5, 1));
    let held = |owner: &str| {
        let of = seen.holders.iter().find(|holder| holder.owner == owner);
        of.map(|holder| holder.permits)
    };
    assert_eq!((held("0"), held("")), (Some(2), Some(2)));

    // We wait for Java's.
    let op_id = wait(&mut ours, 2).await;
    java.tell(&["semaphore-release", POOL, &theirs])
        .value()
        .await;
    let released_at = Instant::now();
    let more = granted(&mut ours, op_id).await;
    measured("Java's release to our permits", released_at.elapsed());
    assert!(released_at.elapsed() < PROMPT);

    // Java waits for ours.
    let waiting = timed(
        java.tell(&["semaphore-acquire", POOL, "3", "60000"])
            .value(),
    );
    world.until_listening("redisson_sc:*", 1).await;
    assert!(!waiting.is_finished());
    let released_at = Instant::now();
    let ids = [grant.permit_ids, more.permit_ids].concat();
    assert_eq!(release(&mut ours, &ids).await.available, 5);
    let (taken_at, theirs) = waiting.await.unwrap();
    measured("our release to Java's permits", taken_at - released_at);
    assert!(taken_at - released_at < PROMPT);
    assert_eq!(describe(&mut ours).await.available, 2);
    java.tell(&["semaphore-release", POOL, &theirs])
        .value()
        .await;
    assert_eq!(describe(&mut ours).await.available, 5);
}

#[tokio::test]
async fn leases_of_permits_end_on_either_side() {
    let world = World::without_polls(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut ours = world.coordinators[0].client().await.open().await;
    set(&mut ours, 1).await;

    let begun = Instant::now();
    let theirs = java_takes(&java, "1", SHORT).await;
    let op_id = wait(&mut ours, 1).await;
    let grant = granted(&mut ours, op_id).await;
    let waited = begun.elapsed();
    assert!(
        waited >= SHORT - millis(20) && waited < SHORT + HAND_OVER_MAX,
        "{waited:?}"
    );
    let late = java.tell(&["semaphore-release", POOL, &theirs]);
    // Redisson hides its IllegalArgumentException in another one.
    assert!(late.answer().await.is_err());
    release(&mut ours, &grant.permit_ids).await;

    let begun = Instant::now();
    let op_id = ours.send(acquire(1, Some(SHORT)));
    granted(&mut ours, op_id).await;
    java.tell(&["semaphore-acquire", POOL, "1", "60000"])
        .value()
        .await;
    let waited = begun.elapsed();
    assert!(
        waited >= SHORT - millis(20) && waited < SHORT + HAND_OVER_MAX,
        "{waited:?}"
    );
}

#[tokio::test]
async fn the_watchdog_keeps_permits_and_a_release_by_java_is_told_as_lost() {
    let world = World::start(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let open = pb::OpenSession {
        lease: Some(proto(SHORT)),
        ..Default::default()
    };
    let mut client = world.coordinators[0].client().await;
    let mut ours = client.open_with(open).await.unwrap();
    set(&mut ours, 1).await;
    let op_id = ours.send(acquire(1, None));
    let grant = granted(&mut ours, op_id).await;
    let refused = ["semaphore-try", POOL, "1", "4000", "60000"];
    assert_eq!(java.tell(&refused).value().await, "no", "it is renewed");
    let id = &grant.permit_ids[0];
    java.tell(&["semaphore-release", POOL, id]).value().await;
    let Response::PermitsLost(lost) = ours.notice().await else {
        panic!("expected permits_lost");
    };
    assert_eq!(lost.grant.unwrap().permit_ids, grant.permit_ids);
    let taken = java_takes(&java, "1", secs(60)).await;
    assert_ne!(taken, "no");
}

#[tokio::test]
async fn contenders_for_one_permit_exclude_each_other() {
    const ROUNDS: u64 = 60;
    let world = World::start(Version::Current).await;
    let redisson = world.redisson().await;
    let mut ours = world.coordinators[0].client().await.open().await;
    set(&mut ours, 1).await;
    let contests: Vec<_> = ["a", "b"]
        .map(|thread| {
            let words = ["semaphore-contend", POOL, &ROUNDS.to_string(), "witness"];
            redisson.thread(thread).tell(&words).value()
        })
        .into();
    let contests = timed(futures::future::join_all(contests));
    for _ in 0..ROUNDS {
        let op_id = ours.send(acquire(1, None));
        let grant = granted(&mut ours, op_id).await;
        // As the others do: in steps that are not atomic.
        let seen = world.redis.text(&["GET", "witness"]).await;
        let next = seen.parse::<u64>().unwrap_or(0) + 1;
        tokio::task::yield_now().await;
        let next = next.to_string();
        world.redis.command(&["SET", "witness", &next]).await;
        release(&mut ours, &grant.permit_ids).await;
    }
    contests.await.unwrap();
    assert_eq!(world.witness("witness").await, 3 * ROUNDS);
    assert_eq!(describe(&mut ours).await.available, 1);
}

#[tokio::test]
async fn a_latch_is_counted_down_and_awaited_by_both_sides() {
    let world = World::without_polls(Version::Current).await;
    let redisson = world.redisson().await;
    let (java, other) = (redisson.thread("a"), redisson.thread("b"));
    let mut ours = world.coordinators[0].client().await.open().await;
    for round in ["first", "second"] {
        let count_set = ours.send(Request::SetCount(pb::SetCountRequest {
            name: "start".to_owned(),
            count: 3,
            ..Default::default()
        }));
        let Response::CountSet(count_set) = ours.answer(count_set).await else {
            panic!("expected count_set");
        };
        assert!(count_set.set, "{round}");
        assert!(!java.tell(&["latch-set", "start", "9"]).yes().await);
        let waiting = timed(other.tell(&["latch-await", "start", "-1"]).yes());
        let channel = "redisson_countdownlatch__channel__{start}";
        world.until_listening(channel, 1).await;
        let wait = ours.send(Request::AwaitLatch(pb::AwaitLatchRequest {
            name: "start".to_owned(),
            ..Default::default()
        }));
        let closed = ours.answer(wait).await;
        assert!(matches!(closed, Response::WaitingForLatch(_)), "{closed:?}");
        java.tell(&["latch-down", "start"]).value().await;
        let down = ours.send(count_down(1));
        let left = ours.answer(down).await;
        assert!(matches!(&left, Response::CountedDown(left) if left.count == 1));
        assert_eq!(java.tell(&["latch-count", "start"]).value().await, "1");
        assert!(!waiting.is_finished());
        // Whoever opens it, both are told.
        let opened_at = Instant::now();
        if round == "first" {
            java.tell(&["latch-down", "start"]).value().await;
        } else {
            let down = ours.send(count_down(1));
            ours.answer(down).await;
        }
        while !matches!(ours.answer(wait).await, Response::LatchOpened(_)) {}
        assert!(waiting.await.unwrap().1);
        measured("a latch to both sides", opened_at.elapsed());
        assert!(opened_at.elapsed() < PROMPT);
        eventually("the key is gone", || async {
            world.redis.text(&["EXISTS", "start"]).await == "0"
        })
        .await;
    }
}

fn count_down(by: u32) -> Request {
    Request::CountDown(pb::CountDownRequest {
        name: "start".to_owned(),
        by,
        ..Default::default()
    })
}
