//! The texts that are taken out of the scripts of semaphores and latches.

use lockkeeper_store::script::catalog::{
    LATCH_COUNT_DOWN, PERMIT_ACQUIRE, PERMIT_RELEASE, PERMIT_RENEW, PERMIT_UNDO,
};

use super::Hole;

pub(super) const PERMIT_HOLES: [Hole; 9] = [
    Hole {
        name: "an acquire does not look at what is free",
        scripts: &[&PERMIT_ACQUIRE],
        taken: "if #ids > state.available then",
        put: "if false then",
    },
    Hole {
        name: "an acquire takes less off than it gives",
        scripts: &[&PERMIT_ACQUIRE],
        taken: "redis.pcall('incrby', semaphore, -#ids)",
        put: "redis.pcall('incrby', semaphore, -1)",
    },
    Hole {
        name: "a release gives back one more",
        scripts: &[&PERMIT_RELEASE],
        taken: "redis.call('incrby', semaphore, change)",
        put: "redis.call('incrby', semaphore, change + 1)",
    },
    Hole {
        name: "a renewal extends nothing",
        scripts: &[&PERMIT_RENEW],
        taken: "redis.call('zadd', leases, 'xx', 'gt', unpack(scored))",
        put: "",
    },
    Hole {
        name: "an undo gives back what was not taken",
        scripts: &[&PERMIT_UNDO],
        taken: "if tonumber(ends[i] or 0) > now then",
        put: "if true then",
    },
    Hole {
        name: "what has expired is given back again and again",
        scripts: &[&PERMIT_ACQUIRE],
        taken: "redis.call('zrem', leases, unpack(ids, first, last))",
        put: "",
    },
    Hole {
        name: "an acquire of one does not look at what is free",
        scripts: &[&PERMIT_ACQUIRE],
        taken: "string.find(number, '^[1-9]%d*$')",
        put: "true",
    },
    Hole {
        name: "an acquire of one takes nothing off",
        scripts: &[&PERMIT_ACQUIRE],
        taken: "local available = redis.pcall('incrby', semaphore, '-1')",
        put: "local available = tonumber(number)",
    },
    Hole {
        name: "a release of one does not look at the owner",
        scripts: &[&PERMIT_RELEASE],
        taken: "call('hget', owners, ARGV[5]) == owner\n    and call('zscore', leases, ARGV[2])",
        put: "true",
    },
];

pub(super) const LATCH_HOLES: [Hole; 3] = [
    Hole {
        name: "a repeat counts again",
        scripts: &[&LATCH_COUNT_DOWN],
        taken: "if first[1] then",
        put: "if false then",
    },
    Hole {
        name: "a count-down takes nothing off",
        scripts: &[&LATCH_COUNT_DOWN],
        taken: "redis.call('decrby', latch, by)",
        put: "",
    },
    Hole {
        name: "a latch opens one count early",
        scripts: &[&LATCH_COUNT_DOWN],
        taken: "if left == 0 then",
        put: "if left <= 1 then",
    },
];
