-- The queue of a fair lock: Redisson's list of owners and its sorted set of when each of them counts as dead (ms), and a sorted set of our own:
-- until when a coordinator has vouched for its waiter. Scores that Redisson's scripts change, or evict a live waiter by, are put right when its
-- coordinator vouches again; so a live waiter keeps its place.
--
-- q: queue, deadlines, vouched (keys), channel (without the owner), publish (command), message, patience ms

-- Redisson takes this much off the score of everybody behind a waiter that got the lock (its fairLockWaitTimeout).
local REDISSON_WAIT = 300000
-- The keys outlive the latest deadline by this much.
local QUEUE_RETENTION = 600000
-- So many waiters that do not listen are looked past. (A server of a cluster does not know of listeners at others.)
local WOKEN_MAX = 100

local function leave_queue(q, owner)
  redis.call('zrem', q.deadlines, owner)
  redis.call('zrem', q.vouched, owner)
  redis.call('lrem', q.queue, 1, owner)
end

-- The keys end by themselves when nobody looks after them any more.
local function keep_queue(q, now)
  local last = redis.call('zrevrange', q.deadlines, 0, 0, 'withscores')
  if last[1] then
    local ttl = math.max(tonumber(last[2]) - now, 0) + QUEUE_RETENTION
    for _, key in ipairs({q.queue, q.deadlines, q.vouched}) do
      redis.call('pexpire', key, string.format('%.0f', ttl))
    end
  end
end

-- The owner's coordinator lives. `others` of another program stand before it.
local function vouch(q, owner, now, others)
  redis.call('zadd', q.deadlines, string.format('%.0f', now + q.patience + others * REDISSON_WAIT), owner)
  redis.call('zadd', q.vouched, string.format('%.0f', now + q.patience), owner)
end

-- How many of another program stand in the queue, without a walk through all of it: the last of ours knows how many stand before it.
local function others_in_queue(q)
  local others = 0
  while true do
    local owner = redis.call('lindex', q.queue, -1 - others)
    if not owner then
      return others
    end
    local vouched = tonumber(redis.call('zscore', q.vouched, owner) or nil)
    if vouched then
      local deadline = tonumber(redis.call('zscore', q.deadlines, owner) or nil) or vouched
      return others + math.max(math.floor((deadline - vouched) / REDISSON_WAIT + 0.5), 0)
    end
    others = others + 1
  end
end

-- Whether the head of another program is to be passed over. One that listens lives and is woken by the way; one that does not gets the patience to
-- come back: a Redisson waiter listens to its own channel all the time.
local function is_dead(q, head, now)
  local deadline = tonumber(redis.call('zscore', q.deadlines, head) or nil)
  local listeners = publish_to(q.publish, q.channel .. ':' .. head, q.message)
  if listeners == 0 and deadline and deadline <= now then
    return true
  end
  if not deadline or deadline <= now or (listeners == 0 and deadline > now + q.patience) then
    redis.call('zadd', q.deadlines, string.format('%.0f', now + q.patience), head)
  end
  return false
end

-- Takes dead waiters off the head of the queue. Returns the head, and whether it has been woken.
local function live_head(q, now, free)
  while true do
    local head = redis.call('lindex', q.queue, 0)
    if not head then
      return nil
    end
    local vouched = tonumber(redis.call('zscore', q.vouched, head) or nil)
    if vouched then
      if vouched > now then
        return head, false
      end
    else
      local deadline = tonumber(redis.call('zscore', q.deadlines, head) or nil)
      if not free and deadline and deadline > now then
        return head, false
      elseif not is_dead(q, head, now) then
        return head, true
      end
    end
    redis.call('lpop', q.queue)
    redis.call('zrem', q.deadlines, head)
    redis.call('zrem', q.vouched, head)
  end
end

-- Wakes the first live waiter of a lock that has become free. One that does not listen may have died while it was still vouched for; then the next
-- that listens is woken too, so that it comes when the other's time is over: a Redisson waiter would sleep for the lease that it was told of.
local function wake_head(q, now)
  local head, woken = live_head(q, now, true)
  local place = 0
  while head and not woken and place < WOKEN_MAX do
    woken = publish_to(q.publish, q.channel .. ':' .. head, q.message) > 0
    place = place + 1
    head = redis.call('lindex', q.queue, place)
  end
end
