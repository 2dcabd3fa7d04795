-- Undoes an acquire whose answer nobody took or nobody knows. Safe to repeat, and safe if the acquire never ran.
--
-- KEYS: 1 lock, 2 channel, 3 fencing counter, 4 record of the request (only with a request id)
-- ARGV: 1 owner, 2 attempt, 3 holds that the owner has without it (used when there is no record), 4 publish command, 5 message,
--       6 token of the grant it is about; '' if that is not known
-- Returns: {1, holds left}  a hold was taken back
--          {0, holds left}  there was nothing to undo, its grant has ended, or a repeat of the request has taken the grant over
--          {4}              the fencing counter is not a lock's
-- Publishes: the message on the channel when the lock becomes free

local lock, channel, counter, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, attempt, expected = ARGV[1], ARGV[2], tonumber(ARGV[3])
local publish, message, token = ARGV[4], ARGV[5], tonumber(ARGV[6])

local count = tonumber(redis.call('hget', lock, owner) or 0) or 0

local newest = read_token(counter)
if not newest then
  return {4}
end

-- The session may have gone on at another coordinator and taken the lock anew while this was on its way.
if token and newest > token then
  return {0, count}
end

if record then
  local first = redis.call('hmget', record, 'attempt', 'answer')
  if first[1] ~= attempt then
    return {0, count}
  end
  redis.call('del', record)
  -- An attempt that was refused, or whose grant has ended, has no share in what the owner may hold by now.
  if count == 0 or tonumber(first[2]) ~= newest then
    return {0, count}
  end
  return {1, drop_hold(lock, channel, owner, count, redis.call('pttl', lock), publish, message)}
end

local undone = 0
while count > expected do
  undone = 1
  count = drop_hold(lock, channel, owner, count, redis.call('pttl', lock), publish, message)
end
return {undone, count}
