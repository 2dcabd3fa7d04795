//! Every script of the catalogue, as tables that run on every host. (What the coordinator makes of
//! them is in the other modules.)

/// Tests that are tables, one after the other.
macro_rules! tests {
    ($(#[tokio::test] fn $test:ident() = $($table:expr),+;)*) => {
        $(#[tokio::test]
        async fn $test() {
            $($table.await;)+
        })*
    };
}

mod counter_story;
mod lock_story;
mod lock_words;
mod mask;
mod requests;
mod story;

mod acquire;
mod acquire_repeated;
mod clock;
mod counters_same_on_all;
mod delay;
mod election;
mod ended;
mod fair;
mod fleet;
mod force;
mod hand_on;
mod inspect;
mod latch;
mod least;
mod multi;
mod native;
mod notes;
mod permits;
mod permits_of_others;
mod quorum;
mod quorum_late;
mod quorum_repair;
mod read_write;
mod release;
mod renew;
mod rights;
mod same_on_all;
mod slots;
mod tokens;
mod undo;
mod waits;
mod worst_case;
