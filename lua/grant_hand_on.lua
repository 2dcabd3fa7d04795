-- Gives an exclusive lock from a grant to the next one, if the fields of both name them: as
-- lock_hand_on, but a field says by itself which grant it is. The caller knows that the grant has one
-- hold, and the lock has no other field then.
--
-- KEYS: 1 lock, 2 fencing counter
-- ARGV: 1 field of the grant to give back, 2 field of the next one, 3 lease ms, 4 what to add to the
--       counter
-- Returns: number  the grant has ended, and the next one has begun: the counter, which is its token if
--                  the caller expected it; otherwise lock_token makes the token
--          {0}     nothing changed: the grant had ended before, or the lock's key is not such a lock's
-- Publishes: nothing, because the lock is not free

local lock, counter, step, call = KEYS[1], KEYS[2], ARGV[4], redis.call

-- The counter is first, because it may be no number, and Redis refuses to set it when its memory is
-- full. What was done is taken back if it turns out that nothing may change. The lock's key exists
-- throughout, because a cluster lets no script create a key in a slot that is being moved.
local token = call('incrby', counter, step)
if redis.pcall('hset', lock, ARGV[2], '1') == 1 then
  if call('hdel', lock, ARGV[1]) == 1 then
    call('pexpire', lock, ARGV[3])
    return token
  end
  call('hdel', lock, ARGV[2])
end
-- A step from nothing has made a key without a time to live.
if call('incrby', counter, '-' .. step) == 0 then
  call('unlink', counter)
end
return {0}
