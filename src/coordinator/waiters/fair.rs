//! Keepalive of the waiters of fair locks. The store's queue knows the next waiter, also among
//! those of other coordinators and of Redisson clients. A queue entry lives as long as its
//! coordinator sends keepalives for the waiter, so a dead one is skipped after a few seconds.

use std::sync::{Arc, atomic::Ordering};

use futures::StreamExt as _;
use lockkeeper_store::script::{Mode, QueuePositions};
use tokio::time::Instant;

use crate::{
    core::Core,
    types::{Goal, HolderKnown, LockName},
    waiters::{
        line::Waiter,
        queue::{Waiters, channel},
    },
};

/// Keepalives per waiter timeout.
const KEEPALIVES_PER_TIMEOUT: u32 = 3;

/// Waiters of one lock in one call, so that no script blocks the store for long.
const WAITERS_PER_CALL: usize = 250;

/// Locks whose keepalives are sent concurrently.
const LOCKS_AT_ONCE: usize = 16;

/// Runs until the coordinator stops.
pub(crate) async fn keep_in_queues(core: Arc<Core>) {
    let stop = core.tasks.stop().clone();
    let interval = core.scripts.config().fair_waiter_timeout / KEEPALIVES_PER_TIMEOUT;
    loop {
        let begun = Instant::now();
        futures::stream::iter(core.waiters.fair_waiters())
            .for_each_concurrent(LOCKS_AT_ONCE, |(name, waiters)| {
                keep_in_queue(&core, name, waiters)
            })
            .await;
        let pause = tokio::time::sleep_until(begun + interval);
        if stop.run_until_cancelled(pause).await.is_none() {
            return;
        }
    }
}

async fn keep_in_queue(core: &Core, name: LockName, waiters: Vec<Arc<Waiter>>) {
    // A call puts waiters that were removed from the queue back in front, so the first come last.
    for waiters in waiters.chunks(WAITERS_PER_CALL).rev() {
        let owners: Vec<&str> = waiters.iter().map(|it| it.owner.field()).collect();
        match core.scripts.fair_keepalive(name.store_key(), &owners).await {
            Ok(kept) => core.waiters.apply_positions(&name, waiters, &kept),
            // The next keepalive comes soon; until then they keep their entries.
            Err(error) => tracing::debug!(%name, %error, "waiters are not vouched for"),
        }
    }
}

// === impl Waiters ===

impl Waiters {
    /// The waiters of fair locks, in order of arrival.
    fn fair_waiters(&self) -> Vec<(LockName, Vec<Arc<Waiter>>)> {
        let state = self.state.lock();
        let locks = state.fair.iter();
        locks
            .map(|(name, fair)| (name.clone(), fair.waiters.values().cloned().collect()))
            .collect()
    }

    /// Applies the positions that the store returned. A waiter that is no longer in the queue must
    /// queue again.
    fn apply_positions(&self, name: &LockName, waiters: &[Arc<Waiter>], kept: &QueuePositions) {
        let holder = HolderKnown::of(kept.remaining, kept.note.clone());
        let mut state = self.state.lock();
        for (waiter, place) in waiters.iter().zip(&kept.places) {
            let channel = channel(name, Goal::Lock(Mode::Fair), &waiter.owner);
            let line = state
                .channels
                .get_mut(channel.as_str())
                .and_then(|channel| channel.lines.get_mut(&Goal::Lock(Mode::Fair)));
            // A waiter that left meanwhile has no line, or left it to another wait of its owner.
            let Some(line) = line else { continue };
            line.holder = holder.clone();
            if *place == 0 {
                line.hint = true;
                waiter.news.notify_one();
            } else if waiter.position.swap(*place, Ordering::Relaxed) != *place {
                waiter.news.notify_one();
            }
        }
    }
}
