-- Raises the fencing counter of a lock to the token of a grant that other stores have told of too,
-- if its owner holds the lock here.
--
-- KEYS: 1 lock, 2 fencing counter, 3 record of the request
-- ARGV: 1 owner, 2 token, 3 time to live of an idle counter ms
-- Returns: {1, counter}  the owner holds it
--          {0}           it does not
--          {4}           the counter is not such a lock's
-- Publishes: nothing

local lock, counter, record = KEYS[1], KEYS[2], KEYS[3]
local owner, token, counter_ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local before, why = read_token(counter)
if not before then
  return {why}
elseif redis.call('hexists', lock, owner) == 0 then
  return {0}
end
-- The token is the grant's serial, by which the record identifies the grant.
local recorded = tonumber(redis.call('hget', record, 'answer') or nil)
local raised = raise_to(counter, before, token, counter_ttl)
if raised ~= before and recorded == before then
  redis.call('hset', record, 'answer', string.format('%.0f', raised))
end
return {1, raised}
