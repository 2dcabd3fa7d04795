-- The queue of a fair lock: Redisson's list of owners, its sorted set of the time (ms) at which
-- each counts as dead, and a sorted set of our own: the time until which a coordinator vouches for
-- its waiter. Redisson's scripts may change a score, or remove a live waiter by it. The waiter's
-- coordinator repairs that when it next vouches, so a live waiter keeps its place.
--
-- q: queue, deadlines, vouched (keys), channel (without the owner), publish (command), message,
-- patience ms

-- Redisson subtracts this from every score behind a waiter that got the lock (fairLockWaitTimeout).
local REDISSON_WAIT = 300000
-- The keys outlive the latest deadline by this much.
local QUEUE_RETENTION = 600000
-- One run of a script looks at this many waiters, whatever is in the queue.
local LOOKED_AT_MAX = 1000

-- Redisson's waiters do not extend the time to live that `keep_queue` sets, and expect none. PCALL, as
-- the owner has left by then.
local function leave_to_others(q)
  if redis.call('exists', q.vouched) == 0 then
    redis.pcall('persist', q.queue)
    redis.pcall('persist', q.deadlines)
  end
end

local function leave_queue(q, owner)
  redis.call('zrem', q.deadlines, owner)
  redis.call('zrem', q.vouched, owner)
  redis.call('lrem', q.queue, 1, owner)
  leave_to_others(q)
end

-- The keys expire when no coordinator keeps them.
local function keep_queue(q, now)
  local last = redis.call('zrevrange', q.deadlines, 0, 0, 'withscores')
  if last[1] then
    local ttl = math.max(tonumber(last[2]) - now, 0) + QUEUE_RETENTION
    for _, key in ipairs({q.queue, q.deadlines, q.vouched}) do
      redis.call('pexpire', key, string.format('%.0f', ttl))
    end
  end
end

-- The owner's coordinator is alive. `others`: waiters of another program ahead of it.
local function vouch(q, owner, now, others)
  redis.call('zadd', q.deadlines, string.format('%.0f', now + q.patience + others * REDISSON_WAIT), owner)
  redis.call('zadd', q.vouched, string.format('%.0f', now + q.patience), owner)
end

-- Returns how many waiters of another program were ahead of ours when it was vouched for.
local function others_before(deadline, vouched)
  return math.max(math.floor((deadline - vouched) / REDISSON_WAIT + 0.5), 0)
end

-- Returns how many waiters belong to another program. Our last waiter knows how many are ahead of
-- it, so there is no need to read the whole queue.
local function others_in_queue(q)
  local others = 0
  while others < LOOKED_AT_MAX do
    local owner = redis.call('lindex', q.queue, -1 - others)
    if not owner then
      return others
    end
    local vouched = tonumber(redis.call('zscore', q.vouched, owner) or nil)
    if vouched then
      local deadline = tonumber(redis.call('zscore', q.deadlines, owner) or nil) or vouched
      return others + others_before(deadline, vouched)
    end
    others = others + 1
  end
  return others
end
