//! The texts that are taken out of the scripts of the stories that have scenarios of their own.

use super::holes;

holes! { PERMIT_HOLES:
    "an acquire does not look at what is free" in PERMIT_ACQUIRE:
        "if #ids > state.available then" => "if false then";
    "an acquire takes less off than it gives" in PERMIT_ACQUIRE:
        "redis.pcall('incrby', semaphore, -#ids)" => "redis.pcall('incrby', semaphore, -1)";
    "a release gives back one more" in PERMIT_RELEASE:
        "redis.call('incrby', semaphore, change)" => "redis.call('incrby', semaphore, change + 1)";
    "a renewal extends nothing" in PERMIT_RENEW:
        "redis.call('zadd', leases, 'xx', 'gt', unpack(scored))" => "";
    "an undo gives back what was not taken" in PERMIT_UNDO:
        "if tonumber(ends[i] or 0) > now then" => "if true then";
    "what has expired is given back again and again" in PERMIT_ACQUIRE:
        "redis.call('zrem', leases, unpack(ids, first, last))" => "";
    "an acquire of one does not look at what is free" in PERMIT_ACQUIRE:
        "string.find(number, '^[1-9]%d*$')" => "true";
    "an acquire of one takes nothing off" in PERMIT_ACQUIRE:
        "local available = redis.pcall('incrby', semaphore, '-1')"
        => "local available = tonumber(number)";
    "a release of one does not look at the owner" in PERMIT_RELEASE:
        "call('hget', owners, ARGV[5]) == owner\n    and call('zscore', leases, ARGV[2])" => "true";
}

holes! { LATCH_HOLES:
    "a repeat counts again" in LATCH_COUNT_DOWN:
        "if first[1] then" => "if false then";
    "a count-down takes nothing off" in LATCH_COUNT_DOWN:
        "redis.call('decrby', latch, by)" => "";
    "a latch opens one count early" in LATCH_COUNT_DOWN:
        "if left == 0 then" => "if left <= 1 then";
}

holes! { ELECTION_HOLES:
    "a proclamation does not look at the term" in ELECTION_PROCLAIM:
        "elseif not field or newest ~= term then" => "elseif not field then";
    "a proclamation does not look at the holder" in ELECTION_PROCLAIM:
        "local field = fields[1] and owner or grant_field(lock, owner)" => "local field = owner";
    "the newest value is recorded first" in ELECTION_PROCLAIM:
        "redis.call('rpush', record," => "redis.call('lpush', record,";
    "a revision is left out" in ELECTION_PROCLAIM:
        "revision = revision and revision + 1" => "revision = revision and revision + 2";
    "a value is recorded twice" in ELECTION_PROCLAIM:
        "publish_to(ARGV[6], ARGV[7], '1')"
        => "redis.call('rpush', record, string.format('%.0f', revision) .. rest)\n\
            revision = revision + 1";
    "a value takes the place of the one before" in ELECTION_PROCLAIM:
        "publish_to(ARGV[6], ARGV[7], '1')"
        => "revision = last and revision - 1 or revision\nredis.call('unlink', record)";
    "an observer reads the newest value only" in ELECTION_INSPECT:
        "math.min(new, VALUES_MAX)" => "1";
    "a leader leads for ever" in ELECTION_INSPECT:
        "redis.call('get', counter) == term and redis.call('hexists', lock, field)" => "1";
    "a transfer puts its candidate last" in FAIR_FIRST:
        "redis.call('lpush', q.queue, owner)\nredis.call('lrem', q.queue, -1, owner)"
        => "redis.call('lrem', q.queue, 1, owner)\nredis.call('rpush', q.queue, owner)";
    "a transfer takes the lock from the leader, which goes on unfenced" in FAIR_FIRST:
        "if redis.call('exists', KEYS[1]) == 0 then" => "if redis.call('del', KEYS[1]) == 1 then";
    "a transfer loses its candidate" in FAIR_FIRST:
        "redis.call('lpush', q.queue, owner)\n" => "";
    "a second candidate is elected beside the leader" in FAIR_ACQUIRE:
        "seen.open = seen.open and (not seen.head or seen.head == owner)" => "seen.open = true";
}

holes! { NEGOTIATION_HOLES:
    "a release does not end the delay" in LOCK_RELEASE:
        "redis.call('del', lock)\n" => "redis.call('hdel', lock, owner)\n";
    "a delay does not delay" in LOCK_ACQUIRE:
        "redis.call('pexpire', request.lock, lease + request.delay)" => "";
    "a renewal forgets the delay" in LOCK_RENEW:
        "delay > 0 and lease + delay or text" => "text";
    "a crash ends the time that a lock is held at least" in LOCK_ACQUIRE:
        "string.format('%.0f', now_millis() + request.least))"
        => "string.format('%.0f', now_millis() + request.least))\n\
            redis.call('pexpire', request.lock, 100)";
    "a release ends the time that a lock is held at least" in LOCK_RELEASE:
        "if kept > 0 then" => "if false then";
    "a ticket is claimed twice" in LOCK_HAND_ON:
        "if call('hlen', lock) ~= fields"
        => "owner = call('hscan', lock, '0', 'count', 1)[2][1] or owner\n\
            serial, ARGV[7] = call('get', counter) or serial or '', ARGV[7] or '86400000'\n\
            if call('hlen', lock) ~= fields";
    "the giver of a ticket goes on unfenced" in LOCK_HAND_ON:
        "return newer"
        => "local old = serial or string.format('%.0f', newer - ARGV[4])\n\
            call('set', counter, old)\nreturn tonumber(old)";
    "the giver of a ticket holds on beside the claimer" in LOCK_HAND_ON:
        "call('hdel', lock, owner)" => "";
}

holes! { PREEMPTION_HOLES:
    "a holder is preempted without being told first" in HOLDERS_TELL:
        "redis.call('publish', ARGV[1], ARGV[2])" => "";
    "a preempted lock is open at once" in LOCK_FORCE:
        "local grace = number > 0 and tonumber(ARGV[9]) or 0" => "local grace = 0";
    "a preempted lock does not stay closed" in LOCK_FORCE:
        "expire_new(lock, grace)" => "expire_new(lock, 1)";
    "a preemption takes the lock from whoever has it" in LOCK_FORCE:
        "tonumber(ARGV[10] or nil)" => "nil";
}

holes! { DEADLOCK_HOLES:
    "a cycle over two coordinators is not seen" in WAITS_LOOK:
        "if not at" => "if true or not at";
    "a wait that died with its coordinator counts as under way" in WAITS_LOOK:
        "math.ceil(now_micros() / 1000) - tonumber(at)" => "0";
    "waits are not shared" in WAITS_SHARE:
        "if ARGV[2] then" => "if false then";
}
