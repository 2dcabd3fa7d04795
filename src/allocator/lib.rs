//! The allocator of the process, which gives memory back to the system.
#![expect(clippy::disallowed_types, reason = "it is below tokio and its clock")]

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

/// Every call makes dozens of small allocations, and 100,000 waiters keep theirs; see
/// docs/performance.md. It does without huge pages: the kernel would fill the holes between what is
/// in use, and a process whose work has ended would grow.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The interval at which free memory goes back.
const INTERVAL: Duration = Duration::from_secs(10);

thread_local! {
    /// When this thread gave its memory back last.
    static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Gives the calling thread's free memory back to the system, if it has not done so for 10 s. The
/// allocator does so only while the thread allocates, so one that has become idle would keep what
/// it needed while it was busy. Each thread has memory of its own, so each has to call this.
pub fn give_memory_back() {
    let last = LAST.get();
    let is_due = last.is_some_and(|last| last.elapsed() >= INTERVAL);
    if is_due || last.is_none() {
        LAST.set(Some(Instant::now()));
    }
    if !is_due {
        return;
    }
    // SAFETY: any thread may call it at any time; it frees only what nobody uses.
    unsafe { libmimalloc_sys::mi_collect(true) };
}
