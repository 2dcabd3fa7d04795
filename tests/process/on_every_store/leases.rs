//! Renewals and the watchdog.

use super::world::{LATE_MAX, LEASE, World};
use crate::prelude::*;
use crate::steps::sessionless_wait;

/// What is left of a lock's lease, as anybody is told.
async fn left(client: &mut Client, name: &str) -> Duration {
    std_duration(client.describe(name).await.remaining_lease)
}

/// Waits for a renewal, and fails if the lease was ever shorter than this.
async fn until_renewed(client: &mut Client, name: &str, least: Duration) -> Instant {
    let mut before = left(client, name).await;
    loop {
        tokio::time::sleep(millis(20)).await;
        let now = left(client, name).await;
        assert!(now > least, "not renewed in time: {now:?}");
        if now > before {
            return Instant::now();
        }
        before = now;
    }
}

pub(super) async fn mission_4_the_lease_is_renewed_while_the_work_goes_on(world: World) {
    const NAME: &str = "renewed";
    let (mut near, mut far) = (world.client(0).await, world.client(1).await);
    let had = near.try_acquire(NAME, "x", secs(4)).await.unwrap();
    let token = had.grant.unwrap().fencing_token;
    let begun = Instant::now();
    while begun.elapsed() < secs(6) {
        tokio::time::sleep(millis(500)).await;
        // Anybody may carry the word: here the other coordinator does.
        let renewed = far.renew(NAME, "x", secs(4)).await.unwrap();
        assert_eq!(renewed.fencing_token, token);
        assert_eq!(std_duration(renewed.lease), secs(4));
        assert!(std_duration(renewed.valid_for) < secs(4));
    }
    let longer = near.renew(NAME, "x", secs(60)).await.unwrap();
    let shorter = near.renew(NAME, "x", secs(1)).await.unwrap();
    assert!(std_duration(longer.lease) > secs(50));
    assert!(std_duration(shorter.lease) > secs(50), "never shortened");
    assert!(near.release(NAME, "x").await.unwrap().released);
    assert_eq!(refusal(near.renew(NAME, "x", secs(2)).await), "NOT_OWNER");
}

pub(super) async fn mission_12_without_a_lease_it_is_renewed_every_third_of_30_s_or_as_set(
    world: World,
) {
    const NAMES: [&str; 3] = ["watched", "watched-briefly", "fixed"];
    let mut client = world.client(0).await;
    let mut session = client.open().await;
    let mut brief = open_with_lease(&mut client, LEASE).await;
    let taken = Instant::now();
    let grant = session.acquire(NAMES[0]).await;
    assert!(grant.watched);
    assert_eq!(std_duration(grant.lease), secs(30));

    let mut watching = client.clone();
    let renewed = timed(async move { until_renewed(&mut watching, NAMES[0], secs(15)).await });

    let short = brief.acquire(NAMES[1]).await;
    assert_eq!(std_duration(short.lease), LEASE);
    for _ in 0..4 {
        until_renewed(&mut client, NAMES[1], LEASE / 6).await;
    }
    assert!(taken.elapsed() >= LEASE, "no more often than every third");

    let fixed = sessionless_wait(NAMES[2], "", LEASE);
    let fixed = brief.granted(fixed).await;
    assert!(!fixed.watched);
    let begun = Instant::now();
    let lost = brief.expect_lost().await;
    assert_eq!(lost.reason(), LostReason::Expired);
    assert_eq!(lost.grant.unwrap().fencing_token, fixed.fencing_token);
    assert!(begun.elapsed() < LEASE + LATE_MAX, "{:?}", begun.elapsed());

    let renewed = renewed.await.unwrap().1 - taken;
    assert!(renewed > millis(9_500), "{renewed:?}");
    assert!(renewed < secs(10) + LATE_MAX, "{renewed:?}");
    brief.close().await.unwrap();
    session.close().await.unwrap();
}

pub(super) async fn mission_13_the_watchdog_ends_with_the_last_release_the_owner_and_the_loss(
    world: World,
) {
    const NAME: &str = "given-back";
    let mut client = world.client(0).await;
    let mut session = open_with_lease(&mut client, LEASE).await;
    session.acquire(NAME).await;
    session.acquire(NAME).await;
    session.release(NAME).await;
    until_renewed(&mut client, NAME, LEASE / 6).await;
    session.release(NAME).await;
    // Another's lease runs out although it was the session's lock a moment ago.
    expect_not_renewed(&mut client, NAME).await;

    if world.store().is_open() {
        session.acquire("taken-away").await;
        let removed = world
            .store()
            .ask("taken-away", &["DEL", "taken-away"])
            .await;
        assert!(removed.iter().any(|count| count == "1"), "{removed:?}");
        let lost = session.expect_lost().await;
        assert_eq!(lost.reason(), LostReason::Expired);
        expect_not_renewed(&mut client, "taken-away").await;
    }

    let mut mortal = world.mortal_client(1).await;
    let mut dead = open_with_lease(&mut mortal, LEASE).await;
    dead.acquire("left-behind").await;
    until_renewed(&mut client, "left-behind", LEASE / 6).await;
    mortal.cut();
    let died = Instant::now();
    eventually("its lease is over", || async {
        let mut client = client.clone();
        client.describe("left-behind").await.holders.is_empty()
    })
    .await;
    assert!(died.elapsed() < LEASE + LATE_MAX, "{:?}", died.elapsed());
}

/// A grant of somebody else on this name ends with its lease.
async fn expect_not_renewed(client: &mut Client, name: &str) {
    let lease = millis(1500);
    assert!(client.gets_for(name, "z", lease).await);
    let taken = Instant::now();
    eventually("nobody renews it", || async {
        let mut client = client.clone();
        client.describe(name).await.holders.is_empty()
    })
    .await;
    assert!(taken.elapsed() < lease + LATE_MAX, "{:?}", taken.elapsed());
}

pub(super) async fn mission_14_experiment_1_never_released_it_stays_as_long_as_its_client_lives(
    world: World,
) {
    const NAME: &str = "experiment-1";
    let mut holder = open_with_lease(&mut world.client(0).await, LEASE).await;
    let held = holder.acquire(NAME).await;
    let mut other = world.client(1).await;
    let waiter = timed_wait(&mut other, NAME).await;
    let begun = Instant::now();
    while begun.elapsed() < LEASE * 2 {
        assert!(!other.gets_for(NAME, "y", LEASE).await);
        tokio::time::sleep(millis(200)).await;
    }
    assert!(!waiter.is_finished());
    holder.close().await.unwrap();
    let (_, (granted, session)) = waiter.await.unwrap();
    assert!(granted.fencing_token > held.fencing_token);
    session.close().await.unwrap();
}
