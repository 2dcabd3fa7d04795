//! What must hold on every store: each line of the mission from 1 to 19 but the fifth, which is
//! about majorities, as a short story through gRPC, with the real binary, on each deployment that
//! there is; and besides what outlives a coordinator, semaphores and latches.
//! `tests/tidy/mission.rs` checks that no line and no store is left out.

mod admin;
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

use tokio::task::JoinHandle;

use crate::prelude::*;
use crate::stores::Store;
use Pace::{Busy, Patient};
use world::World;

/// What holds, told by acting.
type Story = fn(World) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Whether a story is at work all the time, or waits for time to pass most of it.
#[derive(Clone, Copy, PartialEq)]
enum Pace {
    Busy,
    Patient,
}

macro_rules! stories {
    ($($pace:ident: $module:ident::$story:ident,)*) => {
        [$((stringify!($story), $pace, |world| Box::pin($module::$story(world))),)*]
    };
}

/// All of them, by name.
const STORIES: [(&str, Pace, Story); 25] = stories![
    Busy: exclusion::mission_1_one_holder_at_any_time,
    Patient: exclusion::mission_2_a_crashed_holder_frees_the_lock_by_its_time_to_live,
    Patient: exclusion::mission_3_and_8_only_the_holder_releases_and_others_are_told_why_not,
    Patient: leases::mission_4_the_lease_is_renewed_while_the_work_goes_on,
    Busy: reentrant::mission_6_one_hash_per_lock_with_a_field_for_its_owner,
    Patient: reentrant::mission_7_holds_are_counted_and_the_last_release_frees_and_says_so,
    Busy: waiting::mission_9_four_ways_to_take_it,
    Patient: waiting::mission_10_a_wait_sleeps_until_the_message_the_lease_or_its_limit,
    Busy: waiting::mission_11_names_with_braces_keep_lock_and_channel_in_one_slot,
    Patient: leases::mission_12_without_a_lease_it_is_renewed_every_third_of_30_s_or_as_set,
    Patient: leases::mission_13_the_watchdog_ends_with_the_last_release_the_owner_and_the_loss,
    Patient: leases::mission_14_experiment_1_never_released_it_stays_as_long_as_its_client_lives,
    Patient: experiments::mission_15_experiment_2_lease_3_s_work_5_s_two_contenders,
    Patient: experiments::mission_16_experiment_3_no_lease_wait_6_s_work_5_s_two_contenders,
    Busy: kinds::mission_17_granted_in_the_order_of_asking_or_refused_by_name,
    Busy: kinds::mission_18_many_readers_or_one_writer_that_may_read_and_wakes_all,
    Patient: several::mission_19_several_locks_are_held_only_if_all_are_within_one_limit,
    Busy: sessions::a_repeat_with_the_same_request_id_changes_nothing_wherever_it_is_sent,
    Busy: sessions::a_coordinator_that_drains_hands_its_sessions_on_and_keeps_their_locks,
    Patient: sessions::a_session_goes_on_after_its_coordinator_was_killed_or_is_told_of_the_loss,
    Busy: sessions::a_lock_is_described_and_tokens_are_checked,
    Busy: waiting::a_release_is_heard_by_who_waits_for_a_free_lock_and_by_who_watches_it,
    Busy: admin::a_lock_is_listed_and_taken_away_and_its_holder_is_told_why,
    Patient: counters::never_more_permits_are_held_than_there_are_or_semaphores_are_refused,
    Busy: counters::a_latch_opens_for_all_or_latches_are_refused,
];

/// A story that is being told on a store.
struct Told(&'static str, JoinHandle<Duration>);

/// Tells all stories on one deployment, the patient ones at the same time and the busy ones
/// meanwhile, one after the other; fails with the names of those that do not hold.
async fn all_hold_on(store: Store) {
    let begun = Instant::now();
    let world = World::on(store).await;
    world.until_serving().await;
    measured(&format!("until {store:?} serves"), begun.elapsed());
    let of = |pace: Pace| STORIES.into_iter().filter(move |it| it.1 == pace);
    let patient: Vec<_> = of(Patient).map(|it| tell(&world, it)).collect();
    let mut broken = Vec::new();
    for story in of(Busy) {
        tell(&world, story).end(store, &mut broken).await;
    }
    for told in patient {
        told.end(store, &mut broken).await;
    }
    measured(&format!("all stories on {store:?}"), begun.elapsed());
    assert!(
        broken.is_empty(),
        "on {store:?}, for reasons given above: {broken:#?}"
    );
}

fn tell(world: &World, (name, _, story): (&'static str, Pace, Story)) -> Told {
    let (begun, told) = (Instant::now(), story(world.clone()));
    let task = spawn_detached("story", async move {
        told.await;
        begun.elapsed()
    });
    Told(name, task)
}

// === impl Told ===

impl Told {
    async fn end(self, store: Store, broken: &mut Vec<&'static str>) {
        let Self(name, task) = self;
        match task.await {
            Ok(took) => measured(&format!("{store:?}: {name}"), took),
            Err(_) => broken.push(name),
        }
    }
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
