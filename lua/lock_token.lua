-- Makes the token of a grant that was made without a script, if the step of the counter did not lead
-- to the store's time: another caller had raised the counter, or it was lost or set back. The step
-- is taken back. Nobody has seen a token of it, because the owner holds the lock still.
--
-- KEYS: 1 lock, 2 fencing counter
-- ARGV: 1 field of the grant, 2 the step, 3 time to live of an idle counter ms, 4 1 if the step made
--       the counter
-- Returns: token          one more than the counter was before the step; as text if it is the store's
--                         time
--          {0}            the grant has ended; a counter that the step made is to end as well
--          {4}            the counter is not such a lock's
--          {9}            the counter is out of range
-- Publishes: nothing

local lock, counter, field, step, ttl = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local stepped, why = read_token(counter)
if not stepped then
  return {why}
elseif redis.call('hexists', lock, field) == 0 then
  if ARGV[4] == '1' and ttl > 0 and redis.call('pttl', counter) == -1 then
    redis.call('pexpire', counter, ttl)
  end
  return {0}
end
-- A counter that was nothing is one that the step has made, without a time to live.
local before = math.max(stepped - step, 0)
local token = raise_token(counter, before, ttl)
return token > before + 1 and string.format('%.0f', token) or token
