-- Deletes a latch, which opens it: a name without a count counts as 0.
--
-- KEYS: 1 latch, 2 kind, 3 leases that a semaphore of the name would have
-- ARGV: 1 publish command, 2 channel, which is no key because Redisson's name of it need not share
--       the latch's slot, 3 '1' to accept a number of others
-- Returns: {1}  deleted
--          {0}  there was none
--          {4}  the key is not a latch's
-- Publishes: 0 if it was deleted, as when it is counted down to the end. (Redisson publishes 1, and
--            its own waiters then wait for ever.)

local latch, kind, leases = KEYS[1], KEYS[2], KEYS[3]
local publish, channel = ARGV[1], ARGV[2]

local number = read_number(latch, kind, 'latch', leases, ARGV[3])
if number == false then
  return {4}
elseif not number then
  forget_kind(kind, 0)
  return {0}
end
publish_to(publish, channel, '0')
redis.call('del', latch, kind)
return {1}
