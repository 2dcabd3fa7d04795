-- Gives one hold back; the last one frees the lock and wakes a waiter.
--
-- KEYS: 1 lock, 2 channel, 3 fencing counter, 4 record of the request (only with a request id)
-- ARGV: 1 owner, 2 lease ms that a hold which remains gets, 3 retention of the record ms, 4 publish command, 5 message,
--       6 token of the grant to give back; '' if the caller does not know it
-- Returns: {1, holds left, lease ms}  given back
--          {5, holds left then, holds now, remaining lease ms}  the same, as answer to a repeat; the lease is -2 if nobody holds it
--          {0, 1}  not the owner: another one holds it
--          {0, 2}  not the owner: the grant has ended, and nobody holds the lock or the same owner by a newer grant
--          {0, 3}  not the owner: no grant of the name is known
--          {3}     the request id was used for something else
--          {4}     the key is not a lock's
-- Publishes: the message on the channel when the lock becomes free

local lock, channel, counter, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, lease, retention = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local publish, message, token = ARGV[4], ARGV[5], tonumber(ARGV[6])

local fields = redis.call('hmget', lock, owner, 'mode')
if fields[2] or (fields[1] and not tonumber(fields[1])) then
  return {4}
end

if record then
  local first = redis.call('hmget', record, 'op', 'owner', 'answer')
  if first[1] then
    if first[1] ~= 'release' or first[2] ~= owner then
      return {3}
    end
    -- The owner may have given back or taken more since, so the first answer does not say what it holds.
    return {5, tonumber(first[3]), tonumber(fields[1] or 0), redis.call('pttl', lock)}
  end
end

if not fields[1] then
  if redis.call('exists', lock) == 1 then
    return {0, 1}
  end
  return {0, redis.call('exists', counter) == 1 and 2 or 3}
end

-- The session may have gone on at another coordinator and taken the lock anew while this was on its way.
if token and (read_token(counter) or 0) > token then
  return {0, 2}
end

lease = math.max(lease, redis.call('pttl', lock))
local left = drop_hold(lock, channel, owner, tonumber(fields[1]), lease, publish, message)
if record then
  redis.call('hset', record, 'op', 'release', 'owner', owner, 'answer', left)
  redis.call('pexpire', record, retention)
end
return {1, left, lease}
