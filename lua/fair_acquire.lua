-- Takes a fair lock if it is free and nobody waits before the owner, takes it again, or queues the
-- owner up.
--
-- KEYS: 1 lock, 2 fencing counter, 3 queue, 4 deadlines of the queue, 5 vouched waiters, 6 record
--       of the request (only with a request id)
-- ARGV: 1 to 3 as of lock_acquire, 4 '1' to queue up, 5 how long a waiter that nobody vouches for
--       keeps its place ms, 6 channel, to be followed by the owner that is woken, 7 publish
--       command, 8 to 16 as 4 to 12 of lock_acquire
-- Returns: token                                     as lock_acquire
--          {1, hold count, token, lease ms, serial}  granted
--          {5, hold count, token, lease ms, serial}  the same, as answer to a repeat
--          {0, remaining lease ms, place, counter, note}
--                                                    not granted; -1: no time to live, -2: free,
--                                                    but others come first; the place in the queue
--                                                    if it is known, else 0; note as lock_acquire
--          {2}                                       a repeat of a request that was granted, but
--                                                    the grant has ended
--          {3}                                       the request id was used for something else
--          {4}                                       a key is not such a lock's
-- Publishes: 0 on the channel of a head of another program that may take the lock

local lock, counter, owner, lease, ttl = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local step, expected, call = ARGV[8], ARGV[9], redis.call

-- The most frequent case, as in lock_acquire.lua: the lock is free, and nobody waits.
if not ARGV[10] and call('pttl', lock) == -2 and call('exists', KEYS[3]) == 0 then
  -- The next token comes here.
  if token then
    call('hset', lock, owner, '1')
    if redis.pcall('pexpire', lock, lease) ~= 1 then
      redis.pcall('del', lock)
      call('pexpire', lock, lease)
    end
    return token
  end
end

-- The helpers come here.

local known, record = tonumber(ARGV[10] or 0), KEYS[6]
local request = {
  owner = record and owner_of(owner), field = owner,
  attempt = ARGV[11], lease = lease, retention = ARGV[12], record_refusal = ARGV[13] == '1',
  lock = lock, note = ARGV[14] ~= '' and ARGV[14] or nil, least = tonumber(ARGV[15]),
  delay = tonumber(ARGV[16]),
}
local q = {
  queue = KEYS[3], deadlines = KEYS[4], vouched = KEYS[5],
  patience = tonumber(ARGV[5]), channel = ARGV[6], publish = ARGV[7], message = '0',
}
local now = now_millis()

return acquire(counter, record, request, function(token)
  local seen = look_sole(lock, owner, token, known)
  if seen and not seen.count then
    seen.head = live_head(q, now, seen.remaining == -2)
    seen.open = seen.open and (not seen.head or seen.head == owner)
  end
  return seen
end, function(token, seen)
  local count, newest, held_for, serial = take_sole(lock, counter, tonumber(ttl), owner, tonumber(lease), known, token, seen)
  if seen.head == owner then
    leave_queue(q, owner)
  end
  return count, newest, held_for, serial
end, function(seen)
  local place = seen.head == owner and 1 or 0
  if ARGV[4] ~= '1' then
    return seen.remaining, place
  end
  if not redis.call('zscore', q.deadlines, owner) then
    local others = others_in_queue(q)
    -- Another program's script removed this waiter as dead, although its coordinator still vouches
    -- for it. It was first then, so it becomes first again.
    if tonumber(redis.call('zscore', q.vouched, owner) or 0) > now then
      redis.call('lpush', q.queue, owner)
      place, others = 1, 0
    else
      place = redis.call('rpush', q.queue, owner)
    end
    vouch(q, owner, now, others)
    keep_queue(q, now)
  end
  return seen.remaining, place
end)
