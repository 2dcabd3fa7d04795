-- A lock with one owner, exclusive or fair: a hash with the owner's field -> count, as Redisson's RLock keeps it. The token is the serial of a grant.

-- As `look` of lib/acquire.lua; open if it is free or the owner's.
local function look_sole(lock, owner, token)
  local remaining = redis.call('pttl', lock)
  if remaining == -2 then
    return {remaining = -2, open = true}
  end
  local fields = redis.call('hmget', lock, owner, 'mode')
  local count = tonumber(fields[1])
  if fields[2] or (fields[1] and not count) then
    return nil
  end
  return {remaining = remaining, count = count, serial = token, left = remaining, open = count ~= nil}
end

-- As `take` of lib/acquire.lua. `known`: holds that the caller knows the owner has, nil if it does not know.
-- Taking it again keeps the token and never shortens what is left. (Redisson overwrites the time to live, also downwards.)
-- Holds that the caller does not know of are left over from a grant that it was told is lost, so this is a new grant.
local function take_sole(lock, counter, counter_ttl, owner, lease, known, token, seen)
  if not seen.count or token == 0 or known == 0 then
    token = raise_token(counter, token, counter_ttl)
  end
  local count = 1
  if seen.count then
    lease = math.max(lease, seen.remaining)
    count = (known or seen.count) + 1
  end
  redis.call('hset', lock, owner, string.format('%.0f', count))
  redis.call('pexpire', lock, lease)
  return count, token, lease, token
end
