-- Says of waiters of a fair lock that they live, and tells where they stand.
--
-- KEYS: 1 lock, 2 queue, 3 deadlines of the queue, 4 vouched waiters
-- ARGV: 1 how long a waiter that nobody vouches for keeps its place ms, 2 channel, to be followed
--       by the owner that is woken, 3 publish command, 4 message, then the owners, in the order
--       they came
-- Returns: {remaining lease ms, then for each owner its place in the queue; 0: it is not in the
--           queue}; the lease is -2 if nobody holds the lock, -1 if it has no time to live
-- Publishes: the message on the channel of the first waiter if the lock is free

local lock = KEYS[1]
local q = {
  queue = KEYS[2], deadlines = KEYS[3], vouched = KEYS[4],
  patience = tonumber(ARGV[1]), channel = ARGV[2], publish = ARGV[3], message = ARGV[4],
}
local now = now_millis()

-- Waiters that another program's script removed as dead were ahead of all that remain. An owner
-- that waits twice is listed twice.
for i = #ARGV, 5, -1 do
  if redis.call('zscore', q.vouched, ARGV[i]) and not redis.call('zscore', q.deadlines, ARGV[i]) then
    redis.call('lpush', q.queue, ARGV[i])
    redis.call('zadd', q.deadlines, string.format('%.0f', now), ARGV[i])
  end
end

local ours = {}
for _, owner in ipairs(redis.call('zrange', q.vouched, 0, -1)) do
  ours[owner] = true
end
local places, others, before = {}, 0, {}
for place, owner in ipairs(redis.call('lrange', q.queue, 0, -1)) do
  places[owner], before[owner] = place, others
  if not ours[owner] then
    others = others + 1
  end
end

local remaining = redis.call('pttl', lock)
local reply = {remaining}
for i = 5, #ARGV do
  local place = ours[ARGV[i]] and places[ARGV[i]]
  if place then
    vouch(q, ARGV[i], now, before[ARGV[i]])
  end
  reply[i - 3] = place or 0
end
if remaining == -2 then
  wake_head(q, now)
else
  live_head(q, now, false)
end
keep_queue(q, now)
return reply
