-- Redisson stores a semaphore and a latch alike, as a number under the name, so a key of our own
-- records the kind. It expires when the name has been idle for long. Then, as for a number that a
-- Redisson client created, the caller's kind is accepted.

-- Returns the number under a name; nil if there is none, false if it is not a number or is of
-- another kind. Only a semaphore has `leases`.
local function read_number(key, kind, wanted, leases)
  local value, known = redis.call('get', key), redis.call('get', kind)
  if redis.call('zcard', leases) > 0 and wanted == 'latch' then
    return false
  elseif not value then
    return nil
  elseif (known and known ~= wanted) or not string.match(value, '^-?%d+$') then
    return false
  end
  return tonumber(value)
end

-- Records the kind; `ttl` 0: without a time to live.
local function mark_kind(kind, is, ttl)
  if ttl == 0 then
    redis.call('set', kind, is)
  else
    redis.call('set', kind, is, 'px', ttl)
  end
end
