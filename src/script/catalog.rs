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

/// Every script, for hosts that load or test them all.
pub static ALL: [&Script; 5] = [
    &LOCK_ACQUIRE,
    &LOCK_RELEASE,
    &LOCK_UNDO,
    &LOCK_RENEW,
    &LOCK_INSPECT,
];
