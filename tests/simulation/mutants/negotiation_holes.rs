//! The texts that are taken out of the scripts of delays and hand-overs.

use lockkeeper_store::script::catalog::{LOCK_ACQUIRE, LOCK_HAND_ON, LOCK_RELEASE, LOCK_RENEW};

use super::Hole;

pub(super) const NEGOTIATION_HOLES: [Hole; 8] = [
    Hole {
        name: "a release does not end the delay",
        scripts: &[&LOCK_RELEASE],
        taken: "redis.call('del', lock)\n",
        put: "redis.call('hdel', lock, owner)\n",
    },
    Hole {
        name: "a delay does not delay",
        scripts: &[&LOCK_ACQUIRE],
        taken: "redis.call('pexpire', request.lock, lease + request.delay)",
        put: "",
    },
    Hole {
        name: "a renewal forgets the delay",
        scripts: &[&LOCK_RENEW],
        taken: "delay > 0 and lease + delay or text",
        put: "text",
    },
    Hole {
        name: "a crash ends the time that a lock is held at least",
        scripts: &[&LOCK_ACQUIRE],
        taken: "string.format('%.0f', now_millis() + request.least))",
        put: "string.format('%.0f', now_millis() + request.least))\n\
            redis.call('pexpire', request.lock, 100)",
    },
    Hole {
        name: "a release ends the time that a lock is held at least",
        scripts: &[&LOCK_RELEASE],
        taken: "if least and least > now_millis() then",
        put: "if false then",
    },
    Hole {
        name: "a ticket is claimed twice",
        scripts: &[&LOCK_HAND_ON],
        taken: "if call('hlen', lock) ~= fields",
        put: "owner = call('hscan', lock, '0', 'count', 1)[2][1] or owner\n\
            serial, ARGV[7] = call('get', counter) or serial or '', ARGV[7] or '86400000'\n\
            if call('hlen', lock) ~= fields",
    },
    Hole {
        name: "the giver of a ticket goes on unfenced",
        scripts: &[&LOCK_HAND_ON],
        taken: "return newer",
        put: "local old = serial or string.format('%.0f', newer - ARGV[4])\n\
            call('set', counter, old)\nreturn tonumber(old)",
    },
    Hole {
        name: "the giver of a ticket holds on beside the claimer",
        scripts: &[&LOCK_HAND_ON],
        taken: "call('hdel', lock, owner)",
        put: "",
    },
];
