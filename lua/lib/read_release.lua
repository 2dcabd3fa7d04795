-- Releases a read hold. See lib/release.lua for `hold` and `drop`.

-- keys: the KEYS of read_release. Returns nil if the key is not this kind of lock.
local function own_read_hold(keys, owner, serial)
  local mode = redis.call('hget', keys[1], 'mode')
  local locked = redis.call('exists', keys[1]) == 1
  if locked and mode ~= 'read' and mode ~= 'write' then
    return nil
  end
  local count, left, own = read_hold(keys[1], keys[3], owner)
  local hold = {count = count, left = left or -2, serial = own, newer = serial and count and own ~= serial}
  if not count then
    -- Other holders do not prove that this owner's lease has not expired; its field in the hash
    -- does.
    local expired = redis.call('hexists', keys[1], owner) == 1
    if redis.call('hexists', keys[1], owner .. ':write') == 1 then
      hold.refused = 4
    elseif locked and not expired then
      hold.refused = 1
    else
      hold.refused = (expired or redis.call('exists', keys[2]) == 1) and 2 or 3
    end
  end
  return hold
end

-- Whether every reader is one of ours, as far as one page shows. Equal numbers do not show it: ours
-- may be listed after their ends.
local function are_ours(lock, readers)
  local page, owners = redis.call('hscan', lock, '0', 'count', LOOKED_AT_MAX), {}
  for i = 1, #page[2], 2 do
    if page[2][i] ~= 'mode' then
      owners[#owners + 1] = page[2][i]
    end
  end
  for _, ends in ipairs(redis.call('zmscore', readers, unpack(owners))) do
    if not ends then
      return false
    end
  end
  return page[1] == '0'
end

-- Removes one hold; the last reader frees the lock. Remaining holds get `lease`. Returns the number
-- of holds left and their lease. Writes that a full store refuses come after those that it allows.
-- `work`: what may be looked at.
local function drop_read_hold(keys, owner, hold, lease, publish, message, now, work)
  local lock, prefix, readers, base, channel = keys[1], keys[3], keys[4], keys[5], keys[6]
  local newest, note = hold_key(prefix, hold.count), note_key(keys[2], owner)
  if hold.count > 1 then
    lease = math.max(lease, hold.left, 1)
    redis.call('del', newest)
    keep_at_least(lock, lease)
    redis.call('hincrby', lock, owner, -1)
    extend_note(note, lease)
    write_read_hold(prefix, readers, owner, hold.count - 1, lease, hold.serial or 0, now)
    return hold.count - 1, lease
  end
  if redis.call('hlen', lock) == 2 then
    publish_to(publish, channel, message)
    redis.call('unlink', lock, readers, newest)
    redis.pcall('unlink', note)
    return 0, 0
  end
  redis.call('hdel', lock, owner)
  redis.call('zrem', readers, owner)
  redis.call('del', newest)
  redis.pcall('unlink', note)
  if redis.call('hget', lock, 'mode') == 'write' then
    return 0, 0
  end
  local longest, unsure = longest_read(lock, readers, base, now, work)
  if not longest then
    publish_to(publish, channel, message)
    redis.call('unlink', lock, readers)
  elseif
    not unsure and redis.call('pttl', lock) > longest and redis.call('hlen', lock) <= LOOKED_AT_MAX
    and are_ours(lock, readers)
  then
    -- None of the readers belongs to another program, so the lock need not outlive ours.
    redis.call('pexpire', lock, string.format('%.0f', longest))
  end
  return 0, 0
end
