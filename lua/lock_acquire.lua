-- Takes an exclusive lock, takes it again, or tells what is left of the holder's lease.
--
-- KEYS: 1 lock, 2 fencing counter, 3 record of the request (only with a request id)
-- ARGV: 1 owner, 2 lease ms, 3 time to live of an idle counter ms, 4 attempt, 5 retention of the
--       record ms, 6 '1' to record a refusal too (an answer), '0' not to (the caller will wait),
--       7 holds that the caller knows the owner has; '' if it does not know
-- Returns: {1, hold count, token, lease ms, serial}  granted
--          {5, hold count, token, lease ms, serial}  the same, as answer to a repeat
--          {0, remaining lease ms, 0, counter}       held by another; -1: the key has no time to
--                                                    live
--          {2}                                       a repeat of a request that was granted, but
--                                                    the grant has ended
--          {3}                                       the request id was used for something else
--          {4}                                       the key or its counter is not such a lock's
--          {9}                                       the counter is out of range
-- Publishes: nothing

local lock, counter, record = KEYS[1], KEYS[2], KEYS[3]
local owner, lease, counter_ttl, known = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[7])

-- The fast path, in as few steps as possible and without the helpers, which Redis recreates in each
-- run. The lock is free and there is no recorded answer to look up. The counter is new or of this
-- window, so `raise_to` in lib/token.lua would only set it.
if not record and redis.call('pttl', lock) == -2 then
  local now, previous = redis.call('time'), redis.call('get', counter)
  local token = now[1] * 1000000 + now[2]
  local age = token - (tonumber(previous or 0) or token)
  local is_of_window = age > 1 and age <= token % (counter_ttl * 10)
  if counter_ttl > 0 and (is_of_window or not previous) then
    local text = string.format('%d', token)
    if is_of_window then
      redis.call('set', counter, text, 'keepttl')
    else
      redis.call('set', counter, text, 'px', ARGV[3])
    end
    redis.call('hset', lock, owner, '1')
    -- As in lib/expire.lua.
    if type(redis.pcall('pexpire', lock, ARGV[2])) == 'table' then
      redis.pcall('del', lock)
      redis.call('pexpire', lock, ARGV[2])
    end
    return {1, 1, token, lease, token}
  end
end

-- The helpers come here.

local request = {owner = owner, attempt = ARGV[4], retention = ARGV[5], record_refusal = ARGV[6] == '1'}

return acquire(counter, record, request, function(token)
  return look_sole(lock, owner, token, known)
end, function(token, seen)
  return take_sole(lock, counter, counter_ttl, owner, lease, known, token, seen)
end, function(seen)
  return seen.remaining, 0
end)
