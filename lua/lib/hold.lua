-- Holds are fields of the lock's hash: owner -> count, as Redisson's RLock keeps them. The count is text that must be a number.

-- Takes one hold off an owner that has `count`; the last one frees the lock and wakes a waiter. Returns what is left.
-- PUBLISH stands first so that a refusal of it changes nothing; PEXPIRE stands before HINCRBY because a store that is out of memory refuses HINCRBY
-- as the first write of a script, and giving back must work then. PEXPIRE deletes a key if it is given 0 (the PTTL of a key in its last
-- millisecond) or -1 (that of a key without a time to live), and HINCRBY would then leave one that never ends.
local function drop_hold(lock, channel, owner, count, ttl, publish, message)
  if count <= 1 then
    redis.call(publish, channel, message)
    redis.call('del', lock)
    return 0
  end
  if ttl < 0 then
    redis.call('persist', lock)
  else
    redis.call('pexpire', lock, math.max(ttl, 1))
  end
  return redis.call('hincrby', lock, owner, -1)
end
