-- Acquires a read hold. See lib/acquire.lua for the results of `look` and `take`.

-- `own_write`: the field of the owner's write hold, which allows it to read. `known`: as in
-- look_sole. `hold_back`: how long a waiting writer blocks new readers, in ms. The writer's mark
-- lives twice as long. In its second half readers are let in, so that a long read does not keep all
-- others out.
local function look_read(lock, prefix, mark, owner, own_write, hold_back, known)
  local seen = {remaining = redis.call('pttl', lock)}
  local mode
  seen.held = seen.remaining ~= -2
  if seen.held then
    local fields = redis.call('hmget', lock, 'mode', own_write)
    mode = fields[1]
    if mode ~= 'read' and mode ~= 'write' then
      return nil
    end
    seen.count, seen.left, seen.serial = read_hold(lock, prefix, owner)
    local unknown = seen.count and known == 0
    seen.open = not unknown and (seen.count ~= nil or fields[2] ~= false)
    if unknown then
      seen.remaining = seen.left
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
  if not seen.held then
    redis.call('hset', lock, 'mode', 'read')
    redis.call('del', readers)
  end
  redis.call('hset', lock, owner, string.format('%.0f', count))
  write_read_hold(lock, prefix, readers, owner, count, lease, serial, now)
  return count, token, lease, serial
end
