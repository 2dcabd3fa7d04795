-- Holds are fields of the lock's hash: owner -> count, as Redisson's RLock keeps them. The count is text that must be a number.

-- Takes one hold off an owner that has `count`; the last one frees the lock, and `wake` says so. Returns what is left.
-- The wake stands first so that a refusal of it changes nothing; PEXPIRE stands before HINCRBY because a store that is out of memory refuses HINCRBY
-- as the first write of a script, and giving back must work then. PEXPIRE deletes a key if it is given 0 (the PTTL of a key in its last
-- millisecond) or -1 (that of a key without a time to live), and HINCRBY would then leave one that never ends.
local function drop_hold(lock, owner, count, ttl, wake)
  if count <= 1 then
    wake()
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

-- As `hold` of lib/release.lua; nil if the key is not such a lock's. `serial` of the grant it is about, nil if that is not known. What is left of the
-- lease is not looked at where it says nothing: of a last hold that is to be dropped, without a record of an answer that could ask for it.
local function sole_hold(lock, counter, owner, serial, record)
  local fields = redis.call('hmget', lock, owner, 'mode')
  local count = tonumber(fields[1])
  if fields[2] or (fields[1] and not count) then
    return nil
  end
  local refused = 1
  if not count and redis.call('exists', lock) == 0 then
    refused = redis.call('exists', counter) == 1 and 2 or 3
  end
  local newer = serial and (read_token(counter) or 0) > serial
  local left = (record or count ~= 1) and redis.call('pttl', lock) or 0
  return {count = count, newer = newer, left = left, refused = refused}
end
