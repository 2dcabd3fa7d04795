-- Gives the last hold of an exclusive lock to somebody else, who waits for it: a release and an
-- acquire, and the lock is free at no moment between them.
--
-- KEYS: 1 lock, 2 fencing counter
-- ARGV: 1 owner, 2 serial of the grant to give back; '' if the caller does not know it, 3 next
--       owner, 4 lease ms, 5 time to live of an idle counter ms
-- Returns: {1, token}  the owner has given it back, and the next one holds it
--          {0}         nothing changed: it is not the owner's last hold of that grant, or a key is
--                      not such a lock's
-- Publishes: nothing, because the lock is not free

local lock, counter = KEYS[1], KEYS[2]
local owner, serial, next_owner, lease, counter_ttl = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], tonumber(ARGV[5])

local fields = redis.call('hmget', lock, owner, 'mode')
local newest = read_token(counter)
if fields[1] ~= '1' or fields[2] or not newest or newest > (serial or newest) then
  return {0}
end

-- Nothing may fail halfway. The counter is set first, because Redis refuses to set it when its
-- memory is full. The lock's key exists throughout, because a cluster lets no script create a key
-- in a slot that is being moved.
local token = raise_token(counter, newest, counter_ttl)
redis.call('hset', lock, next_owner, '1')
redis.call('hdel', lock, owner)
redis.call('pexpire', lock, lease)
return {1, token}
