-- Read holds, as in Redisson's RReadWriteLock: in the lock's hash `mode` and owner -> count, and
-- for each hold a key whose time to live is the hold's lease. We read only the key of an owner's
-- newest hold; its value is the grant's serial. A sorted set of our own lists our readers by the
-- end of their leases (ms), so that a release need not read all of them.

local function hold_key(prefix, hold)
  return prefix .. ':' .. string.format('%.0f', hold)
end

-- Returns the owner's grant: holds, ms of its lease, serial; nil if it has none or its lease has
-- ended.
local function read_hold(lock, prefix, owner)
  local count = tonumber(redis.call('hget', lock, owner) or nil)
  if not count then
    return nil
  end
  local key = hold_key(prefix, count)
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

-- Writes the owner's newest hold with its lease, and that it is one of our readers.
local function write_read_hold(prefix, readers, owner, count, lease, serial, now)
  redis.call('set', hold_key(prefix, count), string.format('%.0f', serial), 'px', lease)
  local known = redis.call('pttl', readers)
  redis.call('zadd', readers, string.format('%.0f', now + lease), owner)
  if known == -2 then
    expire_new(readers, lease)
  elseif known < lease then
    redis.call('pexpire', readers, string.format('%.0f', lease))
  end
end
