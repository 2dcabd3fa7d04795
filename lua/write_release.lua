-- Gives one write hold back; the last one frees the lock, or leaves it to the read holds of the
-- same owner, and wakes all waiters.
--
-- KEYS: as of lock_release
-- ARGV: as of lock_release
-- Returns: as lock_release
-- Publishes: 1 on the channel when no write hold is left

local lock, counter, record = KEYS[1], KEYS[2], KEYS[3]
local owner, serial, channel, publish, call = ARGV[1], ARGV[2], ARGV[4], ARGV[5] or 'PUBLISH', redis.call

-- The most frequent case, as in lock_release.lua: the last hold of this grant, and no read holds.
if
  not record and not ARGV[7] and call('hlen', lock) == 2 and call('hget', lock, 'mode') == 'write'
  and call('hget', lock, owner) == '1' and call('get', counter) == serial
then
  if publish == 'SPUBLISH' then
    redis.pcall('spublish', channel, '1')
  end
  call('publish', channel, '1')
  call('del', lock)
  return 1
end

-- The helpers come here.

local hold = write_hold(lock, counter, owner, tonumber(serial))
if not hold then
  return {4}
end
return release(record, {owner = owner, retention = ARGV[6]}, hold, function()
  local ttl = math.max(tonumber(ARGV[3]), hold.left)
  return drop_write_hold(lock, counter, owner, hold.count, ttl, channel, publish, '1'), ttl
end)
