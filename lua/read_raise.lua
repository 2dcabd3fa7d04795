-- Raises the fencing counter of a read/write lock to what other stores know to be the last writer's
-- token, if the owner holds it for reading here. While a writer holds it, the counter is that
-- grant's.
--
-- KEYS: 1 lock, 2 fencing counter, 3 prefix of the owner's hold keys
-- ARGV: 1 owner, 2 token, 3 time to live of an idle counter ms
-- Returns: as lock_raise
-- Publishes: nothing

local lock, counter, prefix = KEYS[1], KEYS[2], KEYS[3]
local owner, token, counter_ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local before, why = read_token(counter)
if not before then
  return {why}
end
if not read_hold(lock, prefix, owner) then
  return {0}
elseif redis.call('hget', lock, 'mode') == 'write' then
  return {1, before}
end
return {1, raise_to(counter, before, token, counter_ttl)}
