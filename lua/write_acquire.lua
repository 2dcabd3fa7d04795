-- Takes a write lock, takes it again, or tells what is left of the holders' leases; who waits has
-- new readers held back for a while.
--
-- KEYS: 1 lock, 2 fencing counter, 3 prefix of the owner's read hold keys, 4 our readers, 5 base of
--       the hold keys of any owner, 6 mark of a waiting writer, 7 record of the request (only with
--       a request id)
-- ARGV: 1 to 3 as of lock_acquire, 4 how long a waiting writer holds readers back ms; '' if it does
--       not wait, 5 to 10 as 4 to 9 of lock_acquire
-- Returns: token                                     as lock_acquire
--          {1, hold count, token, lease ms, serial}  granted
--          {5, hold count, token, lease ms, serial}  the same, as answer to a repeat
--          {0, remaining lease ms, 0, counter}       held by another, or by readers; -1: the key
--                                                    has no time to live
--          {2}                                       a repeat of a request that was granted, but
--                                                    the grant has ended
--          {3}                                       the request id was used for something else
--          {4}                                       a key is not such a lock's
--          {9}                                       the fencing counter is out of range
--          {6}                                       the owner holds it for reading and would wait
--                                                    for itself
-- Publishes: nothing

local lock, counter, owner, lease, ttl = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local step, expected, call = ARGV[5], ARGV[6], redis.call

-- The most frequent case, as in lock_acquire.lua: the lock is free.
if not ARGV[7] and call('pttl', lock) == -2 then
  -- The next token comes here.
  if token then
    -- The remains of readers whose leases have ended are deleted too.
    call('unlink', KEYS[4], KEYS[6])
    call('hset', lock, 'mode', 'write', owner, '1')
    if redis.pcall('pexpire', lock, lease) ~= 1 then
      redis.pcall('del', lock)
      call('pexpire', lock, lease)
    end
    return token
  end
end

-- The helpers come here.

local known, record = tonumber(ARGV[7] or 0), KEYS[7]
local request = {
  owner = owner, attempt = ARGV[8], retention = ARGV[9], record_refusal = ARGV[10] == '1',
  lease = lease, lock = lock, note = ARGV[11], readers_base = KEYS[5],
}

return acquire(counter, record, request, function(token)
  return look_write(KEYS, owner, string.sub(owner, 1, -7), token, known, now_millis(), new_work())
end, function(token, seen)
  return take_write(KEYS, tonumber(ttl), owner, tonumber(lease), known, token, seen)
end, function(seen)
  hold_readers_back(KEYS[6], seen, tonumber(ARGV[4]))
  return seen.remaining, 0
end)
