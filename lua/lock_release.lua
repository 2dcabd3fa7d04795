-- Gives one hold of an exclusive or fair lock back; the last one frees the lock and wakes a waiter.
--
-- KEYS: 1 lock, 2 fencing counter, 3 channel, 4 queue, 5 deadlines of the queue, 6 vouched waiters (4 to 6 of a fair lock, else the lock),
--       7 record of the request (only with a request id)
-- ARGV: 1 owner, 2 lease ms that a hold which remains gets, 3 retention of the record ms, 4 publish command, 5 message,
--       6 serial of the grant to give back; '' if the caller does not know it,
--       7 of a fair lock how long a waiter that nobody vouches for keeps its place ms; '' of an exclusive one
-- Returns: {1, holds left, lease ms}  given back
--          {5, holds left then, holds now, remaining lease ms}  the same, as answer to a repeat; the lease is -2 if nobody holds it
--          {0, 1}  not the owner: another one holds it
--          {0, 2}  not the owner: the grant has ended, and nobody holds the lock or the same owner by a newer grant
--          {0, 3}  not the owner: no grant of the name is known
--          {0, 4}  not the owner in this mode: it holds the lock in the other one (of a read/write lock)
--          {3}     the request id was used for something else
--          {4}     the key is not such a lock's
-- Publishes: the message when the lock becomes free: on the channel, of a fair lock on that of the first waiter

local lock, counter, channel = KEYS[1], KEYS[2], KEYS[3]
local request = {owner = ARGV[1], retention = ARGV[3]}
local lease, publish, message = tonumber(ARGV[2]), ARGV[4], ARGV[5]

local hold = sole_hold(lock, counter, request.owner, tonumber(ARGV[6]))
if not hold then
  return {4}
end
return release(KEYS[7], request, hold, function()
  local ttl = math.max(lease, hold.left)
  return drop_hold(lock, request.owner, hold.count, ttl, wake_sole(KEYS, ARGV[7], publish, message)), ttl
end)
