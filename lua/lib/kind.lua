-- Redisson stores a semaphore and a latch alike, as a number under the name, so a key of our own
-- records the kind. If numbers that Redisson clients created are accepted, the caller's kind is
-- accepted for one without a record, and the record expires when the name has been idle for long.

-- Returns the number under a name; nil if there is none, false if it is not a number or is of
-- another kind. Only a semaphore has `leases`. `adopt`: '1' to accept a number without a record,
-- which any other program may have created.
local function read_number(key, kind, wanted, leases, adopt)
  local value, known = redis.call('get', key), redis.call('get', kind)
  local permits = redis.call('zcard', leases) > 0
  if permits and wanted == 'latch' then
    return false
  elseif not value then
    return nil
  elseif (known and known ~= wanted) or not string.match(value, '^-?%d+$') then
    return false
  elseif not known and not permits and adopt ~= '1' then
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

-- Removes the record of a number that another program has deleted. `permits`: those that are taken.
local function forget_kind(kind, permits)
  if permits == 0 then
    redis.call('unlink', kind)
  end
end
