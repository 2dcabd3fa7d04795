-- Puts a waiter of a fair lock first in the queue. The order of the others stays. Safe to repeat.
--
-- KEYS: 1 lock, 2 queue, 3 deadlines of the queue, 4 vouched waiters
-- ARGV: 1 owner, 2 how long a waiter that nobody vouches for keeps its place ms, 3 channel, to be
--       followed by the owner that is woken, 4 publish command, 5 message
-- Returns: {1}  it is the first
--          {0}  it does not wait
-- Publishes: the message on the channel of the first waiter if the lock is free

local owner = ARGV[1]
local q = {
  queue = KEYS[2], deadlines = KEYS[3], vouched = KEYS[4],
  patience = tonumber(ARGV[2]), channel = ARGV[3], publish = ARGV[4], message = ARGV[5],
}
if not redis.call('zscore', q.deadlines, owner) or not redis.call('zscore', q.vouched, owner) then
  return {0}
end
-- First, because a store that is out of memory refuses it.
redis.call('lpush', q.queue, owner)
redis.call('lrem', q.queue, -1, owner)
if redis.call('exists', KEYS[1]) == 0 then
  wake_head(q, now_millis())
end
return {1}
