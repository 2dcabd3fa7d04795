//! Breakages of what the scripts of exclusive locks do in their most frequent cases, which stand by
//! themselves.

use lockkeeper_store::script::catalog::{
    GRANT_HAND_ON, LOCK_ACQUIRE, LOCK_RELEASE, MULTI_ACQUIRE, MULTI_RELEASE, READ_HAND_ON,
};

use super::Hole;

pub(super) const PLAIN_HOLES: [Hole; 20] = [
    Hole {
        name: "a first acquire does not look whether the lock is free",
        scripts: &[&LOCK_ACQUIRE],
        taken: "if left == -2 and not ARGV[6] then",
        put: "if not ARGV[6] then",
    },
    Hole {
        name: "the token of a first acquire is a constant",
        scripts: &[&LOCK_ACQUIRE],
        taken: "    end\n    return token\n",
        put: "    end\n    return '7'\n",
    },
    Hole {
        name: "a step of the counter goes nowhere",
        scripts: &[&LOCK_ACQUIRE],
        taken: "token = call('incrby', counter, step)",
        put: "token = tonumber(expected) - step",
    },
    Hole {
        name: "a token is told before it is compared with what was expected",
        scripts: &[&LOCK_ACQUIRE],
        taken: "if token - expected ~= 0 then",
        put: "if false then",
    },
    Hole {
        name: "a last release does not look at the owner",
        scripts: &[&LOCK_RELEASE],
        taken: "    is_own = false\n",
        put: "    is_own, count = true, '1'\n",
    },
    Hole {
        name: "a first acquire of a held lock is answered as if it were free",
        scripts: &[&LOCK_ACQUIRE],
        taken: "return {0, left, 0, newest}",
        put: "return newest",
    },
    Hole {
        name: "one more hold of a plain acquire is not counted",
        scripts: &[&LOCK_ACQUIRE],
        taken: "      call('hset', lock, owner, count)\n",
        put: "",
    },
    Hole {
        name: "one more hold of a plain acquire does not keep the note",
        scripts: &[&LOCK_ACQUIRE],
        taken: "      redis.pcall('pexpire', note, left)\n",
        put: "",
    },
    Hole {
        name: "a release of one of several holds takes all",
        scripts: &[&LOCK_RELEASE],
        taken: "return {1, call('hincrby', lock, owner, -1), left}",
        put: "return {1, count - call('del', lock), left}",
    },
    Hole {
        name: "a last release tells nobody",
        scripts: &[&LOCK_RELEASE],
        taken: "    call('publish', KEYS[3], '0')\n",
        put: "",
    },
    Hole {
        name: "a hand-over of a grant does not raise the counter",
        scripts: &[&GRANT_HAND_ON],
        taken: "call('incrby', counter, step)",
        put: "(call('get', counter) or 0) + step",
    },
    Hole {
        name: "a hand-over of a grant leaves it there",
        scripts: &[&GRANT_HAND_ON],
        taken: "if call('hdel', lock, ARGV[1]) == 1 then",
        put: "if call('hexists', lock, ARGV[1]) == 1 then",
    },
    Hole {
        name: "a hand-over of a reader does not look whether others read",
        scripts: &[&READ_HAND_ON],
        taken: "if others > 0 then",
        put: "if false then",
    },
    Hole {
        name: "a hand-over of a reader takes all holds",
        scripts: &[&READ_HAND_ON],
        taken: "call('hget', lock, reader) ~= '1'",
        put: "not call('hget', lock, reader)",
    },
    Hole {
        name: "a hand-over of a reader forgets the lease",
        scripts: &[&READ_HAND_ON],
        taken: "call('pexpire', lock, ARGV[3])",
        put: "call('persist', lock)",
    },
    Hole {
        name: "the token of a hand-over of a reader is a constant",
        scripts: &[&READ_HAND_ON],
        taken: "return token\n",
        put: "return 7\n",
    },
    Hole {
        name: "a first acquire of several locks does not look whether they are free",
        scripts: &[&MULTI_ACQUIRE],
        taken: "are_free = call('pttl', KEYS[i]) == -2",
        put: "are_free = true",
    },
    Hole {
        name: "the token of a first acquire of several locks is a constant",
        scripts: &[&MULTI_ACQUIRE],
        taken: "    return token\n",
        put: "    return '7'\n",
    },
    Hole {
        name: "a last release of several locks does not look at the owner",
        scripts: &[&MULTI_RELEASE],
        taken: "  if are_own then",
        put: "  if true then",
    },
    Hole {
        name: "a last release of several locks publishes nothing",
        scripts: &[&MULTI_RELEASE],
        taken: "      call('publish', KEYS[at + 2], '0')\n",
        put: "",
    },
];
