-- Read holds, as in Redisson's RReadWriteLock: in the lock's hash `mode` and owner -> count, and
-- for each hold a key whose time to live is the hold's lease. We read only the key of an owner's
-- newest hold; its value is the grant's serial. A sorted set of our own lists our readers by the
-- end of their leases (ms), so that a release need not read all of them.

-- Returns the owner's grant: holds, ms of its lease, serial; nil if it has none or its lease has
-- ended.
local function read_hold(lock, prefix, owner)
  local count = tonumber(redis.call('hget', lock, owner) or nil)
  if not count then
    return nil
  end
  local key = prefix .. ':' .. string.format('%.0f', count)
  local left = redis.call('pttl', key)
  if left == -2 then
    return nil
  end
  return count, left, tonumber(redis.call('get', key) or nil)
end

local function keep_at_least(key, ttl)
  if redis.call('pttl', key) < ttl then
    redis.call('pexpire', key, string.format('%.0f', ttl))
  end
end

-- Writes the owner's newest hold with its lease; `lock` lives as long as the longest hold.
local function write_read_hold(lock, prefix, readers, owner, count, lease, serial, now)
  redis.call('set', prefix .. ':' .. string.format('%.0f', count), string.format('%.0f', serial), 'px', lease)
  redis.call('zadd', readers, string.format('%.0f', now + lease), owner)
  keep_at_least(lock, lease)
  keep_at_least(readers, lease)
end

-- Returns the longest remaining lease of our readers, nil if there are none.
local function longest_of_ours(lock, readers, now)
  while true do
    local last = redis.call('zrevrange', readers, 0, 0, 'withscores')
    local ends = tonumber(last[2])
    if not ends or ends <= now then
      return nil
    elseif redis.call('hexists', lock, last[1]) == 1 then
      return ends - now
    end
    redis.call('zrem', readers, last[1])
  end
end

-- A program that sent a hold twice may have inflated its count, so scripts limit the number of keys
-- that they read.
local HOLDS_LOOKED_AT = 100

-- Returns the longest remaining read lease, nil if there is none, and removes readers whose leases
-- have ended. `base`: of the hold keys of all owners.
local function longest_read(lock, readers, base, now)
  local longest = longest_of_ours(lock, readers, now)
  if longest then
    return longest
  end
  local fields = redis.call('hgetall', lock)
  for i = 1, #fields, 2 do
    local owner, count = fields[i], tonumber(fields[i + 1])
    if count and string.sub(owner, -6) ~= ':write' then
      local left = -2
      for hold = count, math.max(count - HOLDS_LOOKED_AT, 1), -1 do
        left = math.max(left, redis.call('pttl', base .. ':' .. owner .. ':rwlock_timeout:' .. string.format('%.0f', hold)))
      end
      if left < 0 then
        redis.call('hdel', lock, owner)
        redis.call('zrem', readers, owner)
      end
      longest = left >= 0 and math.max(longest or 0, left) or longest
    end
  end
  return longest
end
