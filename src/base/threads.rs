//! How many threads a process has, and what schedules its tasks on them.

use std::{num::NonZeroUsize, thread};

use tokio::runtime::Builder;

/// Cores that this process may use; one if that cannot be found out.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Half of the cores, at least one. The other half is for what the process talks to on the same
/// machine, and the kernel: threads that wake each other cost more than they bring where they have
/// to share cores.
pub fn half_of(cores: usize) -> usize {
    (cores / 2).max(1)
}

/// A runtime with so many threads. One needs no other scheduler than its own, which gathers more
/// before it writes.
pub fn runtime(threads: usize) -> Builder {
    match threads {
        1 => Builder::new_current_thread(),
        several => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(several);
            builder
        }
    }
}
