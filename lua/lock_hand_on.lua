-- Gives the last hold of an exclusive lock to somebody else, who waits for it: a release and an
-- acquire, and the lock is free at no moment between them.
--
-- KEYS: 1 lock, 2 fencing counter
-- ARGV: 1 owner, 2 serial of the grant to give back; '' if the caller does not know it, 3 next
--       owner, 4 lease ms, 5 time to live of an idle counter ms, 6 and 7 as 4 and 5 of lock_acquire
-- Returns: token  the owner has given it back, and the next one holds it; as text if it is the
--                 store's time
--          {0}    nothing changed: it is not the owner's last hold of that grant, or a key is not
--                 such a lock's
-- Publishes: nothing, because the lock is not free

local lock, counter, owner, serial, ttl = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[5]
local step, expected, call = ARGV[6], ARGV[7], redis.call

-- A read/write lock has more than one field.
if call('hlen', lock) ~= 1 or call('hget', lock, owner) ~= '1' then
  return {0}
end

-- The most frequent case: the grant is the newest, as its counter says.
local newer
if call('get', counter) == serial then
  -- The next token comes here.
  newer = token
end
if not newer then
  -- The helpers come here.
  local newest, known = read_token(counter), tonumber(serial)
  if not newest or newest > (known or newest) then
    return {0}
  end
  newer = raise_token(counter, newest, tonumber(ttl))
end

-- Nothing may fail halfway. The counter is set first, because Redis refuses to set it when its
-- memory is full. The lock's key exists throughout, because a cluster lets no script create a key
-- in a slot that is being moved.
call('hset', lock, ARGV[3], '1')
call('hdel', lock, owner)
call('pexpire', lock, ARGV[4])
return newer
