//! What every lock must do: one holder, which alone gives it back, and which leaves it by its time
//! to live if it dies.

use std::sync::atomic::{AtomicU32, Ordering};

use tonic_types::StatusExt as _;

use super::world::{LATE_MAX, LEASE, World};
use crate::prelude::*;
use crate::steps::sessionless_wait;

const CONTENDERS: usize = 12;
const ROUNDS: u32 = 4;

pub(super) async fn mission_1_one_holder_at_any_time(world: World) {
    const NAME: &str = "exclusive";
    let count = Arc::new(AtomicU32::new(0));
    let mut contenders = Vec::new();
    for number in 0..CONTENDERS {
        let (mut client, count) = (world.client(number).await, Arc::clone(&count));
        contenders.push(timed(async move {
            let owner = format!("owner-{number}");
            for _ in 0..ROUNDS {
                let request = sessionless_wait(NAME, &owner, secs(60));
                let mut call = client.acquire(request).await.unwrap();
                call.expect_granted().await;
                // Read here and written later: of two that are inside together one is lost.
                let before = count.load(Ordering::SeqCst);
                tokio::time::sleep(millis(3)).await;
                count.store(before + 1, Ordering::SeqCst);
                assert!(client.release(NAME, &owner).await.unwrap().released);
            }
        }));
    }
    for contender in contenders {
        contender.await.unwrap();
    }
    let expected = ROUNDS * u32::try_from(CONTENDERS).unwrap();
    assert_eq!(count.load(Ordering::SeqCst), expected);
    world
        .store()
        .until(NAME, &["EXISTS", NAME], |it| it == "0")
        .await;
}

pub(super) async fn mission_2_a_crashed_holder_frees_the_lock_by_its_time_to_live(world: World) {
    const NAME: &str = "crashed";
    let mut mortal = world.mortal_client(0).await;
    let mut holder = open_with_lease(&mut mortal, LEASE).await;
    let held = holder.acquire(NAME).await;
    assert!(held.watched);
    let next = timed_wait(&mut world.client(1).await, NAME).await;
    let died = Instant::now();
    mortal.cut();
    assert!(holder.read_to_end().await.is_err());
    let (granted_at, (granted, mut session)) = next.await.unwrap();
    let waited = granted_at - died;
    // It had been renewed at most a third of the lease before, by calls that took a moment.
    assert!(
        waited > LEASE / 2 && waited < LEASE + LATE_MAX,
        "{waited:?}"
    );
    assert!(granted.fencing_token > held.fencing_token);
    assert!(session.release(NAME).await.released);
}

pub(super) async fn mission_3_and_8_only_the_holder_releases_and_others_are_told_why_not(
    world: World,
) {
    const NAME: &str = "owned";
    let (mut near, mut far) = (world.client(0).await, world.client(1).await);
    let never = near.release(NAME, "x").await.unwrap_err();
    near.try_acquire(NAME, "x", secs(5)).await.unwrap();
    let stranger = far.release(NAME, "y").await.unwrap_err();
    assert_eq!(refusal(far.renew(NAME, "y", secs(60)).await), "NOT_OWNER");
    assert_eq!(near.holders(NAME).await, ["x"], "nothing changed");
    let mut next = far
        .acquire(sessionless_wait(NAME, "z", secs(60)))
        .await
        .unwrap();
    next.expect_granted().await;
    // Somebody else's by now, and it stays so.
    let expired = near.release(NAME, "x").await.unwrap_err();
    for (status, state) in [
        (never, "never_held"),
        (stranger, "held_by_another"),
        (expired, "held_by_another"),
    ] {
        expect_status(&status, tonic::Code::FailedPrecondition, "NOT_OWNER");
        let details = status.get_details_error_info().unwrap().metadata;
        assert_eq!(details["state"], state);
    }
    assert_eq!(near.holders(NAME).await, ["z"]);
    assert!(far.release(NAME, "z").await.unwrap().released);
    assert_eq!(far.describe(NAME).await.mode(), LockMode::Unspecified);
}
