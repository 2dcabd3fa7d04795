//! The allocator of the process, which gives memory back to the system.
#![expect(clippy::disallowed_types, reason = "it is below tokio and its clock")]

use std::{
    alloc::{GlobalAlloc, Layout},
    cell::Cell,
    ffi::c_void,
    time::{Duration, Instant},
};

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc,
    mi_zalloc_aligned,
};

/// Every call makes dozens of small allocations, and 100,000 waiters keep theirs; see
/// docs/performance.md. It does without huge pages: the kernel would fill the holes between what is
/// in use, and a process whose work has ended would grow.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// What every block of mimalloc is aligned to, however it was asked for.
const ALIGNED: usize = size_of::<usize>();

/// Blocks from this size on have pages of their own. mimalloc would put several on one of 4 MB,
/// which stays as long as one of them does: a table that lives as long as the process would keep
/// the memory of all buffers that were beside it.
const APART: usize = 64 << 10;

/// The largest block that mimalloc puts on a page with others.
const TOGETHER_MAX: usize = 512 << 10;

/// mimalloc, which is asked for an alignment only if a block does not have it anyway. The crate
/// `mimalloc` always asks, and a block above 1 KiB that is asked so takes several times as long.
struct Allocator;

/// The interval at which free memory goes back.
const INTERVAL: Duration = Duration::from_secs(10);

thread_local! {
    /// When this thread gave its memory back last.
    static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The size to ask mimalloc for. What is never touched of it is not taken from the system.
#[inline]
fn asked(size: usize) -> usize {
    if size < APART {
        size
    } else {
        size.max(TOGETHER_MAX + 1)
    }
}

// SAFETY: mimalloc's blocks have at least the size and the alignment that they are asked for; a
// block may be freed and grown however it was made.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = unsafe {
            if layout.align() <= ALIGNED {
                mi_malloc(asked(layout.size()))
            } else {
                mi_malloc_aligned(asked(layout.size()), layout.align())
            }
        };
        block.cast()
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if asked(layout.size()) != layout.size() {
            // Not all that is asked for, which would then be touched.
            let block = unsafe { self.alloc(layout) };
            if !block.is_null() {
                unsafe { block.write_bytes(0, layout.size()) };
            }
            return block;
        }
        let block = unsafe {
            if layout.align() <= ALIGNED {
                mi_zalloc(layout.size())
            } else {
                mi_zalloc_aligned(layout.size(), layout.align())
            }
        };
        block.cast()
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        unsafe { mi_free(block.cast::<c_void>()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let size = asked(size);
        if size == asked(layout.size()) {
            // The block has this size.
            return block;
        }
        let block = block.cast::<c_void>();
        let block = unsafe {
            if layout.align() <= ALIGNED {
                mi_realloc(block, size)
            } else {
                mi_realloc_aligned(block, size, layout.align())
            }
        };
        block.cast()
    }
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
