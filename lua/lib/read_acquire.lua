-- Acquires a read hold. See lib/acquire.lua for the results of `look` and `take`.

-- keys: the KEYS of read_acquire. `own_write`: the field of the owner's write hold, which allows it
-- to read. `known`: as in look_sole. `hold_back`: how long a waiting writer blocks new readers, in
-- ms. The writer's mark lives twice as long. In its second half readers are let in, so that a long
-- read does not keep all others out. `base`: of the hold keys of all owners; `max`: holders.
local function look_read(keys, owner, own_write, hold_back, known, base, max, now, work)
  local lock, mark, readers = keys[1], keys[5], keys[4]
  local seen = {remaining = redis.call('pttl', lock), holders_max = max}
  local mode
  seen.held = seen.remaining ~= -2
  if seen.held then
    local fields = redis.call('hmget', lock, 'mode', own_write)
    mode = fields[1]
    if mode ~= 'read' and mode ~= 'write' then
      return nil
    end
    seen.count, seen.left, seen.serial = read_hold(lock, keys[3], owner)
    local unknown = seen.count and known == 0
    seen.open = not unknown and (seen.count ~= nil or fields[2] ~= false)
    if unknown then
      seen.remaining = seen.left
    end
    if not seen.count and redis.call('hlen', lock) > max then
      sweep_readers(lock, readers, base, now, work)
      seen.full = redis.call('hlen', lock) > max
    end
    if seen.open or unknown or mode == 'write' then
      return seen
    end
  end
  local held_back = redis.call('pttl', mark) - hold_back
  seen.open = held_back <= 0
  if not seen.open then
    seen.remaining = held_back
  end
  return seen
end

local function take_read(lock, prefix, readers, owner, lease, known, serial, token, seen, now)
  local count = 1
  if seen.count then
    lease = math.max(lease, seen.left)
    count = (known or seen.count) + 1
    serial = seen.serial or serial
  end
  -- SET is first, because Redis refuses it when its memory is full.
  if seen.held then
    write_read_hold(prefix, readers, owner, count, lease, serial, now)
    redis.call('hset', lock, owner, string.format('%.0f', count))
    if seen.remaining < lease then
      redis.call('pexpire', lock, string.format('%.0f', lease))
    end
  else
    redis.call('set', hold_key(prefix, count), string.format('%.0f', serial), 'px', lease)
    redis.call('unlink', readers)
    redis.call('hset', lock, 'mode', 'read', owner, string.format('%.0f', count))
    expire_new(lock, lease)
    redis.call('zadd', readers, string.format('%.0f', now + lease), owner)
    expire_new(readers, lease)
  end
  return count, token, lease, serial
end
