-- Gives one hold of a fair lock back; the last one frees the lock and wakes the first waiter.
--
-- KEYS: 1 lock, 2 fencing counter, 3 channel, 4 queue, 5 deadlines of the queue, 6 vouched waiters,
--       7 record of the request (only with a request id)
-- ARGV: 1 to 3 as of lock_release, 4 how long a waiter that nobody vouches for keeps its place ms,
--       5 publish command; not there: PUBLISH, 6 retention of the record ms (only with a request
--       id or a note), 7 '1' if the grant has a note (only then)
-- Returns: as lock_release
-- Publishes: 0 on the channel of the first waiter when the lock becomes free

local lock, counter, owner, serial, call = KEYS[1], KEYS[2], ARGV[1], ARGV[2], redis.call

-- The most frequent case, as in lock_release.lua; and nobody waits.
if
  not KEYS[7] and not ARGV[7] and call('hlen', lock) == 1 and call('hget', lock, owner) == '1'
  and call('get', counter) == serial and call('exists', KEYS[4]) == 0
then
  call('del', lock)
  return 1
end

-- The helpers come here.

local lease, publish, record = tonumber(ARGV[3]), ARGV[5] or 'PUBLISH', KEYS[7]
local hold = sole_hold(lock, counter, owner, tonumber(serial), record)
if not hold then
  return {4}
end
return release(record, {owner = record and owner_of(owner), retention = ARGV[6]}, hold, function()
  local ttl = math.max(lease, hold.left)
  return drop_hold(lock, counter, hold, ttl, wake_sole(KEYS, ARGV[4], publish, '0')), ttl
end)
