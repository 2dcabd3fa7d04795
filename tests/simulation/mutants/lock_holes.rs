//! The texts that are taken out of the scripts of locks.

use super::holes;

holes! { LOCK_HOLES:
    "a release does not look at the owner" in LOCK_RELEASE:
        "local count = tonumber(fields[1])" => "local count = tonumber(fields[1]) or 1";
    "an acquire does not look at the holder" in LOCK_ACQUIRE:
        "local open = count ~= nil and known ~= 0" => "local open = true";
    "the token is a constant" in LOCK_ACQUIRE:
        "math.max(previous + 1, now_micros())" => "7";
    "the token stays when the lock is granted anew" in LOCK_ACQUIRE:
        "local token = math.max(previous + 1, now_micros())"
        => "local token = previous > 0 and previous or now_micros()";
    "a release tells nobody" in LOCK_RELEASE:
        "publish_to(publish, ARGV[4], '0')" => "";
    "a hand-over does not look at the owner" in LOCK_HAND_ON:
        "call('hlen', lock) ~= fields or call('hget', lock, owner) ~= '1'" => "false";
    "a hand-over takes all holds" in LOCK_HAND_ON:
        "call('hget', lock, owner) ~= '1'" => "not call('hget', lock, owner)";
    "the token of a hand-over is a constant" in LOCK_HAND_ON:
        "return newer" => "return '7'";
    "a hand-over leaves the lock free" in LOCK_HAND_ON:
        "call('hset', lock, next_owner, '1')" => "";
    "a hand-over of a fair lock does not look at the queue" in LOCK_HAND_ON:
        "call('lindex', queue, 0) ~= next_owner" => "false";
    "a hand-over of a write lock does not look whether its owner reads" in LOCK_HAND_ON:
        "queue, fields, mark = nil, 2, queue"
        => "queue, fields, mark = nil, call('hlen', lock), queue";
    "a hand-over forgets the lease" in LOCK_HAND_ON:
        "call('pexpire', lock, ARGV[3])" => "call('persist', lock)";
    "an undo tells nobody" in LOCK_UNDO:
        "publish_to(ARGV[4], ARGV[7], ARGV[5])" => "";
    "a renewal extends nothing" in LOCK_RENEW:
        "call('pexpire', lock, delay > 0 and lease + delay or text)" => "";
    "a renewal does not look at the owner" in LOCK_RENEW:
        "redis.pcall('hexists', lock, owner)" => "redis.pcall('exists', lock)";
    "an undo does nothing" in LOCK_UNDO:
        "local count = hold.count or 0" => "if true then return {1, 0} end\nlocal count = 0";
    "an undo takes more than its own hold" in LOCK_UNDO:
        "while count > request.expected do" => "while count > 0 do";
    "a release frees the lock whatever the count" in LOCK_RELEASE:
        "if hold.count <= 1 then" => "if true then";
    "an acquire counts no further holds" in LOCK_ACQUIRE:
        "(known or seen.count) + 1" => "1";
    "an acquire forgets the lease" in LOCK_ACQUIRE:
        "redis.pcall('pexpire', lock, lease)" => "1 + redis.pcall('persist', lock)";
    "an acquire does not look for an earlier answer"
    in LOCK_ACQUIRE, FAIR_ACQUIRE, READ_ACQUIRE, WRITE_ACQUIRE:
        "redis.call('hmget', record, 'op', 'owner', 'answer', 'attempt')" => "{}";
    "a release does not look for an earlier answer" in LOCK_RELEASE:
        "local first = redis.call('hmget', record, 'op', 'owner', 'answer')" => "local first = {}";
    "an acquire does not remember its request" in LOCK_ACQUIRE:
        "'answer', answer)" => "'answer', '0')";
    "a fair lock is granted past the head of its queue" in FAIR_ACQUIRE:
        "seen.open = seen.open and (not seen.head or seen.head == owner)" => "";
    "who gets a fair lock stays in its queue" in FAIR_ACQUIRE:
        "if seen.head == owner then" => "if false then";
    "a waiter goes to the end of the queue with every try" in FAIR_ACQUIRE:
        "if not redis.call('zscore', q.deadlines, owner) then"
        => "leave_queue(q, owner)\nif true then";
    "a waiter that lives is passed over" in FAIR_ACQUIRE:
        "if vouched > now then" => "if false then";
    "a release of a fair lock wakes nobody" in FAIR_RELEASE:
        "while head and not woken and" => "while false and";
    "a release of a fair lock wakes the last in the queue" in FAIR_RELEASE:
        "woken = publish_to(q.publish, q.channel .. ':' .. head,"
        => "woken = publish_to(q.publish, q.channel .. ':' .. redis.call('lindex', q.queue, -1),";
    "an undo of a fair lock wakes nobody" in FAIR_UNDO:
        "while head and not woken and" => "while false and";
    "who stops waiting stays in the queue" in FAIR_LEAVE:
        "leave_queue(q, ARGV[1])" => "if true then return {1} end";
    "vouching does nothing" in FAIR_VOUCH:
        "if #kept[1] > 0 then" => "if false then";
    "a queue has no time to live" in FAIR_ACQUIRE, FAIR_VOUCH:
        "redis.call('pexpire', key, string.format('%.0f', ttl))" => "";
    "a writer is let in among readers" in WRITE_ACQUIRE:
        "seen.reads, seen.open = longest ~= nil, longest == nil"
        => "seen.reads, seen.open = false, true";
    "a reader is let in under a writer" in READ_ACQUIRE:
        "if seen.open or unknown or mode == 'write' then" => "if seen.open or unknown then";
    "a reader that wants to write is not refused" in WRITE_ACQUIRE:
        "seen.deadlock = read_hold(lock, keys[3], reads_as) ~= nil" => "seen.deadlock = false";
    "a reader gets a token of its own" in READ_ACQUIRE:
        "return {1, count, newest, lease, serial}"
        => "return {1, count, newest + 1, lease, serial}";
    "a write token stays when the lock is granted anew" in WRITE_ACQUIRE:
        "local token = math.max(previous + 1, now_micros())"
        => "local token = previous > 0 and previous or now_micros()";
    "a read release frees the lock although others read" in READ_RELEASE:
        "if redis.call('hlen', lock) == 2 then" => "if true then";
    "the last reader wakes nobody" in READ_RELEASE:
        "publish_to(publish, channel, message)" => "";
    "a read undo does nothing" in READ_UNDO:
        "local count = hold.count or 0" => "if true then return {1, 0} end\nlocal count = 0";
    "a renewal does not extend read holds" in READ_RENEW:
        "call('pexpire', key, text)" => "";
    "a renewal of a read hold cuts the leases of other readers" in READ_RENEW:
        "if call('pttl', lock) < lease then" => "if true then";
    "a reader that comes cuts the leases of other readers" in READ_ACQUIRE:
        "if seen.remaining < lease then" => "if true then";
    "a writer that becomes a reader wakes nobody" in WRITE_RELEASE:
        "  wake()\n  redis.call('hdel', lock, owner)" => "  redis.call('hdel', lock, owner)";
    "a writer's release takes its read holds too" in WRITE_RELEASE:
        "if count > 1 or redis.call('hlen', lock) <= 2 then" => "if true then";
    "a write release wakes nobody" in WRITE_RELEASE:
        "publish_to(publish, channel, message)" => "";
    "a first write token is that of the grant before" in WRITE_ACQUIRE:
        "token = time\n    call('set', counter, token, 'keepttl')" => "token = previous";
    "a last write release wakes nobody" in WRITE_RELEASE:
        "  call('publish', channel, '1')\n" => "";
    "the only reader wakes nobody" in READ_RELEASE:
        "  call('publish', KEYS[6], '0')\n" => "";
    "the only reader's release frees the lock whoever reads" in READ_RELEASE:
        "call('hlen', lock) == 2 and" => "";
    "a first fair acquire does not look at the queue" in FAIR_ACQUIRE:
        " and call('exists', KEYS[3]) == 0" => "";
    "a last fair release does not look at the queue" in FAIR_RELEASE:
        " and call('exists', KEYS[4]) == 0" => "";
    "a write undo does nothing" in WRITE_UNDO:
        "local count = hold.count or 0" => "if true then return {1, 0} end\nlocal count = 0";
    "readers do not care for a writer that waits" in READ_ACQUIRE:
        "seen.open = held_back <= 0" => "seen.open = true";
    "a writer that waits holds readers back without an end" in READ_ACQUIRE:
        "local held_back = redis.call('pttl', mark) - hold_back"
        => "local held_back = redis.call('pttl', mark) > 0 and hold_back or 0";
    "a writer that stops waiting still holds readers back" in WRITE_LEAVE:
        "if redis.call('del', KEYS[1]) == 1 then" => "if false then";
    "of several locks those that are free are taken although one is not" in MULTI_ACQUIRE:
        "    local keys, seen = member.keys, member.seen\n"
        => "    for _, other in ipairs(members) do if other.seen.open then \
            take_member(other, who) end end\n\
            local keys, seen = member.keys, member.seen\n";
    "several locks are granted whoever holds them" in MULTI_ACQUIRE:
        "if not member.seen.open then" => "if false then";
    "an undo of several locks does nothing" in MULTI_UNDO:
        "local undone = 0" => "if true then return {1} end\nlocal undone = 0";
    "the note of an earlier holder is shown"
    in LOCK_ACQUIRE, FAIR_ACQUIRE, WRITE_ACQUIRE, READ_ACQUIRE:
        "return text and serial == token and redis.call('hexists', lock, owner) == 1 and \
            text or nil"
        => "return text";
    "a reader's note of an earlier grant is shown" in WRITE_ACQUIRE:
        "if text and tonumber(redis.call('get', hold) or nil) == serial then" => "if text then";
    "a renewal forgets the note" in LOCK_RENEW:
        "reply[4 * i + 1] = extend_note(note_key(KEYS[2 * i]), lease)" => "";
    "a renewal forgets a reader's note" in READ_RENEW:
        "reply[at + 4] = extend_note(note_key(KEYS[first + 3], ARGV[2 + i]), lease)" => "";
    "one more hold does not keep the note"
    in LOCK_ACQUIRE, FAIR_ACQUIRE, READ_ACQUIRE, WRITE_ACQUIRE:
        "if request.note or seen.count then" => "if request.note then";
    "a release that leaves holds forgets the note" in LOCK_RELEASE, FAIR_RELEASE, WRITE_RELEASE:
        "extend_note(note_key(counter), math.max(ttl, 1))" => "";
    "a note has no time to live" in FAIR_ACQUIRE:
        "  extend_note(key, lease)\n" => "";

    // What the scripts of exclusive locks do in their most frequent cases, which stand by
    // themselves.

    "a first acquire does not look whether the lock is free" in LOCK_ACQUIRE:
        "if left == -2 and not ARGV[6] then" => "if not ARGV[6] then";
    "the token of a first acquire is a constant" in LOCK_ACQUIRE:
        "    end\n    return token\n" => "    end\n    return '7'\n";
    "a step of the counter goes nowhere" in LOCK_ACQUIRE:
        "token = call('incrby', counter, step)" => "token = tonumber(expected) - step";
    "a token is told before it is compared with what was expected" in LOCK_ACQUIRE:
        "if token - expected ~= 0 then" => "if false then";
    "a last release does not look at the owner" in LOCK_RELEASE:
        "    is_own = false\n" => "    is_own, count = true, '1'\n";
    "a first acquire of a held lock is answered as if it were free" in LOCK_ACQUIRE:
        "return {0, left, 0, newest}" => "return newest";
    "one more hold of a plain acquire is not counted" in LOCK_ACQUIRE:
        "      call('hset', lock, owner, count)\n" => "";
    "one more hold of a plain acquire does not keep the note" in LOCK_ACQUIRE:
        "      redis.pcall('pexpire', note, left)\n" => "";
    "a release of one of several holds takes all" in LOCK_RELEASE:
        "return {1, call('hincrby', lock, owner, -1), left}"
        => "return {1, count - call('del', lock), left}";
    "a last release tells nobody" in LOCK_RELEASE:
        "    call('publish', ARGV[4], '0')\n" => "";
    "a hand-over of a grant does not raise the counter" in GRANT_HAND_ON:
        "call('incrby', counter, step)" => "(call('get', counter) or 0) + step";
    "a hand-over of a grant leaves it there" in GRANT_HAND_ON:
        "if call('hdel', lock, ARGV[1]) == 1 then" => "if call('hexists', lock, ARGV[1]) == 1 then";
    "a hand-over of a reader does not look whether others read" in READ_HAND_ON:
        "if others > 0 then" => "if false then";
    "a hand-over of a reader takes all holds" in READ_HAND_ON:
        "call('hget', lock, reader) ~= '1'" => "not call('hget', lock, reader)";
    "a hand-over of a reader forgets the lease" in READ_HAND_ON:
        "call('pexpire', lock, ARGV[3])" => "call('persist', lock)";
    "the token of a hand-over of a reader is a constant" in READ_HAND_ON:
        "return token\n" => "return 7\n";
    "a first acquire of several locks does not look whether they are free" in MULTI_ACQUIRE:
        "are_free = call('pttl', KEYS[i]) == -2" => "are_free = true";
    "the token of a first acquire of several locks is a constant" in MULTI_ACQUIRE:
        "    return token\n" => "    return '7'\n";
    "a last release of several locks does not look at the owner" in MULTI_RELEASE:
        "  if are_own then" => "  if true then";
    "a last release of several locks publishes nothing" in MULTI_RELEASE:
        "      call('publish', KEYS[at + 2], '0')\n" => "";

    // These refuse a lock that can be had, or deny it to its owner.

    "a free lock is busy for a request with an id" in LOCK_ACQUIRE:
        "return {remaining = -2, open = true}" => "return {remaining = -2, open = KEYS[3] == nil}";
    "a try of a free fair lock is refused" in FAIR_ACQUIRE:
        "call('exists', KEYS[3]) == 0 then"
        => "call('exists', KEYS[3]) == 0 then\n\
            if ARGV[4] ~= '1' then return {0, -2, 0, 0} end";
    "a try of a free write lock is refused" in WRITE_ACQUIRE:
        "if not ARGV[7] and call('pttl', lock) == -2 then"
        => "if ARGV[4] == '' and call('pttl', lock) == -2 then return {0, 1, 0, 0} end\n\
            if not ARGV[7] and call('pttl', lock) == -2 then";
    "a reader with a request id is refused beside another one" in READ_ACQUIRE:
        "seen.open = held_back <= 0"
        => "seen.open = held_back <= 0 and not (seen.held and keys[7])";
    "several free locks are busy" in MULTI_ACQUIRE:
        "if not member.seen.open then" => "if not member.seen.open or args[11] ~= '1' then";
    "a lock is busy for its own owner" in LOCK_ACQUIRE:
        "elseif call('hlen', lock) == 1 and call('hget', lock, owner) == ARGV[6] then"
        => "elseif call('hlen', lock) == 1 and call('hget', lock, owner) == ARGV[6] then\n\
            if true then return {0, left, 0, newest} end";
    "a last release is answered as if there were no hold" in LOCK_RELEASE:
        "    call('del', lock)\n    return 1\n" => "    call('del', lock)\n    return {0, 2}\n";
    "a last fair release is refused to the owner" in FAIR_RELEASE:
        "  call('del', lock)\n  return 1\n" => "  return {0, 1}\n";
    "the only reader's release is answered as if there were no hold" in READ_RELEASE:
        "  call('unlink', lock, KEYS[4], KEYS[3] .. ':1')\n  return 1\n"
        => "  call('unlink', lock, KEYS[4], KEYS[3] .. ':1')\n  return {0, 2}\n";
    "a renewal is answered as if the lock had another owner" in LOCK_RENEW:
        "  return lease, owner\nend\n" => "  return -2, owner\nend\n";
    "a renewal without a session is answered as if nobody held the lock" in LOCK_RENEW:
        "  return lease, owner\nend\n"
        => "  return string.find(owner, 'owner') and -1 or lease, owner\nend\n";
}
