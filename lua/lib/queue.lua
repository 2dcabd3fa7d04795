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
-- At most this many waiters without a subscriber are skipped. (A cluster server knows only its
-- own.)
local WOKEN_MAX = 100

local function leave_queue(q, owner)
  redis.call('zrem', q.deadlines, owner)
  redis.call('zrem', q.vouched, owner)
  redis.call('lrem', q.queue, 1, owner)
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

-- Returns how many waiters belong to another program. Our last waiter knows how many are ahead of
-- it, so there is no need to read the whole queue.
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

-- Whether to skip a head of another program. A head that listens is alive, and this wakes it. One
-- that does not gets the patience to return: a Redisson waiter always listens to its own channel.
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

-- Removes dead waiters from the head. Returns the head, and whether it has been woken.
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

-- Wakes the first live waiter of a free lock. If it does not listen, it may have died while still
-- vouched for. Then the next waiter that listens is woken too, to come when the first one's time is
-- over: a Redisson waiter would sleep for the whole lease it knows of.
local function wake_head(q, now)
  local head, woken = live_head(q, now, true)
  local place = 0
  while head and not woken and place < WOKEN_MAX do
    woken = publish_to(q.publish, q.channel .. ':' .. head, q.message) > 0
    place = place + 1
    head = redis.call('lindex', q.queue, place)
  end
end
