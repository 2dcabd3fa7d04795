//! What could not be asked is said.

use super::{admin, coordinators_of, missing, options, sessions_of, world_of};
use crate::support::prelude::*;

const KEY: &str = "lockkeeper_coordinators:{fleet}";

#[tokio::test(start_paused = true)]
async fn a_killed_coordinator_is_named_until_the_others_forget_it() {
    let mut world = world_of(3).await;
    let _lost = world.client(2).await.open().await;
    let _kept = world.client(1).await.open().await;
    let admin = admin(&world, 0).await;
    assert_eq!(sessions_of(&admin).await.session_count, 2);
    world.end(2);
    let listed = sessions_of(&admin).await;
    assert_eq!(listed.session_count, 1);
    let [(name, why)] = missing(&listed.unasked)[..] else {
        panic!("{listed:?}")
    };
    assert_eq!(name, "http://node:2");
    assert!(why.starts_with("it cannot be reached"), "{why}");
    tokio::time::sleep(secs(16)).await;
    let listed = coordinators_of(&admin).await;
    assert_eq!((listed.coordinators.len(), listed.unasked), (2, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn one_that_leaves_is_forgotten_at_once() {
    let mut world = world_of(2).await;
    world.end(1);
    world.coordinator(1).leave().await;
    let listed = coordinators_of(&admin(&world, 0).await).await;
    assert_eq!((listed.coordinators.len(), listed.unasked), (1, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn one_that_hangs_costs_two_seconds_and_no_answer_of_others() {
    let world = world_of(4).await;
    let _kept = world.client(1).await.open().await;
    let admin = admin(&world, 0).await;
    world.roads.lead_astray(2);
    world.roads.lead_astray(3);
    let begun = Instant::now();
    let listed = sessions_of(&admin).await;
    assert!(
        begun.elapsed() <= secs(2) + secs(1),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(listed.session_count, 1);
    let expected = "it does not answer within 2 s";
    let names = ["http://node:2", "http://node:3"].map(|name| (name, expected));
    let mut found = missing(&listed.unasked);
    found.sort_unstable();
    assert_eq!(found, names);
    // A list of many pages does not wait with each page.
    let begun = Instant::now();
    assert_eq!(sessions_of(&admin).await.unasked.len(), 2);
    assert!(begun.elapsed() < secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn one_that_drains_is_listed_with_the_reason() {
    let world = world_of(2).await;
    world.coordinator(1).drain(secs(1)).await;
    let listed = coordinators_of(&admin(&world, 0).await).await;
    let reasons = listed.coordinators.iter().map(|it| &it.not_ready_reason);
    assert_eq!(reasons.collect::<Vec<_>>(), ["", "it drains"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_that_no_coordinator_has_signed() {
    let mut world = world_of(1).await;
    // Of another secret, and of a clock that is far ahead.
    world.add_coordinator(&Options {
        secret: "a secret that the first one does not know",
        ..options(1)
    });
    world.add_coordinator(&Options {
        unix_seconds: || 1_800_000_061,
        ..options(1)
    });
    let admin = admin(&world, 0).await;
    super::until_known(&world, 3).await;
    // A true one under another id, and what was changed in the store.
    let now = 1_700_000_000_000_u64;
    let forged = format!("{now} 00 {{\"address\":\"http://node:1\",\"version\":\"\",\"at\":1}}");
    world.redis(&["HSET", KEY, "forged", &forged]);
    let listed = coordinators_of(&admin).await;
    assert_eq!(listed.coordinators.len(), 1);
    let mut reasons: Vec<_> = missing(&listed.unasked)
        .into_iter()
        .map(|it| it.1)
        .collect();
    reasons.sort_unstable();
    let expected = [
        "it has another session.secret",
        "it has another session.secret",
        "its clock differs by more than a minute",
    ];
    assert_eq!(reasons, expected);
    assert_eq!(
        (world.roads.connections(1), world.roads.connections(2)),
        (0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_another_coordinator_is_not_taken() {
    let mut world = world_of(2).await;
    // A third one takes over the address of the second one, as after a restart.
    let third = world.add_coordinator(&Options::default());
    let _hidden = world.client(third).await.open().await;
    world.roads.lead_to(1, third);
    let listed = sessions_of(&admin(&world, 0).await).await;
    assert_eq!(listed.session_count, 0);
    let expected = [(
        "http://node:1",
        "another coordinator answers at its address",
    )];
    assert_eq!(missing(&listed.unasked), expected);
}

#[tokio::test(start_paused = true)]
async fn without_its_store_a_coordinator_says_that_it_knows_no_others() {
    let (faults, world) = World::faulty_with(&options(2));
    super::until_known(&world, 2).await;
    let admin = admin(&world, 0).await;
    faults.set_unavailable(true);
    let listed = coordinators_of(&admin).await;
    assert_eq!(listed.coordinators.len(), 1);
    let [(name, why)] = missing(&listed.unasked)[..] else {
        panic!("{listed:?}")
    };
    assert_eq!(name, "");
    assert!(
        why.starts_with("the other coordinators are not known: "),
        "{why}"
    );
}
