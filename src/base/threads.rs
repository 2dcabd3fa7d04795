//! The number of threads, and the runtime that schedules tasks on them.

use std::{num::NonZeroUsize, thread};

use tokio::runtime::Builder;

/// Cores that this process may use; one if that is unknown.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Half of the cores, at least one. The rest is for the kernel and for peers on the same machine:
/// threads that wake each other are slower on a shared core.
pub fn half_of(cores: usize) -> usize {
    (cores / 2).max(1)
}

/// A runtime with this number of threads. One thread uses the current-thread scheduler, which
/// batches more before it writes.
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
