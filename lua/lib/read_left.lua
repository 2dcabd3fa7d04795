-- What is left of the leases of all readers of a lock, and the removal of those whose leases have
-- ended.

-- At most this many elements are looked at in one run of a script, whatever is in the keys.
local LOOKED_AT_MAX = 500
-- A program that sent a hold twice may have inflated its count, so scripts limit the number of keys
-- that they read.
local HOLDS_LOOKED_AT = 100
-- What is left of the readers' leases, in ms, while not all readers have been looked at.
local LOOK_AGAIN = 100

-- What a script may still look at.
local function new_work()
  return {left = LOOKED_AT_MAX}
end

-- Returns the longest remaining lease of our readers, nil if there are none.
local function longest_of_ours(lock, readers, now, work)
  while work.left > 0 do
    local last = redis.call('zrevrange', readers, 0, 0, 'withscores')
    local ends = tonumber(last[2])
    if not ends or ends <= now then
      return nil
    elseif redis.call('hexists', lock, last[1]) == 1 then
      return ends - now
    end
    redis.call('zrem', readers, last[1])
    work.left = work.left - 1
  end
end

-- Returns what is left of a reader's lease; -2 if it has ended.
local function left_of(base, owner, count, work)
  local left, hold = -2, count
  while hold >= 1 and hold > count - HOLDS_LOOKED_AT and work.left > 0 do
    left = math.max(left, redis.call('pttl', base .. ':' .. owner .. ':rwlock_timeout:' .. string.format('%.0f', hold)))
    hold, work.left = hold - 1, work.left - 1
  end
  return left
end

-- Returns the longest remaining read lease, nil if there is none, and removes readers whose leases
-- have ended. `base`: of the hold keys of all owners. If they are more than the script may look at,
-- the lock counts as held, and the second result is true: the next run looks at others.
local function longest_read(lock, readers, base, now, work)
  local longest = longest_of_ours(lock, readers, now, work)
  if longest then
    return longest
  elseif work.left <= 0 then
    return LOOK_AGAIN, true
  end
  local page = redis.call('hscan', lock, '0', 'count', work.left)
  local fields = page[2]
  for i = 1, #fields, 2 do
    local owner, count = fields[i], tonumber(fields[i + 1])
    if count and string.sub(owner, -6) ~= ':write' then
      local left = left_of(base, owner, count, work)
      if left >= 0 then
        longest = math.max(longest or 0, left)
      elseif work.left <= 0 then
        return math.max(longest or 0, LOOK_AGAIN), true
      else
        redis.call('hdel', lock, owner)
        redis.call('zrem', readers, owner)
      end
    end
  end
  if page[1] ~= '0' then
    return math.max(longest or 0, LOOK_AGAIN), true
  end
  return longest
end

-- Removes readers of ours whose leases have ended, some of them if they are many.
local function sweep_readers(lock, readers, base, now, work)
  for _, owner in ipairs(redis.call('zrangebyscore', readers, '-inf', now, 'limit', 0, work.left)) do
    local count = tonumber(redis.call('hget', lock, owner) or nil)
    if not count or (left_of(base, owner, count, work) == -2 and work.left > 0) then
      redis.call('hdel', lock, owner)
      redis.call('zrem', readers, owner)
    end
  end
end
