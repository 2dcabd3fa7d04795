-- Write holds, as in Redisson's RReadWriteLock: in the lock's hash `mode` and `<owner>:write` ->
-- count. The token is the serial of a grant.

-- Same as `look` of lib/acquire.lua. keys: the KEYS of write_acquire. `reads_as`: the owner as a
-- reader. `known`: as in look_sole. `work`: what may be looked at.
local function look_write(keys, owner, reads_as, token, known, now, work)
  local lock = keys[1]
  local seen = {remaining = redis.call('pttl', lock)}
  if seen.remaining == -2 then
    seen.open = true
    return seen
  end
  local fields = redis.call('hmget', lock, 'mode', owner)
  if fields[1] == 'write' then
    seen.count = tonumber(fields[2])
    seen.open, seen.serial, seen.left = seen.count ~= nil and known ~= 0, token, seen.remaining
    return seen
  elseif fields[1] ~= 'read' then
    return nil
  end
  seen.deadlock = read_hold(lock, keys[3], reads_as) ~= nil
  if not seen.deadlock then
    local longest = longest_read(lock, keys[4], keys[5], now, work)
    seen.reads, seen.open = longest ~= nil, longest == nil
    seen.remaining = longest or seen.remaining
  end
  return seen
end

-- Marks that a writer waits, if readers keep it from the lock. `hold_back`: how long new readers
-- are blocked, in ms; nil or 0: not at all.
local function hold_readers_back(mark, seen, hold_back)
  if seen.reads and hold_back and hold_back > 0 then
    redis.call('set', mark, '1', 'px', string.format('%.0f', 2 * hold_back), 'nx')
  end
end

-- Same as `take` of lib/acquire.lua. Reentry never shortens the remaining lease. (Redisson adds the
-- lease to it.)
local function take_write(keys, counter_ttl, owner, lease, known, token, seen)
  local lock, readers, mark = keys[1], keys[4], keys[6]
  if not seen.count or token == 0 then
    token = raise_token(keys[2], token, counter_ttl)
  end
  local count = 1
  if seen.count then
    lease = math.max(lease, seen.remaining)
    count = (known or seen.count) + 1
  else
    -- The remains of readers whose leases have ended are deleted too.
    redis.call('unlink', lock, readers, mark)
  end
  redis.call('hset', lock, 'mode', 'write', owner, string.format('%.0f', count))
  if seen.count then
    redis.call('pexpire', lock, lease)
  else
    expire_new(lock, lease)
  end
  return count, token, lease, token
end

-- Returns `hold` of lib/release.lua; nil if the key is not this kind of lock.
local function write_hold(lock, counter, owner, serial)
  local fields = redis.call('hmget', lock, 'mode', owner, string.sub(owner, 1, -7))
  local locked = redis.call('exists', lock) == 1
  if locked and fields[1] ~= 'read' and fields[1] ~= 'write' then
    return nil
  end
  local refused = fields[3] and 4 or locked and 1 or redis.call('exists', counter) == 1 and 2 or 3
  local newer = serial and (read_token(counter) or 0) > serial
  return {count = tonumber(fields[2]), newer = newer, left = redis.call('pttl', lock), refused = refused}
end

-- Removes one hold; the last one frees the lock or leaves it to the read holds of the same owner.
-- Other readers are woken then too. (Redisson omits that.)
local function drop_write_hold(lock, counter, owner, count, ttl, channel, publish, message)
  local function wake()
    publish_to(publish, channel, message)
  end
  if count > 1 or redis.call('hlen', lock) <= 2 then
    return drop_hold(lock, counter, {field = owner, count = count}, ttl, wake)
  end
  wake()
  redis.call('hdel', lock, owner)
  redis.pcall('unlink', note_key(counter))
  redis.call('hset', lock, 'mode', 'read')
  return 0
end
