-- Takes a write lock, takes it again, or tells what is left of the holders' leases; who waits has
-- new readers held back for a while.
--
-- KEYS: 1 lock, 2 fencing counter, 3 prefix of the owner's read hold keys, 4 our readers, 5 base of
--       the hold keys of any owner, 6 mark of a waiting writer, 7 record of the request (only with
--       a request id)
-- ARGV: 1 to 7 as of lock_acquire, 8 the owner as a reader, 9 how long a waiting writer holds
--       readers back ms; '' if it does not wait
-- Returns: {1, hold count, token, lease ms, serial}  granted
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

local record = KEYS[7]
local owner, lease, counter_ttl, known = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[7])
local request = {owner = owner, attempt = ARGV[4], retention = ARGV[5], record_refusal = ARGV[6] == '1'}

return acquire(KEYS[2], record, request, function(token)
  return look_write(KEYS, owner, ARGV[8], token, known, now_millis(), new_work())
end, function(token, seen)
  return take_write(KEYS, counter_ttl, owner, lease, known, token, seen)
end, function(seen)
  hold_readers_back(KEYS[6], seen, tonumber(ARGV[9]))
  return seen.remaining, 0
end)
