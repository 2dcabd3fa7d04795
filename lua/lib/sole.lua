-- A lock with one owner, exclusive or fair: a hash with the owner's field -> count, as Redisson's RLock keeps it. The token is the serial of a grant.

-- As `look` of lib/acquire.lua; open if it is free, or the owner's to take again. `known`: holds that the caller knows the owner has, nil if it does
-- not know. Holds that it does not know of are not its to take: its session may hold the lock by another coordinator since, or they are left over
-- from a grant that it was told is lost, and end with their lease.
local function look_sole(lock, owner, token, known)
  local remaining = redis.call('pttl', lock)
  if remaining == -2 then
    return {remaining = -2, open = true}
  end
  local fields = redis.call('hmget', lock, owner, 'mode')
  local count = tonumber(fields[1])
  if fields[2] or (fields[1] and not count) then
    return nil
  end
  return {remaining = remaining, count = count, serial = token, left = remaining, open = count ~= nil and known ~= 0}
end

-- As `take` of lib/acquire.lua. Taking it again keeps the token and never shortens what is left. (Redisson overwrites the time to live, also downwards.)
local function take_sole(lock, counter, counter_ttl, owner, lease, known, token, seen)
  if not seen.count or token == 0 then
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
