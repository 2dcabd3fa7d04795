//! Breakages that refuse a lock that can be had, or deny it to its owner.

use lockkeeper_store::script::catalog::{
    FAIR_ACQUIRE, FAIR_RELEASE, LOCK_ACQUIRE, LOCK_RELEASE, LOCK_RENEW, MULTI_ACQUIRE,
    READ_ACQUIRE, READ_RELEASE, WRITE_ACQUIRE,
};

use super::Hole;

pub(super) const REFUSAL_HOLES: [Hole; 11] = [
    Hole {
        name: "a free lock is busy for a request with an id",
        scripts: &[&LOCK_ACQUIRE],
        taken: "return {remaining = -2, open = true}",
        put: "return {remaining = -2, open = KEYS[3] == nil}",
    },
    Hole {
        name: "a try of a free fair lock is refused",
        scripts: &[&FAIR_ACQUIRE],
        taken: "call('exists', KEYS[3]) == 0 then",
        put: "call('exists', KEYS[3]) == 0 then\n\
            if ARGV[4] ~= '1' then return {0, -2, 0, 0} end",
    },
    Hole {
        name: "a try of a free write lock is refused",
        scripts: &[&WRITE_ACQUIRE],
        taken: "if not ARGV[7] and call('pttl', lock) == -2 then",
        put: "if ARGV[4] == '' and call('pttl', lock) == -2 then return {0, 1, 0, 0} end\n\
            if not ARGV[7] and call('pttl', lock) == -2 then",
    },
    Hole {
        name: "a reader with a request id is refused beside another one",
        scripts: &[&READ_ACQUIRE],
        taken: "seen.open = held_back <= 0",
        put: "seen.open = held_back <= 0 and not (seen.held and keys[7])",
    },
    Hole {
        name: "several free locks are busy",
        scripts: &[&MULTI_ACQUIRE],
        taken: "if not member.seen.open then",
        put: "if not member.seen.open or args[11] ~= '1' then",
    },
    Hole {
        name: "a lock is busy for its own owner",
        scripts: &[&LOCK_ACQUIRE],
        taken: "elseif call('hlen', lock) == 1 and call('hget', lock, owner) == ARGV[6] then",
        put: "elseif call('hlen', lock) == 1 and call('hget', lock, owner) == ARGV[6] then\n\
            if true then return {0, left, 0, newest} end",
    },
    Hole {
        name: "a last release is answered as if there were no hold",
        scripts: &[&LOCK_RELEASE],
        taken: "    call('del', lock)\n    return 1\n",
        put: "    call('del', lock)\n    return {0, 2}\n",
    },
    Hole {
        name: "a last fair release is refused to the owner",
        scripts: &[&FAIR_RELEASE],
        taken: "  call('del', lock)\n  return 1\n",
        put: "  return {0, 1}\n",
    },
    Hole {
        name: "the only reader's release is answered as if there were no hold",
        scripts: &[&READ_RELEASE],
        taken: "  call('unlink', lock, KEYS[4], KEYS[3] .. ':1')\n  return 1\n",
        put: "  call('unlink', lock, KEYS[4], KEYS[3] .. ':1')\n  return {0, 2}\n",
    },
    Hole {
        name: "a renewal is answered as if the lock had another owner",
        scripts: &[&LOCK_RENEW],
        taken: "  return lease, owner\nend\n",
        put: "  return -2, owner\nend\n",
    },
    Hole {
        name: "a renewal without a session is answered as if nobody held the lock",
        scripts: &[&LOCK_RENEW],
        taken: "  return lease, owner\nend\n",
        put: "  return string.find(owner, 'owner') and -1 or lease, owner\nend\n",
    },
];
