//! The allocator of the process, which gives memory back to the system.

use std::{io, thread, time::Duration};

/// Every call makes dozens of small allocations, and 100,000 waiters keep theirs; see
/// docs/performance.md. It does without huge pages: the kernel would fill the holes between what is
/// in use, and a process whose work has ended would grow.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The interval at which free memory goes back.
const INTERVAL: Duration = Duration::from_secs(10);

/// Gives free memory back to the system every 10 s, on a thread of its own. The allocator does so
/// only while it is used, so an idle process would keep what a busy one needed.
///
/// Fails if the thread cannot be started.
pub fn give_memory_back() -> io::Result<()> {
    let thread = thread::Builder::new().name("allocator".to_owned());
    thread.spawn(|| {
        loop {
            thread::sleep(INTERVAL);
            // SAFETY: any thread may call it at any time; it frees only what nobody uses.
            unsafe { libmimalloc_sys::mi_collect(true) };
        }
    })?;
    Ok(())
}
