-- Gives one hold of a fair lock back; the last one frees the lock and wakes the first waiter.
--
-- KEYS: 1 lock, 2 fencing counter, 3 channel, 4 queue, 5 deadlines of the queue, 6 vouched waiters,
--       7 record of the request (only with a request id)
-- ARGV: 1 to 6 as of lock_release, 7 how long a waiter that nobody vouches for keeps its place ms
-- Returns: as lock_release
-- Publishes: the message on the channel of the first waiter when the lock becomes free

local lock, counter, channel = KEYS[1], KEYS[2], KEYS[3]
local request = {owner = ARGV[1], retention = ARGV[3]}
local lease, publish, message = tonumber(ARGV[2]), ARGV[4], ARGV[5]

local hold = sole_hold(lock, counter, request.owner, tonumber(ARGV[6]), KEYS[7])
if not hold then
  return {4}
end
return release(KEYS[7], request, hold, function()
  local ttl = math.max(lease, hold.left)
  return drop_hold(lock, request.owner, hold.count, ttl, wake_sole(KEYS, ARGV[7], publish, message)), ttl
end)
