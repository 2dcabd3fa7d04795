//! The texts that are taken out of the scripts.

use lockkeeper_store::script::catalog::{
    FAIR_ACQUIRE, FAIR_LEAVE, FAIR_RELEASE, FAIR_UNDO, FAIR_VOUCH, LATCH_COUNT_DOWN, LOCK_ACQUIRE,
    LOCK_HAND_ON, LOCK_RELEASE, LOCK_RENEW, LOCK_UNDO, MULTI_ACQUIRE, MULTI_UNDO, PERMIT_ACQUIRE,
    PERMIT_RELEASE, PERMIT_RENEW, PERMIT_UNDO, READ_ACQUIRE, READ_RELEASE, READ_RENEW, READ_UNDO,
    WRITE_ACQUIRE, WRITE_LEAVE, WRITE_RELEASE, WRITE_UNDO,
};

use super::Hole;

pub(super) const HOLES: [Hole; 62] = [
    Hole {
        name: "a release does not look at the owner",
        scripts: &[&LOCK_RELEASE],
        taken: "local count = tonumber(fields[1])",
        put: "local count = tonumber(fields[1]) or 1",
    },
    Hole {
        name: "an acquire does not look at the holder",
        scripts: &[&LOCK_ACQUIRE],
        taken: "open = count ~= nil and known ~= 0}",
        put: "open = true}",
    },
    Hole {
        name: "the token is a constant",
        scripts: &[&LOCK_ACQUIRE],
        taken: "math.max(previous + 1, now_micros())",
        put: "7",
    },
    Hole {
        name: "the token stays when the lock is granted anew",
        scripts: &[&LOCK_ACQUIRE],
        taken: "local token = math.max(previous + 1, now_micros())",
        put: "local token = previous > 0 and previous or now_micros()",
    },
    Hole {
        name: "a release tells nobody",
        scripts: &[&LOCK_RELEASE],
        taken: "publish_to(publish, KEYS[3], '0')",
        put: "",
    },
    // The most frequent case of both stands by itself.
    Hole {
        name: "a first acquire does not look whether the lock is free",
        scripts: &[&LOCK_ACQUIRE],
        taken: "if not ARGV[4] and call('pttl', lock) == -2 then",
        put: "if not ARGV[4] then",
    },
    Hole {
        name: "the token of a first acquire is a constant",
        scripts: &[&LOCK_ACQUIRE],
        taken: "    end\n    return token\n",
        put: "    end\n    return '7'\n",
    },
    Hole {
        name: "a last release does not look at the owner",
        scripts: &[&LOCK_RELEASE],
        taken: "call('hget', lock, owner) == '1' then",
        put: "true then",
    },
    Hole {
        name: "a last release tells nobody",
        scripts: &[&LOCK_RELEASE],
        taken: "    call('publish', KEYS[3], '0')\n",
        put: "",
    },
    Hole {
        name: "a hand-over does not look at the owner",
        scripts: &[&LOCK_HAND_ON],
        taken: "call('hlen', lock) ~= 1 or call('hget', lock, owner) ~= '1'",
        put: "false",
    },
    Hole {
        name: "a hand-over takes all holds",
        scripts: &[&LOCK_HAND_ON],
        taken: "call('hget', lock, owner) ~= '1'",
        put: "not call('hget', lock, owner)",
    },
    Hole {
        name: "the token of a hand-over is a constant",
        scripts: &[&LOCK_HAND_ON],
        taken: "return newer",
        put: "return '7'",
    },
    Hole {
        name: "a hand-over leaves the lock free",
        scripts: &[&LOCK_HAND_ON],
        taken: "call('hset', lock, ARGV[3], '1')",
        put: "",
    },
    Hole {
        name: "a hand-over forgets the lease",
        scripts: &[&LOCK_HAND_ON],
        taken: "call('pexpire', lock, ARGV[4])",
        put: "call('persist', lock)",
    },
    Hole {
        name: "an undo tells nobody",
        scripts: &[&LOCK_UNDO],
        taken: "publish_to(ARGV[4], KEYS[3], ARGV[5])",
        put: "",
    },
    Hole {
        name: "a renewal extends nothing",
        scripts: &[&LOCK_RENEW],
        taken: "call('pexpire', lock, text)",
        put: "",
    },
    Hole {
        name: "a renewal does not look at the owner",
        scripts: &[&LOCK_RENEW],
        taken: "redis.pcall('hexists', lock, owner)",
        put: "redis.pcall('exists', lock)",
    },
    Hole {
        name: "an undo does nothing",
        scripts: &[&LOCK_UNDO],
        taken: "local count = hold.count or 0",
        put: "if true then return {1, 0} end\nlocal count = 0",
    },
    Hole {
        name: "an undo takes more than its own hold",
        scripts: &[&LOCK_UNDO],
        taken: "while count > request.expected do",
        put: "while count > 0 do",
    },
    Hole {
        name: "a release frees the lock whatever the count",
        scripts: &[&LOCK_RELEASE],
        taken: "if count <= 1 then",
        put: "if true then",
    },
    Hole {
        name: "an acquire counts no further holds",
        scripts: &[&LOCK_ACQUIRE],
        taken: "(known or seen.count) + 1",
        put: "1",
    },
    Hole {
        name: "an acquire forgets the lease",
        scripts: &[&LOCK_ACQUIRE],
        taken: "redis.pcall('pexpire', lock, lease)",
        put: "1 + redis.pcall('persist', lock)",
    },
    Hole {
        name: "an acquire does not look for an earlier answer",
        scripts: &[&LOCK_ACQUIRE, &FAIR_ACQUIRE, &READ_ACQUIRE, &WRITE_ACQUIRE],
        taken: "local first = redis.call('hmget', record, 'op', 'owner', 'answer')",
        put: "local first = {}",
    },
    Hole {
        name: "a release does not look for an earlier answer",
        scripts: &[&LOCK_RELEASE],
        taken: "local first = redis.call('hmget', record, 'op', 'owner', 'answer')",
        put: "local first = {}",
    },
    Hole {
        name: "an acquire does not remember its request",
        scripts: &[&LOCK_ACQUIRE],
        taken: "'answer', answer)",
        put: "'answer', '0')",
    },
    Hole {
        name: "a fair lock is granted past the head of its queue",
        scripts: &[&FAIR_ACQUIRE],
        taken: "seen.open = seen.open and (not seen.head or seen.head == owner)",
        put: "",
    },
    Hole {
        name: "who gets a fair lock stays in its queue",
        scripts: &[&FAIR_ACQUIRE],
        taken: "if seen.head == owner then",
        put: "if false then",
    },
    Hole {
        name: "a waiter goes to the end of the queue with every try",
        scripts: &[&FAIR_ACQUIRE],
        taken: "if not redis.call('zscore', q.deadlines, owner) then",
        put: "leave_queue(q, owner)\nif true then",
    },
    Hole {
        name: "a waiter that lives is passed over",
        scripts: &[&FAIR_ACQUIRE],
        taken: "if vouched > now then",
        put: "if false then",
    },
    Hole {
        name: "a release of a fair lock wakes nobody",
        scripts: &[&FAIR_RELEASE],
        taken: "while head and not woken and",
        put: "while false and",
    },
    Hole {
        name: "a release of a fair lock wakes the last in the queue",
        scripts: &[&FAIR_RELEASE],
        taken: "woken = publish_to(q.publish, q.channel .. ':' .. head,",
        put: "woken = publish_to(q.publish, q.channel .. ':' .. redis.call('lindex', q.queue, -1),",
    },
    Hole {
        name: "an undo of a fair lock wakes nobody",
        scripts: &[&FAIR_UNDO],
        taken: "while head and not woken and",
        put: "while false and",
    },
    Hole {
        name: "who stops waiting stays in the queue",
        scripts: &[&FAIR_LEAVE],
        taken: "leave_queue(q, ARGV[1])",
        put: "if true then return {1} end",
    },
    Hole {
        name: "vouching does nothing",
        scripts: &[&FAIR_VOUCH],
        taken: "if #kept[1] > 0 then",
        put: "if false then",
    },
    Hole {
        name: "a queue has no time to live",
        scripts: &[&FAIR_ACQUIRE, &FAIR_VOUCH],
        taken: "redis.call('pexpire', key, string.format('%.0f', ttl))",
        put: "",
    },
    Hole {
        name: "a writer is let in among readers",
        scripts: &[&WRITE_ACQUIRE],
        taken: "seen.reads, seen.open = longest ~= nil, longest == nil",
        put: "seen.reads, seen.open = false, true",
    },
    Hole {
        name: "a reader is let in under a writer",
        scripts: &[&READ_ACQUIRE],
        taken: "if seen.open or unknown or mode == 'write' then",
        put: "if seen.open or unknown then",
    },
    Hole {
        name: "a reader that wants to write is not refused",
        scripts: &[&WRITE_ACQUIRE],
        taken: "seen.deadlock = read_hold(lock, keys[3], reads_as) ~= nil",
        put: "seen.deadlock = false",
    },
    Hole {
        name: "a reader gets a token of its own",
        scripts: &[&READ_ACQUIRE],
        taken: "return {1, count, newest, lease, serial}",
        put: "return {1, count, newest + 1, lease, serial}",
    },
    Hole {
        name: "a write token stays when the lock is granted anew",
        scripts: &[&WRITE_ACQUIRE],
        taken: "local token = math.max(previous + 1, now_micros())",
        put: "local token = previous > 0 and previous or now_micros()",
    },
    Hole {
        name: "a read release frees the lock although others read",
        scripts: &[&READ_RELEASE],
        taken: "if redis.call('hlen', lock) == 2 then",
        put: "if true then",
    },
    Hole {
        name: "the last reader wakes nobody",
        scripts: &[&READ_RELEASE],
        taken: "publish_to(publish, channel, message)",
        put: "",
    },
    Hole {
        name: "a read undo does nothing",
        scripts: &[&READ_UNDO],
        taken: "local count = hold.count or 0",
        put: "if true then return {1, 0} end\nlocal count = 0",
    },
    Hole {
        name: "a renewal does not extend read holds",
        scripts: &[&READ_RENEW],
        taken: "call('pexpire', key, text)",
        put: "",
    },
    Hole {
        name: "a renewal of a read hold cuts the leases of other readers",
        scripts: &[&READ_RENEW],
        taken: "if call('pttl', lock) < lease then",
        put: "if true then",
    },
    Hole {
        name: "a reader that comes cuts the leases of other readers",
        scripts: &[&READ_ACQUIRE],
        taken: "if seen.remaining < lease then",
        put: "if true then",
    },
    Hole {
        name: "a writer that becomes a reader wakes nobody",
        scripts: &[&WRITE_RELEASE],
        taken: "  wake()\n  redis.call('hdel', lock, owner)",
        put: "  redis.call('hdel', lock, owner)",
    },
    Hole {
        name: "a writer's release takes its read holds too",
        scripts: &[&WRITE_RELEASE],
        taken: "if count > 1 or redis.call('hlen', lock) <= 2 then",
        put: "if true then",
    },
    Hole {
        name: "a write release wakes nobody",
        scripts: &[&WRITE_RELEASE],
        taken: "publish_to(publish, channel, message)",
        put: "",
    },
    Hole {
        name: "a first write token is that of the grant before",
        scripts: &[&WRITE_ACQUIRE],
        taken: "token = time\n    call('set', counter, token, 'keepttl')",
        put: "token = previous",
    },
    Hole {
        name: "a last write release wakes nobody",
        scripts: &[&WRITE_RELEASE],
        taken: "  call('publish', channel, '1')\n",
        put: "",
    },
    Hole {
        name: "the only reader wakes nobody",
        scripts: &[&READ_RELEASE],
        taken: "  call('publish', KEYS[6], '0')\n",
        put: "",
    },
    Hole {
        name: "the only reader's release frees the lock whoever reads",
        scripts: &[&READ_RELEASE],
        taken: "call('hlen', lock) == 2 and",
        put: "",
    },
    Hole {
        name: "a first fair acquire does not look at the queue",
        scripts: &[&FAIR_ACQUIRE],
        taken: " and call('exists', KEYS[3]) == 0",
        put: "",
    },
    Hole {
        name: "a last fair release does not look at the queue",
        scripts: &[&FAIR_RELEASE],
        taken: " and call('exists', KEYS[4]) == 0",
        put: "",
    },
    Hole {
        name: "a write undo does nothing",
        scripts: &[&WRITE_UNDO],
        taken: "local count = hold.count or 0",
        put: "if true then return {1, 0} end\nlocal count = 0",
    },
    Hole {
        name: "readers do not care for a writer that waits",
        scripts: &[&READ_ACQUIRE],
        taken: "seen.open = held_back <= 0",
        put: "seen.open = true",
    },
    Hole {
        name: "a writer that waits holds readers back without an end",
        scripts: &[&READ_ACQUIRE],
        taken: "local held_back = redis.call('pttl', mark) - hold_back",
        put: "local held_back = redis.call('pttl', mark) > 0 and hold_back or 0",
    },
    Hole {
        name: "a writer that stops waiting still holds readers back",
        scripts: &[&WRITE_LEAVE],
        taken: "if redis.call('del', KEYS[1]) == 1 then",
        put: "if false then",
    },
    Hole {
        name: "of several locks those that are free are taken although one is not",
        scripts: &[&MULTI_ACQUIRE],
        taken: "    return {0, i, member.seen.remaining}",
        put: "    for _, other in ipairs(members) do if other.seen.open then \
              take_member(other, call) end end\n\
              return {0, i, member.seen.remaining}",
    },
    Hole {
        name: "several locks are granted whoever holds them",
        scripts: &[&MULTI_ACQUIRE],
        taken: "if not member.seen.open then",
        put: "if false then",
    },
    Hole {
        name: "an undo of several locks does nothing",
        scripts: &[&MULTI_UNDO],
        taken: "local undone = 0",
        put: "if true then return {1} end\nlocal undone = 0",
    },
];

pub(super) const PERMIT_HOLES: [Hole; 6] = [
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
