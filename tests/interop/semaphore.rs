//! Semaphores, against `RPermitExpirableSemaphore`.

use std::time::Duration;

use lockkeeper_api::pb::{LostReason, session_response::Response};
use lockkeeper_base::tasks::spawn_detached;
use tokio::time::Instant;

use crate::{
    agent::Version,
    client::reason,
    contention::{SIDE, SIDES, WITNESS, Witness, expect_all_counted},
    permits::{NAME, Ours, java_acquires, java_releases, java_sees, java_tries},
    redisson::millis_text,
    world::{PROMPT, World, measured, millis, secs, timed},
};

const SHORT: Duration = millis(1500);

#[tokio::test]
async fn java_holds_permits_and_we_wait() {
    let world = World::without_polls(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    assert!(java.tell(&["semaphore-set", NAME, "3"]).yes().await);
    let mut ours = Ours::of(&world).await;
    let seen = ours.set_permits(5, true).await;
    assert_eq!((seen.created, seen.total, seen.available), (false, 3, 3));

    let ids = java_acquires(&java, 2, None).value().await;
    assert_eq!(java_sees(&java).await, "1");
    let refused = ours.try_acquire(2).await;
    assert_eq!((refused.acquired, refused.available), (false, 1));
    let tried = ours.try_acquire(1).await;
    assert!(tried.acquired);
    assert_eq!(java_sees(&java).await, "0");
    assert_eq!(
        ours.holders().await,
        [(String::new(), 2), ("0".to_owned(), 1)]
    );
    let waiting = ours.wait(2).await;
    let released = Instant::now();
    java_releases(&java, &ids).value().await;
    let (granted, grant) = waiting.await.unwrap();
    assert!(granted - released < PROMPT, "{:?}", granted - released);
    assert_eq!(grant.permit_ids.len(), 2);
    assert_eq!(java_tries(&java, 1, secs(0)).value().await, "no");
    assert_eq!(ours.release(&[]).await.unwrap().released, 3);
    assert_eq!(java_sees(&java).await, "3");
}

#[tokio::test]
async fn we_hold_permits_and_java_waits() {
    let world = World::without_polls(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut ours = Ours::of(&world).await;
    assert!(ours.set_permits(2, true).await.created);
    assert!(!java.tell(&["semaphore-set", NAME, "7"]).yes().await);
    let grant = ours.acquire(2).await;
    assert_eq!(java_tries(&java, 1, millis(200)).value().await, "no");
    let waiting = timed(java_acquires(&java, 1, None).value());
    world.until_listening("redisson_sc:{pool}", 1).await;
    assert!(!waiting.is_finished());
    let released = Instant::now();
    let one = &grant.permit_ids[..1];
    assert_eq!(ours.release(one).await.unwrap().released, 1);
    let (acquired, id) = waiting.await.unwrap();
    assert!(acquired - released < PROMPT, "{:?}", acquired - released);
    assert_eq!(id.len(), 32);
    assert_ne!(id, grant.permit_ids[0]);
    assert!(!ours.try_acquire(1).await.acquired);
    java_releases(&java, &id).value().await;
    assert!(ours.try_acquire(1).await.acquired);
}

#[tokio::test]
async fn leases_of_permits_end_on_either_side() {
    let world = World::start(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut ours = Ours::of(&world).await;
    ours.set_permits(1, false).await;
    let begun = Instant::now();
    let id = java_acquires(&java, 1, Some(SHORT)).value().await;
    ours.acquire(1).await;
    let waited = begun.elapsed();
    assert!(waited + millis(5) > SHORT && waited < secs(5), "{waited:?}");
    // Redisson hides its IllegalArgumentException in another one.
    java_releases(&java, &id).exception().await;
    assert_eq!(java_sees(&java).await, "0");
    ours.release(&[]).await.unwrap();

    let begun = Instant::now();
    let grant = ours.acquire_for(1, SHORT).await;
    assert!(!grant.watched);
    let id = java_acquires(&java, 1, None).value().await;
    let waited = begun.elapsed();
    assert!(waited + millis(5) > SHORT && waited < secs(5), "{waited:?}");
    let refused = ours.release(&grant.permit_ids).await.unwrap_err();
    assert_eq!(reason(&refused), "NOT_OWNER");
    java_releases(&java, &id).value().await;
    assert_eq!(java_sees(&java).await, "1");
}

#[tokio::test]
async fn either_side_keeps_its_permits_longer_than_a_lease() {
    let world = World::start(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut ours = Ours::at(&world, 0, Some(SHORT)).await;
    ours.set_permits(1, false).await;
    assert!(ours.acquire(1).await.watched);
    // Time itself is what is tested: without the watchdog the lease would end.
    assert_eq!(java_tries(&java, 1, SHORT * 2).value().await, "no");
    ours.release(&[]).await.unwrap();

    let id = java_acquires(&java, 1, Some(SHORT)).value().await;
    let begun = Instant::now();
    let lease = millis_text(SHORT * 2);
    assert!(
        java.tell(&["semaphore-renew", NAME, &id, &lease])
            .yes()
            .await
    );
    ours.acquire(1).await;
    let waited = begun.elapsed();
    assert!(
        waited + millis(5) > SHORT * 2 && waited < secs(6),
        "{waited:?}"
    );
}

#[tokio::test]
async fn permits_that_java_takes_away_are_told_as_lost() {
    let world = World::start(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut ours = Ours::at(&world, 0, Some(SHORT)).await;
    ours.set_permits(3, false).await;
    let (taken, kept) = (ours.acquire(1).await, ours.acquire(1).await);
    java_releases(&java, &taken.permit_ids[0]).value().await;
    match ours.session.notice().await {
        Response::PermitsLost(lost) => {
            assert_eq!(lost.reason(), LostReason::Expired);
            assert_eq!(lost.grant.unwrap().permit_ids, taken.permit_ids);
        }
        other => panic!("expected permits_lost, got {other:?}"),
    }
    let refused = ours.release(&taken.permit_ids).await.unwrap_err();
    assert_eq!(reason(&refused), "NOT_OWNER");
    assert_eq!(ours.release(&kept.permit_ids).await.unwrap().available, 3);
}

#[tokio::test]
async fn a_killed_coordinators_permits_come_back_to_java() {
    let world = World::with(Version::Current, 2, |settings| settings).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut ours = Ours::at(&world, 0, Some(secs(3))).await;
    ours.set_permits(2, false).await;
    ours.acquire(2).await;
    world.coordinators[0].kill();
    let killed = Instant::now();
    let ids = java_acquires(&java, 2, None).value().await;
    assert!(
        killed.elapsed() < secs(3) + PROMPT,
        "{:?}",
        killed.elapsed()
    );
    assert_eq!(ids.split(',').count(), 2);
}

/// Threads of two Redisson clients and sessions at two coordinators want the only permit.
async fn contenders_exclude_each_other(version: Version) {
    const ROUNDS: usize = 60;
    let world = World::with(version, 2, |settings| settings).await;
    Ours::of(&world).await.set_permits(1, false).await;
    let clients = [world.redisson().await, world.redisson().await];
    let begun = Instant::now();
    let text = ROUNDS.to_string();
    let (mut java, mut sessions) = (Vec::new(), Vec::new());
    for number in 0..SIDE {
        let thread = clients[number % 2].thread(&number.to_string());
        java.push(thread.tell(&["semaphore-contend", NAME, &text, WITNESS, SIDES]));
        let ours = Ours::at(&world, number % 2, None).await;
        let witness = Witness::at(&world.redis).await;
        sessions.push(spawn_detached("contender", contend(ours, witness, ROUNDS)));
    }
    for session in sessions {
        session.await.unwrap();
    }
    for told in java {
        told.value().await;
    }
    measured("one permit, 960 rounds", begun.elapsed());
    expect_all_counted(&world, ROUNDS, ROUNDS).await;
    assert_eq!(java_sees(&clients[0].thread("a")).await, "1");
}

#[tokio::test]
async fn contenders_for_one_permit_exclude_each_other() {
    contenders_exclude_each_other(Version::Current).await;
}

#[tokio::test]
async fn contenders_of_an_older_redisson_for_one_permit_exclude_each_other() {
    contenders_exclude_each_other(Version::Older).await;
}

async fn contend(mut ours: Ours, mut witness: Witness, rounds: usize) {
    for _ in 0..rounds {
        ours.acquire(1).await;
        witness.take_part().await;
        ours.release(&[]).await.unwrap();
    }
}
