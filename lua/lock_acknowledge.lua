-- Acknowledges the loss of one hold to a release by force with a grace period. The lock becomes free,
-- and wakes the waiters, when this has been done for every hold.
--
-- KEYS: 1 lock, 2 channel, 3 queue, 4 deadlines of the queue, 5 vouched waiters, 6 channel of the
--       read/write lock
-- ARGV: 1 former owner, 2 publish command, 3 message, 4 message for all, 5 how long a waiter that
--       nobody vouches for keeps its place ms
-- Returns: {1}  the lock is free from now on
--          {0}  others have not acknowledged yet, or there is nothing to acknowledge
-- Publishes: as lock_force, when the lock becomes free

local lock, publish = KEYS[1], ARGV[2]
local mode = redis.call('hget', lock, 'mode')
local mark = forced_mark(ARGV[1], mode)
local holds = tonumber(redis.call('hget', lock, mark) or nil)
if not holds then
  return {0}
elseif holds > 1 then
  redis.call('hincrby', lock, mark, -1)
  return {0}
elseif redis.call('hlen', lock) > (mode and 2 or 1) then
  redis.call('hdel', lock, mark)
  return {0}
end
if mode then
  publish_to(publish, KEYS[6], ARGV[4])
else
  publish_to(publish, KEYS[2], ARGV[3])
end
redis.call('del', lock)
if not mode and redis.call('llen', KEYS[3]) > 0 then
  wake_head({
    queue = KEYS[3], deadlines = KEYS[4], vouched = KEYS[5],
    patience = tonumber(ARGV[5]), channel = KEYS[2], publish = publish, message = ARGV[3],
  }, now_millis())
end
return {1}
