//! The scripts of `lua/`, helpers included. The only file that names their paths.

use crate::host::Script;

macro_rules! script {
    ($name:literal $(, $lib:literal)* $(; $inline:literal)?) => {
        Script::with_helpers(
            $name,
            concat!($(include_str!(concat!("../../../lua/lib/", $lib, ".lua")), "\n",)*),
            include_str!(concat!("../../../lua/", $name, ".lua")),
        )
        $(.with_inline(include_str!(concat!("../../../lua/lib/", $inline, ".lua"))))?
    };
}

/// Takes an exclusive lock or returns what is left of the holder's lease.
pub static LOCK_ACQUIRE: Script = script!(
    "lock_acquire",
    "token",
    "expire",
    "note",
    "owner",
    "acquire",
    "sole"; "next_token"
);
/// Gives one hold of an exclusive lock back.
pub static LOCK_RELEASE: Script = script!(
    "lock_release",
    "publish",
    "token",
    "expire",
    "note",
    "owner",
    "hold",
    "release"
);
/// Gives the last hold of an exclusive lock to who waits for it.
pub static LOCK_HAND_ON: Script = script!("lock_hand_on", "token"; "next_token");
/// The same if the fields of both grants name them.
pub static GRANT_HAND_ON: Script = script!("grant_hand_on");
/// Gives the last read hold of a lock to a writer that waits for it.
pub static READ_HAND_ON: Script = script!("read_hand_on"; "next_token");
/// Undoes an acquire of an exclusive lock whose answer was not delivered.
pub static LOCK_UNDO: Script = script!(
    "lock_undo",
    "publish",
    "token",
    "expire",
    "note",
    "owner",
    "hold",
    "release"
);
/// Extends the leases of many holds that are not read holds.
pub static LOCK_RENEW: Script = script!("lock_renew", "token", "note", "owner");
/// Raises the fencing counter under a hold that other stores have too.
pub static LOCK_RAISE: Script = script!("lock_raise", "token");
/// Makes the token of a lock that was taken without a script.
pub static LOCK_TOKEN: Script = script!("lock_token", "token");
/// Tells who holds a lock.
pub static LOCK_INSPECT: Script = script!("lock_inspect", "token", "note", "owner", "shown");
/// Takes every hold of a lock away.
pub static LOCK_FORCE: Script = script!(
    "lock_force",
    "publish",
    "token",
    "expire",
    "note",
    "owner",
    "shown",
    "queue",
    "queue_head",
    "forced",
    "force"
);
/// Tells whether a lock was taken away by force.
pub static LOCK_FORCED: Script = script!("lock_forced", "token", "shown");
/// Acknowledges that a hold was taken away by force.
pub static LOCK_ACKNOWLEDGE: Script = script!(
    "lock_acknowledge",
    "publish",
    "token",
    "owner",
    "queue",
    "queue_head",
    "forced"
);
/// Sends a message to the coordinators of holders.
pub static HOLDERS_TELL: Script = script!("holders_tell");
/// Answers such a message.
pub static HOLDERS_REACHED: Script = script!("holders_reached", "expire");
/// Returns the kinds of several names.
pub static NAME_KINDS: Script = script!("name_kinds", "owner");
/// Takes a fair lock or queues up.
pub static FAIR_ACQUIRE: Script = script!(
    "fair_acquire",
    "publish",
    "token",
    "expire",
    "note",
    "owner",
    "acquire",
    "sole",
    "queue",
    "queue_head"; "next_token"
);
/// Gives one hold of a fair lock back.
pub static FAIR_RELEASE: Script = script!(
    "fair_release",
    "publish",
    "token",
    "expire",
    "note",
    "owner",
    "queue",
    "queue_head",
    "wake",
    "hold",
    "release"
);
/// Undoes an acquire of a fair lock whose answer was not delivered.
pub static FAIR_UNDO: Script = script!(
    "fair_undo",
    "publish",
    "token",
    "expire",
    "note",
    "owner",
    "queue",
    "queue_head",
    "wake",
    "hold",
    "release"
);
/// Keeps the places of waiters of a fair lock.
pub static FAIR_VOUCH: Script = script!(
    "fair_vouch",
    "publish",
    "token",
    "note",
    "queue",
    "queue_head"
);
/// Gives up a place in the queue of a fair lock.
pub static FAIR_LEAVE: Script = script!("fair_leave", "publish", "token", "queue", "queue_head");
/// Puts a waiter of a fair lock first.
pub static FAIR_FIRST: Script = script!("fair_first", "publish", "token", "queue", "queue_head");
/// Takes a read hold.
pub static READ_ACQUIRE: Script = script!(
    "read_acquire",
    "token",
    "expire",
    "note",
    "acquire",
    "read",
    "read_left",
    "read_acquire"
);
/// Gives one read hold back.
pub static READ_RELEASE: Script = script!(
    "read_release",
    "publish",
    "token",
    "expire",
    "note",
    "read",
    "read_left",
    "read_release",
    "release"
);
/// Undoes a read acquire whose answer was not delivered.
pub static READ_UNDO: Script = script!(
    "read_undo",
    "publish",
    "token",
    "expire",
    "note",
    "read",
    "read_left",
    "read_release",
    "release"
);
/// Extends the leases of many read holds.
pub static READ_RENEW: Script = script!("read_renew", "token", "expire", "note", "read");
/// Raises the fencing counter under a read hold that other stores have too.
pub static READ_RAISE: Script = script!("read_raise", "token", "expire", "read");
/// Takes a write lock.
pub static WRITE_ACQUIRE: Script = script!(
    "write_acquire",
    "publish",
    "token",
    "expire",
    "note",
    "owner",
    "acquire",
    "read",
    "read_left",
    "hold",
    "write"; "next_token"
);
/// Gives one write hold back.
pub static WRITE_RELEASE: Script = script!(
    "write_release",
    "publish",
    "token",
    "expire",
    "note",
    "owner",
    "read",
    "read_left",
    "hold",
    "write",
    "release"
);
/// Undoes a write acquire whose answer was not delivered.
pub static WRITE_UNDO: Script = script!(
    "write_undo",
    "publish",
    "token",
    "expire",
    "note",
    "owner",
    "read",
    "read_left",
    "hold",
    "write",
    "release"
);
/// Lets readers in that were held back for a writer.
pub static WRITE_LEAVE: Script = script!("write_leave", "publish");
/// Takes several locks if all can be had.
pub static MULTI_ACQUIRE: Script = script!(
    "multi_acquire",
    "publish",
    "token",
    "expire",
    "note",
    "owner",
    "sole",
    "read",
    "read_left",
    "read_acquire",
    "hold",
    "write",
    "multi",
    "multi_take"; "multi_first"
);
/// Gives one hold of each of several locks back.
pub static MULTI_RELEASE: Script = script!(
    "multi_release",
    "publish",
    "token",
    "expire",
    "note",
    "owner",
    "read",
    "read_left",
    "read_release",
    "queue",
    "queue_head",
    "wake",
    "hold",
    "write",
    "multi",
    "multi_hold"
);
/// Undoes an acquire of several locks whose answer was not delivered.
pub static MULTI_UNDO: Script = script!(
    "multi_undo",
    "publish",
    "token",
    "expire",
    "note",
    "owner",
    "read",
    "read_left",
    "read_release",
    "queue",
    "queue_head",
    "wake",
    "hold",
    "write",
    "multi",
    "multi_hold"
);

/// Takes permits of a semaphore.
pub static PERMIT_ACQUIRE: Script = script!(
    "permit_acquire",
    "publish",
    "token",
    "expire",
    "kind",
    "permit",
    "permit_give",
    "permit_take"; "permit_first"
);
/// Gives permits back.
pub static PERMIT_RELEASE: Script = script!(
    "permit_release",
    "publish",
    "token",
    "expire",
    "kind",
    "permit",
    "permit_give"
);
/// Undoes an acquire of permits whose answer was not delivered.
pub static PERMIT_UNDO: Script = script!(
    "permit_undo",
    "publish",
    "token",
    "kind",
    "permit",
    "permit_give"
);
/// Extends the leases of many grants of permits.
pub static PERMIT_RENEW: Script = script!("permit_renew", "publish", "token", "kind", "permit");
/// Makes a semaphore or changes its size.
pub static PERMIT_SET: Script = script!(
    "permit_set",
    "publish",
    "token",
    "kind",
    "permit",
    "permit_give"
);
/// Tells who holds permits.
pub static PERMIT_INSPECT: Script = script!(
    "permit_inspect",
    "publish",
    "token",
    "shown",
    "kind",
    "permit"
);

/// Gives a latch its count.
pub static LATCH_SET: Script = script!("latch_set", "publish", "expire", "kind");
/// Lowers a latch's count.
pub static LATCH_COUNT_DOWN: Script = script!("latch_count_down", "publish", "expire", "kind");
/// Tells a latch's count.
pub static LATCH_INSPECT: Script = script!("latch_inspect", "kind");
/// Deletes a latch.
pub static LATCH_DELETE: Script = script!("latch_delete", "publish", "kind");

/// Records a value of a leader.
pub static ELECTION_PROCLAIM: Script = script!(
    "election_proclaim",
    "publish",
    "token",
    "expire",
    "owner",
    "election"
);
/// Tells who leads, and what was proclaimed.
pub static ELECTION_INSPECT: Script = script!("election_inspect", "owner", "election");

/// Remembers that a session has ended.
pub static SESSION_END: Script = script!("session_end", "token", "expire");
/// Tells whether a session has ended.
pub static SESSION_ENDED: Script = script!("session_ended", "token");
/// Shares the waits of an owner.
pub static WAITS_SHARE: Script = script!("waits_share", "token");
/// Tells the waits of an owner that are shared.
pub static WAITS_LOOK: Script = script!("waits_look", "token");
/// Announces a coordinator to the others.
pub static FLEET_ANNOUNCE: Script = script!("fleet_announce", "token", "expire");
/// Finds out whether the store takes writes.
pub static STORE_WRITE: Script = script!("store_write");

/// Every script, for hosts that load or test them all.
pub static ALL: [&Script; 52] = [
    &LOCK_ACQUIRE,
    &LOCK_RELEASE,
    &LOCK_HAND_ON,
    &GRANT_HAND_ON,
    &READ_HAND_ON,
    &LOCK_UNDO,
    &LOCK_RENEW,
    &LOCK_RAISE,
    &LOCK_TOKEN,
    &LOCK_INSPECT,
    &LOCK_FORCE,
    &LOCK_FORCED,
    &LOCK_ACKNOWLEDGE,
    &HOLDERS_TELL,
    &HOLDERS_REACHED,
    &NAME_KINDS,
    &FAIR_ACQUIRE,
    &FAIR_RELEASE,
    &FAIR_UNDO,
    &FAIR_VOUCH,
    &FAIR_LEAVE,
    &FAIR_FIRST,
    &READ_ACQUIRE,
    &READ_RELEASE,
    &READ_UNDO,
    &READ_RENEW,
    &READ_RAISE,
    &WRITE_ACQUIRE,
    &WRITE_RELEASE,
    &WRITE_UNDO,
    &WRITE_LEAVE,
    &MULTI_ACQUIRE,
    &MULTI_RELEASE,
    &MULTI_UNDO,
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
    &ELECTION_PROCLAIM,
    &ELECTION_INSPECT,
    &SESSION_END,
    &SESSION_ENDED,
    &WAITS_SHARE,
    &WAITS_LOOK,
    &FLEET_ANNOUNCE,
    &STORE_WRITE,
];

/// Stands for the commands that take a free lock without a script, where calls are counted.
pub static NATIVE_ACQUIRE: Script = Script::new("native_acquire", "");
/// The same for the commands that give its last hold back.
pub static NATIVE_RELEASE: Script = Script::new("native_release", "");

/// What stands for commands and is no script.
pub static NATIVE: [&Script; 2] = [&NATIVE_ACQUIRE, &NATIVE_RELEASE];
