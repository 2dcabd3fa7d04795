//! What must hold on every store: each line of the mission from 1 to 19 but the fifth, which is about majorities, as a short story through gRPC, with the
//! real binary, on each deployment that there is; and besides what outlives a coordinator, semaphores and latches. `tests/tidy/mission.rs` checks that no line and no store is left out.

mod counters;
mod exclusion;
mod experiments;
mod kinds;
mod leases;
mod reentrant;
mod sessions;
mod several;
mod waiting;
mod world;

use std::pin::Pin;

use lockkeeper::shutdown::spawn_detached;
use tokio::time::Instant;

use crate::{steps::measured, stores::Store};
use world::World;

/// What holds, told by acting.
type Story = fn(World) -> Pin<Box<dyn Future<Output = ()> + Send>>;

macro_rules! stories {
    ($($module:ident::$story:ident,)*) => {
        [$((stringify!($story), |world| Box::pin($module::$story(world))),)*]
    };
}

/// All of them, by name.
const STORIES: [(&str, Story); 23] = stories![
    exclusion::mission_1_one_holder_at_any_time,
    exclusion::mission_2_a_crashed_holder_frees_the_lock_by_its_time_to_live,
    exclusion::mission_3_and_8_only_the_holder_releases_and_others_are_told_why_not,
    leases::mission_4_the_lease_is_renewed_while_the_work_goes_on,
    reentrant::mission_6_one_hash_per_lock_with_a_field_for_its_owner,
    reentrant::mission_7_holds_are_counted_and_the_last_release_frees_and_says_so,
    waiting::mission_9_four_ways_to_take_it,
    waiting::mission_10_a_wait_sleeps_until_the_message_the_lease_or_its_limit,
    waiting::mission_11_names_with_braces_keep_lock_and_channel_in_one_slot,
    leases::mission_12_without_a_lease_it_is_renewed_every_third_of_30_s_or_of_what_was_set,
    leases::mission_13_the_watchdog_ends_with_the_last_release_the_owner_and_the_loss,
    leases::mission_14_experiment_1_never_released_it_stays_as_long_as_its_client_lives,
    experiments::mission_15_experiment_2_lease_3_s_work_5_s_two_contenders,
    experiments::mission_16_experiment_3_no_lease_wait_6_s_work_5_s_two_contenders,
    kinds::mission_17_granted_in_the_order_of_asking_or_refused_by_name_where_there_is_no_queue,
    kinds::mission_18_many_readers_or_one_writer_that_may_read_and_wakes_all,
    several::mission_19_several_locks_are_held_only_if_all_are_within_one_limit,
    sessions::a_repeat_with_the_same_request_id_changes_nothing_wherever_it_is_sent,
    sessions::a_coordinator_that_drains_hands_its_sessions_on_and_keeps_their_locks,
    sessions::a_session_goes_on_after_its_coordinator_was_killed_or_is_told_of_the_loss,
    sessions::a_lock_is_described_and_tokens_are_checked,
    counters::never_more_permits_are_held_than_there_are_or_semaphores_are_refused,
    counters::a_latch_opens_for_all_or_latches_are_refused,
];

/// Tells all stories on one deployment, at the same time because most of them wait most of the time, and fails with the names of those that do not hold.
async fn all_hold_on(store: Store) {
    let begun = Instant::now();
    let world = World::on(store).await;
    world.until_serving().await;
    measured(&format!("until {store:?} serves"), begun.elapsed());
    let running = STORIES.map(|(name, story)| {
        let begun = Instant::now();
        let told = story(world.clone());
        let told = spawn_detached("story", async move {
            told.await;
            begun.elapsed()
        });
        (name, told)
    });
    let mut broken = Vec::new();
    for (name, told) in running {
        match told.await {
            Ok(took) => measured(&format!("{store:?}: {name}"), took),
            Err(_) => broken.push(name),
        }
    }
    measured(&format!("all stories on {store:?}"), begun.elapsed());
    assert!(
        broken.is_empty(),
        "on {store:?}, for reasons given above: {broken:#?}"
    );
}

#[tokio::test]
async fn mission_1_to_19_on_embedded() {
    all_hold_on(Store::Embedded).await;
}

#[tokio::test]
async fn mission_1_to_19_on_single() {
    all_hold_on(Store::Single).await;
}

#[tokio::test]
async fn mission_1_to_19_on_replicated() {
    all_hold_on(Store::Replicated).await;
}

#[tokio::test]
async fn mission_1_to_19_on_acknowledged() {
    all_hold_on(Store::Acknowledged).await;
}

#[tokio::test]
async fn mission_1_to_19_on_sentinel() {
    all_hold_on(Store::Sentinel).await;
}

#[tokio::test]
async fn mission_1_to_19_on_cluster() {
    all_hold_on(Store::Cluster).await;
}

#[tokio::test]
async fn mission_1_to_19_on_quorum() {
    all_hold_on(Store::Quorum).await;
}
