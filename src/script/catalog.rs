//! The scripts of `lua/`, helpers included. The only file that names their paths.

use crate::host::Script;

macro_rules! script {
    ($name:literal $(, $lib:literal)*) => {
        Script::new(
            $name,
            concat!(
                $(include_str!(concat!("../../lua/lib/", $lib, ".lua")), "\n",)*
                include_str!(concat!("../../lua/", $name, ".lua"))
            ),
        )
    };
}

/// Takes a lock or tells what is left of the holder's lease.
pub static LOCK_ACQUIRE: Script = script!("lock_acquire", "token");
/// Gives one hold back.
pub static LOCK_RELEASE: Script = script!("lock_release", "token", "hold");
/// Undoes an acquire whose answer nobody took.
pub static LOCK_UNDO: Script = script!("lock_undo", "token", "hold");
/// Extends the leases of many holds.
pub static LOCK_RENEW: Script = script!("lock_renew", "token");
/// Tells who holds a lock.
pub static LOCK_INSPECT: Script = script!("lock_inspect", "token");

/// Takes permits of a semaphore.
pub static PERMIT_ACQUIRE: Script = script!("permit_acquire", "token", "kind", "permit");
/// Gives permits back.
pub static PERMIT_RELEASE: Script = script!("permit_release", "token", "kind", "permit");
/// Undoes an acquire of permits whose answer nobody took.
pub static PERMIT_UNDO: Script = script!("permit_undo", "token", "kind", "permit");
/// Extends the leases of many grants of permits.
pub static PERMIT_RENEW: Script = script!("permit_renew", "token", "kind", "permit");
/// Makes a semaphore or changes its size.
pub static PERMIT_SET: Script = script!("permit_set", "token", "kind", "permit");
/// Tells who holds permits.
pub static PERMIT_INSPECT: Script = script!("permit_inspect", "token", "kind", "permit");

/// Gives a latch its count.
pub static LATCH_SET: Script = script!("latch_set", "kind");
/// Lowers a latch's count.
pub static LATCH_COUNT_DOWN: Script = script!("latch_count_down", "kind");
/// Tells a latch's count.
pub static LATCH_INSPECT: Script = script!("latch_inspect", "kind");
/// Deletes a latch.
pub static LATCH_DELETE: Script = script!("latch_delete", "kind");

/// Every script, for hosts that load or test them all.
pub static ALL: [&Script; 15] = [
    &LOCK_ACQUIRE,
    &LOCK_RELEASE,
    &LOCK_UNDO,
    &LOCK_RENEW,
    &LOCK_INSPECT,
    &PERMIT_ACQUIRE,
    &PERMIT_RELEASE,
    &PERMIT_UNDO,
    &PERMIT_RENEW,
    &PERMIT_SET,
    &PERMIT_INSPECT,
    &LATCH_SET,
    &LATCH_COUNT_DOWN,
    &LATCH_INSPECT,
    &LATCH_DELETE,
];
