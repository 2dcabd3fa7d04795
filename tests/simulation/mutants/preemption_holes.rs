//! The texts that are taken out of the scripts of preemptions and of waits that are shared.

use lockkeeper_store::script::catalog::{HOLDERS_TELL, LOCK_FORCE, WAITS_LOOK, WAITS_SHARE};

use super::Hole;

pub(super) const PREEMPTION_HOLES: [Hole; 4] = [
    Hole {
        name: "a holder is preempted without being told first",
        scripts: &[&HOLDERS_TELL],
        taken: "redis.call('publish', ARGV[1], ARGV[2])",
        put: "",
    },
    Hole {
        name: "a preempted lock is open at once",
        scripts: &[&LOCK_FORCE],
        taken: "local grace = number > 0 and tonumber(ARGV[9]) or 0",
        put: "local grace = 0",
    },
    Hole {
        name: "a preempted lock does not stay closed",
        scripts: &[&LOCK_FORCE],
        taken: "expire_new(lock, grace)",
        put: "expire_new(lock, 1)",
    },
    Hole {
        name: "a preemption takes the lock from whoever has it",
        scripts: &[&LOCK_FORCE],
        taken: "tonumber(ARGV[10] or nil)",
        put: "nil",
    },
];

pub(super) const DEADLOCK_HOLES: [Hole; 3] = [
    Hole {
        name: "a cycle over two coordinators is not seen",
        scripts: &[&WAITS_LOOK],
        taken: "if not at",
        put: "if true or not at",
    },
    Hole {
        name: "a wait that died with its coordinator counts as under way",
        scripts: &[&WAITS_LOOK],
        taken: "math.ceil(now_micros() / 1000) - tonumber(at)",
        put: "0",
    },
    Hole {
        name: "waits are not shared",
        scripts: &[&WAITS_SHARE],
        taken: "if ARGV[2] then",
        put: "if false then",
    },
];
