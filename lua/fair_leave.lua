-- Takes a waiter out of the queue of a fair lock. Safe to repeat.
--
-- KEYS: 1 lock, 2 queue, 3 deadlines of the queue, 4 vouched waiters
-- ARGV: 1 owner, 2 how long a waiter that nobody vouches for keeps its place ms, 3 channel, to be
--       followed by the owner that is woken, 4 publish command, 5 message
-- Returns: {1}
-- Publishes: the message on the channel of the first waiter if the lock is free

local q = {
  queue = KEYS[2], deadlines = KEYS[3], vouched = KEYS[4],
  patience = tonumber(ARGV[2]), channel = ARGV[3], publish = ARGV[4], message = ARGV[5],
}
leave_queue(q, ARGV[1])
if redis.call('exists', KEYS[1]) == 0 then
  wake_head(q, now_millis())
end
return {1}
