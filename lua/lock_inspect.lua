-- Who holds a lock. Changes nothing.
--
-- KEYS: 1 lock, 2 fencing counter
-- ARGV: none
-- Returns: {1, remaining lease ms, token, then for each owner: owner, hold count}; remaining lease -2: nobody holds it, -1: no time to live
--          {4}  the key or its counter is not a lock's
-- Publishes: nothing

local lock, counter = KEYS[1], KEYS[2]

local token = read_token(counter)
local holders = redis.call('hgetall', lock)
if not token then
  return {4}
end
local reply = {1, redis.call('pttl', lock), token}
for i = 1, #holders, 2 do
  local count = tonumber(holders[i + 1])
  if holders[i] == 'mode' or not count then
    return {4}
  end
  reply[#reply + 1] = holders[i]
  reply[#reply + 1] = count
end
return reply
