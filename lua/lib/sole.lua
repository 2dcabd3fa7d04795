-- A lock with one owner, exclusive or fair: a hash with the field owner -> count, as in Redisson's
-- RLock. The token is the serial of a grant.

-- Same as `look` of lib/acquire.lua; open if the lock is free or the owner may take it again.
-- `known`: the holds that the caller knows the owner has, nil if it does not know. The owner may
-- not add to holds that it does not know. Its session may hold the lock through another coordinator
-- by now. Or they are left over from a grant that was reported lost, and end with their lease.
local function look_sole(lock, owner, token, known)
  local remaining = redis.call('pttl', lock)
  if remaining == -2 then
    return {remaining = -2, open = true}
  end
  local fields = sole_fields(lock, owner)
  local field = not fields[1] and known ~= 0 and grant_field(lock, owner)
  fields[1] = field and redis.call('hget', lock, field) or fields[1]
  local count = tonumber(fields[1])
  if fields[2] or (fields[1] and not count) or (count and not may_be_lock(owner, remaining)) then
    return nil
  end
  -- After its lease the owner has lost the lock, and waits for the end of the delay as all others do.
  local delay = tonumber(fields[3]) or 0
  if delay > 0 and remaining <= delay then
    count = nil
  end
  local open = count ~= nil and known ~= 0
  return {
    remaining = remaining, count = count, field = field, serial = token,
    left = remaining - delay, delay = delay, open = open,
  }
end

-- Same as `take` of lib/acquire.lua. Reentry keeps the token and never shortens the remaining
-- lease. (Redisson overwrites the time to live, even with a shorter one.)
local function take_sole(lock, counter, counter_ttl, owner, lease, known, token, seen)
  if not seen.count or token == 0 then
    token = raise_token(counter, token, counter_ttl)
  end
  local count = 1
  if seen.count then
    lease = math.max(lease, seen.left)
    count = (known or seen.count) + 1
  end
  redis.call('hset', lock, seen.field or owner, string.format('%.0f', count))
  if seen.remaining == -2 then
    expire_new(lock, lease)
  else
    redis.call('pexpire', lock, lease + seen.delay)
  end
  return count, token, lease, token
end
