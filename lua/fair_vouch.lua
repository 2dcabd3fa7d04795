-- Says of waiters of a fair lock that they live, and tells where they stand.
--
-- KEYS: 1 lock, 2 queue, 3 deadlines of the queue, 4 vouched waiters, 5 fencing counter
-- ARGV: 1 how long a waiter that nobody vouches for keeps its place ms, 2 channel, to be followed
--       by the owner that is woken, 3 publish command, 4 message, then the owners, in the order
--       they came, at most 1000
-- Returns: {remaining lease ms, then for each owner its place in the queue; 0: it is not in the
--           queue, 1001: behind the first 1000, then the holder's note, if it has one}; the lease
--           is -2 if nobody holds the lock, -1 if it has no time to live
-- Publishes: the message on the channel of the first waiter if the lock is free

local lock = KEYS[1]
local q = {
  queue = KEYS[2], deadlines = KEYS[3], vouched = KEYS[4],
  patience = tonumber(ARGV[1]), channel = ARGV[2], publish = ARGV[3], message = ARGV[4],
}
local now = now_millis()

local owners = {unpack(ARGV, 5)}
local deadlines = redis.call('zmscore', q.deadlines, unpack(owners))
local vouched = redis.call('zmscore', q.vouched, unpack(owners))

-- Waiters that another program's script removed as dead were ahead of all that remain. An owner
-- that waits twice is listed twice.
local lost = {}
for i = #owners, 1, -1 do
  local owner = owners[i]
  if tonumber(vouched[i] or 0) > now and not deadlines[i] and not lost[owner] then
    lost[owner] = true
    redis.call('lpush', q.queue, owner)
    redis.call('zadd', q.deadlines, string.format('%.0f', now), owner)
  end
end

local places, others, before = {}, 0, {}
local first = redis.call('lrange', q.queue, 0, LOOKED_AT_MAX - 1)
local ours = #first > 0 and redis.call('zmscore', q.vouched, unpack(first)) or {}
for place, owner in ipairs(first) do
  places[owner], before[owner] = place, others
  if not ours[place] then
    others = others + 1
  end
end

local remaining = redis.call('pttl', lock)
local reply, kept = {remaining}, {{}, {}}
for i, owner in ipairs(owners) do
  local place = vouched[i] and (places[owner] or (#first == LOOKED_AT_MAX and LOOKED_AT_MAX + 1))
  if place then
    local ahead = before[owner] or others_before(tonumber(deadlines[i] or vouched[i]), tonumber(vouched[i]))
    local scores = {now + q.patience + ahead * REDISSON_WAIT, now + q.patience}
    for k = 1, 2 do
      kept[k][#kept[k] + 1] = string.format('%.0f', scores[k])
      kept[k][#kept[k] + 1] = owner
    end
  end
  reply[i + 1] = place or 0
end
if #kept[1] > 0 then
  redis.call('zadd', q.deadlines, unpack(kept[1]))
  redis.call('zadd', q.vouched, unpack(kept[2]))
end
if remaining == -2 then
  wake_head(q, now)
else
  live_head(q, now, false)
  local token = read_token(KEYS[5])
  reply[#reply + 1] = holder_note(lock, KEYS[5], token)
end
keep_queue(q, now)
return reply
