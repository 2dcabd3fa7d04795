-- Read holds, as Redisson's RReadWriteLock keeps them: in the lock's hash `mode` and owner -> count, and for each hold a key of its own whose time to
-- live is the hold's lease. We look at the key of an owner's newest hold only; its value is the serial of the grant. A sorted set of our own has
-- our readers by the end of their leases (ms), so that a release need not look at all of them.

-- The owner's grant: holds, ms of its lease, serial; nil if it has none or its lease is over.
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

-- Ours whose lease ends last: what is left of it, nil if there is none.
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

-- A program that sent a hold twice may have inflated its count; a script must not look at as many keys as it says.
local HOLDS_LOOKED_AT = 100

-- What is left of the longest read lease, nil if there is none. Readers whose leases are over are forgotten by the way. `base`: of the hold keys of any
-- owner.
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
