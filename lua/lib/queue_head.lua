-- The head of the queue of a fair lock: dead waiters are removed from it, and it is woken.

-- At most this many waiters without a subscriber are skipped. (A cluster server knows only its
-- own.)
local WOKEN_MAX = 100
-- One run removes this many dead ones.
local REMOVED_MAX = 150

-- Whether to skip a head of another program. A head that listens is alive, and this wakes it. One
-- that does not gets the patience to return: a Redisson waiter always listens to its own channel.
local function is_dead(q, head, now)
  local deadline = tonumber(redis.call('zscore', q.deadlines, head) or nil)
  local listeners = publish_to(q.publish, q.channel .. ':' .. head, q.message)
  if listeners == 0 and deadline and deadline <= now then
    return true
  end
  if not deadline or deadline <= now or (listeners == 0 and deadline > now + q.patience) then
    -- PCALL, because a release wakes before it writes, and a store that is out of memory would refuse
    -- both.
    redis.pcall('zadd', q.deadlines, string.format('%.0f', now + q.patience), head)
  end
  return false
end

-- Removes dead waiters from the head. Returns the head, and whether it has been woken. If the dead
-- are more than one run removes, the head is one of them.
local function live_head(q, now, free)
  local removed = 0
  while true do
    local head = redis.call('lindex', q.queue, 0)
    if not head then
      return nil
    elseif removed == REMOVED_MAX then
      return head, false
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
    leave_queue(q, head)
    removed = removed + 1
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
