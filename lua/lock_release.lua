-- Gives one hold of an exclusive lock back; the last one frees the lock and wakes a waiter.
--
-- KEYS: 1 lock, 2 fencing counter, 3 channel, 4 record of the request (only with a request id)
-- ARGV: 1 owner, 2 lease ms that a hold which remains gets, 3 retention of the record ms, 4 publish
--       command, 5 message, 6 serial of the grant to give back; '' if the caller does not know it
-- Returns: {1, holds left, lease ms}  given back
--          {5, holds left then, holds now, remaining lease ms}  the same, as answer to a repeat;
--                                                               the lease is -2 if nobody holds it
--          {0, 1}  not the owner: another one holds it
--          {0, 2}  not the owner: the grant has ended, and nobody holds the lock or the same owner
--                  by a newer grant
--          {0, 3}  not the owner: no grant of the name is known
--          {0, 4}  not the owner in this mode: it holds the lock in the other one (of a read/write
--                  lock)
--          {3}     the request id was used for something else
--          {4}     the key is not such a lock's
-- Publishes: the message on the channel when the lock becomes free

local lock, counter, channel, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, lease, publish, message, serial = ARGV[1], tonumber(ARGV[2]), ARGV[4], ARGV[5], tonumber(ARGV[6])

-- The fast path, in as few steps as possible and without the helpers, which Redis recreates in each
-- run. It is the last hold, and there is no recorded answer to look up. The message is published as
-- in lib/publish.lua.
if not record then
  local fields = redis.call('hmget', lock, owner, 'mode')
  -- Without a session in the owner it could be another program's hash of numbers.
  if fields[1] == '1' and not fields[2] and string.find(owner, '^%x+%-%x+%-%x+%-%x+%-%x+') and not (serial and (tonumber(redis.call('get', counter) or 0) or 0) > serial) then
    if publish == 'SPUBLISH' then
      redis.pcall('spublish', channel, message)
      publish = 'publish'
    end
    redis.call(publish, channel, message)
    redis.call('del', lock)
    return {1, 0, lease}
  end
end

-- The helpers come here.

local request = {owner = owner, retention = ARGV[3]}
local hold = sole_hold(lock, counter, owner, serial, record)
if not hold then
  return {4}
end
return release(record, request, hold, function()
  local ttl = math.max(lease, hold.left)
  return drop_hold(lock, owner, hold.count, ttl, function()
    publish_to(publish, channel, message)
  end), ttl
end)
