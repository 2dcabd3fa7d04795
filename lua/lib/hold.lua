-- Holds are fields of the lock's hash, owner -> count, as in Redisson's RLock. The count is text
-- that must be a number.

-- Removes one of the holds of an owner (`hold`: field, count, and its marks delay and least) and
-- returns the number left. Removing the last one frees the lock, removes its note and calls `wake`;
-- but not before the time for which the lock is to be held at least, unless the hold is that of an
-- attempt that nobody got (`undoes`). `ttl`: the lease of what is left.
-- `wake` is first, so that its refusal changes nothing. PEXPIRE is before HINCRBY, because a store
-- that is out of memory refuses HINCRBY as the first write of a script, and a release must work
-- then. PEXPIRE with 0 (the PTTL of a key in its last millisecond) or -1 (a key without a time to
-- live) deletes the key. HINCRBY would then create one that never ends.
local function drop_hold(lock, counter, hold, ttl, wake, undoes)
  local owner = hold.field
  if hold.count <= 1 then
    local kept = not undoes and hold.least and hold.least - now_millis() or 0
    wake()
    if kept > 0 then
      -- The waiters learn the time that is left.
      redis.call('pexpire', lock, string.format('%.0f', kept))
      redis.call('hdel', lock, owner, delay_mark(owner))
    else
      redis.call('del', lock)
    end
    redis.pcall('unlink', note_key(counter))
    return 0
  end
  if ttl < 0 then
    redis.call('persist', lock)
  else
    redis.call('pexpire', lock, math.max(ttl, 1) + (hold.delay or 0))
    extend_note(note_key(counter), math.max(ttl, 1))
  end
  return redis.call('hincrby', lock, owner, -1)
end

-- Returns `hold` of lib/release.lua; nil if the key is not this kind of lock. `serial` identifies
-- the grant in question, nil if unknown. The remaining lease is not read if it is not needed: for a
-- last hold that is to be removed, without a record of an answer. `exact`: a field that names a grant
-- is not the owner's, unless it was asked for. After its lease, while the delay runs, an owner can only
-- give back its last hold, as it has lost the lock and must not get another lease.
local function sole_hold(lock, counter, owner, serial, record, exact)
  local fields = sole_fields(lock, owner)
  local field = owner
  if not fields[1] and not exact then
    field = grant_field(lock, owner) or owner
    fields[1] = field ~= owner and redis.call('hget', lock, field)
  end
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
  if count and not string.find(owner, OWNER) and redis.call('pttl', lock) == -1 then
    return nil
  end
  local delay = tonumber(fields[3]) or 0
  if delay > 0 and count and count > 1 and left <= delay then
    count, refused = nil, 2
  end
  return {
    count = count, field = field, newer = newer, left = left - delay, delay = delay,
    least = tonumber(fields[4] or nil), refused = refused,
  }
end
