//! Scenarios with real coordinators.

mod faults;
mod feeds;
mod kinds;
pub(crate) mod scene;

use std::{future::Future, pin::Pin};

use anyhow::Result;

pub(crate) use self::scene::Scene;

/// What a scenario does in its scene.
pub(crate) type Scenario = for<'a> fn(&'a mut Scene) -> Playing<'a>;

type Playing<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// What is played with both drivers connected, or connects them as it needs.
macro_rules! play {
    (connected $scenario:path) => {
        |scene| {
            Box::pin(async move {
                scene.connect().await?;
                $scenario(scene).await
            })
        }
    };
    (alone $scenario:path) => {
        |scene| Box::pin($scenario(scene))
    };
}

macro_rules! scenarios {
    ($($state:ident $module:ident: $($name:ident),*;)*) => {
        /// All scenarios by name.
        pub(crate) const SCENARIOS: &[(&str, Scenario)] = &[$($((
            concat!(stringify!($module), "::", stringify!($name)),
            play!($state $module::$name),
        ),)*)*];
    };
}

scenarios! {
    connected kinds: one_holder_at_a_time, a_waiter_gets_a_released_lock, fair_waiters_in_order,
        readers_share_and_a_writer_waits, an_owner_acquires_twice, two_tasks_exclude_each_other,
        several_locks_all_or_none, permits_run_out, a_semaphore_is_described,
        a_latch_opens_at_zero, a_deleted_latch_opens, tokens_grow_and_are_checked,
        a_lease_of_the_request_ends, a_wait_ends_in_time, a_cancelled_wait_leaves_no_trace,
        a_session_renews_what_it_holds, close_releases_everything,
        a_killed_program_leaves_its_lease, a_forced_release_is_a_loss, calls_without_a_session,
        a_bad_name_is_refused;
    connected faults: a_killed_coordinator_costs_nothing, a_frozen_coordinator_costs_nothing,
        a_drained_coordinator_costs_nothing, a_wait_survives_its_coordinator,
        a_release_survives_its_coordinator, permits_survive_a_coordinator,
        several_locks_survive_a_coordinator, a_read_lock_survives_a_coordinator,
        a_short_pause_of_the_store_costs_nothing, a_long_pause_of_the_store_is_a_loss,
        a_store_that_forgets_is_a_loss, nobody_for_a_whole_lease_is_a_loss;
    connected feeds: a_claim_moves_the_lock, an_observer_survives_its_coordinator,
        a_watch_sees_grants_and_their_ends, a_wait_until_free_survives_its_coordinator;
    alone kinds: a_killed_program_that_releases_on_disconnect;
    alone faults: a_restarted_coordinator_costs_nothing, a_cut_connection_costs_nothing;
}
