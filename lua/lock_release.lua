-- Gives one hold of an exclusive lock back; the last one frees the lock and wakes a waiter.
--
-- KEYS: 1 lock, 2 fencing counter, 3 record of the request (only with a request id)
-- ARGV: 1 owner, 2 serial of the grant to give back, '' if the caller does not know it, 3 lease ms
--       that a hold which remains gets, 4 channel, which is no key because a cluster that moves the
--       slot would miss it, 5 publish command; not there: PUBLISH, 6 retention of the record ms (only
--       with a request id or a note), 7 '1' if the grant has a note (only then)
-- Returns: 1                          given back, and no hold is left
--          {1, holds left, lease ms}  given back
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
-- Publishes: 0 on the channel when the lock becomes free

local lock, counter, owner, serial, call = KEYS[1], KEYS[2], ARGV[1], ARGV[2], redis.call

-- The most frequent cases, without the helpers, which Redis makes anew in each run: a hold of this
-- grant, and no answer to record. A read/write lock has more than one field, and so has a lock with
-- a mark. An owner without a known grant could be a field of another program's hash of numbers,
-- unless it is a session's. The message is published as in lib/publish.lua.
if not KEYS[3] and call('hlen', lock) == 1 then
  local count, is_own = call('hget', lock, owner)
  if not count then
    is_own = false
  elseif serial == '' then
    is_own = string.find(owner, '^%x+%-%x+%-%x+%-%x+%-%x+')
  else
    is_own = call('get', counter) == serial
  end
  if is_own and count == '1' and not ARGV[7] then
    if ARGV[5] == 'SPUBLISH' then
      redis.pcall('spublish', ARGV[4], '0')
    end
    call('publish', ARGV[4], '0')
    call('del', lock)
    return 1
  elseif is_own and (tonumber(count) or 0) > 1 then
    local left = call('pttl', lock)
    if left > 0 then
      left = math.max(left, tonumber(ARGV[3]))
      call('pexpire', lock, left)
      -- As in lib/note.lua.
      redis.pcall('pexpire', 'lockkeeper_note' .. string.sub(counter, #'redisson_lock_token' + 1), left)
      return {1, call('hincrby', lock, owner, -1), left}
    end
  end
end

-- The helpers come here.

local lease, publish, record = tonumber(ARGV[3]), ARGV[5] or 'PUBLISH', KEYS[3]
local hold = sole_hold(lock, counter, owner, tonumber(serial), record)
if not hold then
  return {4}
end
return release(record, {owner = record and owner_of(owner), retention = ARGV[6]}, hold, function()
  local ttl = math.max(lease, hold.left)
  return drop_hold(lock, counter, hold, ttl, function()
    publish_to(publish, ARGV[4], '0')
  end), ttl
end)
