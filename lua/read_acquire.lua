-- Takes a read hold, one more by the same owner, or tells what is left of the writer's lease.
--
-- KEYS: 1 lock, 2 fencing counter, 3 prefix of the owner's hold keys, 4 our readers, 5 mark of a
--       waiting writer, 6 base of the hold keys of any owner, 7 record of the request (only with a
--       request id)
-- ARGV: 1 to 7 as of lock_acquire, 8 field of the owner's write hold, 9 serial of the grant if it
--       is a new one, 10 how long a waiting writer holds readers back ms, 11 how many may hold the
--       lock
-- Returns: {1, hold count, token of the last writer, lease ms, serial}  granted
--          {5, hold count, token of the last writer, lease ms, serial}  the same, as answer to a
--                                                                       repeat
--          {0, remaining lease ms, 0, counter}  a writer holds it, or waits and is let go first;
--                                               -1: the key has no time to live
--          {2}                                  a repeat of a request that was granted, but the
--                                               grant has ended
--          {3}                                  the request id was used for something else
--          {4}                                  a key is not such a lock's
--          {9}                                  the fencing counter is out of range
--          {10}                                 as many hold it as may
-- Publishes: nothing

local lock, counter, prefix, readers, base, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[6], KEYS[7]
local owner, lease, known = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[7])
local request = {owner = owner, attempt = ARGV[4], retention = ARGV[5], record_refusal = ARGV[6] == '1'}
local now = now_millis()

return acquire(counter, record, request, function()
  return look_read(KEYS, owner, ARGV[8], tonumber(ARGV[10]), known, base, tonumber(ARGV[11]), now, new_work())
end, function(token, seen)
  return take_read(lock, prefix, readers, owner, lease, known, tonumber(ARGV[9]), token, seen, now)
end, function(seen)
  return seen.remaining, 0
end)
