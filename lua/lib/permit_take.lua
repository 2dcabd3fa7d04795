-- Takes permits of a semaphore that has them.

-- Returns the hexadecimal digits of the ids. The number falls last: what is refused before that has
-- taken no permit that nobody holds.
local function take_permits(semaphore, leases, owners, owner, ids, lease, now)
  local ends, scored, owned, digits = string.format('%.0f', now + lease), {}, {}, {}
  for i, id in ipairs(ids) do
    digits[i] = hex(id)
    scored[2 * i - 1], scored[2 * i] = ends, id
    owned[2 * i - 1], owned[2 * i] = digits[i], owner
  end
  local held_for = redis.call('pttl', owners)
  redis.call('hset', owners, unpack(owned))
  if held_for == -2 then
    expire_new(owners, lease)
  else
    redis.call('pexpire', owners, math.max(lease, held_for))
  end
  redis.call('zadd', leases, unpack(scored))
  if type(redis.pcall('incrby', semaphore, -#ids)) == 'table' then
    redis.pcall('zrem', leases, unpack(ids))
    redis.call('incrby', semaphore, -#ids)
  end
  return digits
end
