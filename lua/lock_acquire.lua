-- Takes a lock, takes it again, or tells what is left of the holder's lease.
--
-- KEYS: 1 lock, 2 fencing counter, 3 record of the request (only with a request id)
-- ARGV: 1 owner, 2 lease ms, 3 time to live of an idle counter ms, 4 attempt, 5 retention of the record ms,
--       6 '1' to record a refusal too (an answer), '0' not to (the caller will wait),
--       7 holds that the caller knows the owner has; '' if it does not know
-- Returns: {1, hold count, token, lease ms}  granted
--          {5, hold count, token, lease ms}  the same, as answer to a repeat
--          {0, remaining lease ms}           held by another; -1: the key has no time to live
--          {2}                               a repeat of a request that was granted, but the grant has ended
--          {3}                               the request id was used for something else
--          {4}                               the key or its counter is not a lock's
-- Publishes: nothing

local lock, counter, record = KEYS[1], KEYS[2], KEYS[3]
local owner, lease, counter_ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local attempt, retention, record_refusal, known = ARGV[4], ARGV[5], ARGV[6] == '1', tonumber(ARGV[7])

local function remember(answer)
  if record then
    redis.call('hset', record, 'op', 'acquire', 'owner', owner, 'attempt', attempt, 'answer', answer)
    redis.call('pexpire', record, retention)
  end
end

local token = read_token(counter)
if not token then
  return {4}
end

local remaining = redis.call('pttl', lock)
local count, mode
if remaining ~= -2 then
  local fields = redis.call('hmget', lock, owner, 'mode')
  count, mode = fields[1], fields[2]
  if mode or (count and not tonumber(count)) then
    return {4}
  end
end

if record then
  local first = redis.call('hmget', record, 'op', 'owner', 'answer')
  if first[1] then
    if first[1] ~= 'acquire' or first[2] ~= owner then
      return {3}
    elseif string.sub(first[3], 1, 4) == 'busy' then
      -- The answer to a try says nothing to a call that waits.
      if not record_refusal then
        return {3}
      end
      return {0, tonumber(string.sub(first[3], 6))}
    elseif not count or tonumber(first[3]) ~= token then
      return {2}
    end
    -- From now on several attempts may have been told of the grant, so no undo of one of them may take it away: it finds no attempt's mark
    -- and leaves the grant alone. PEXPIRE first: it works when memory is full.
    redis.call('pexpire', record, retention)
    redis.call('hset', record, 'attempt', '')
    return {5, tonumber(count), token, remaining}
  end
end

if remaining == -2 then
  token = raise_token(counter, token, counter_ttl)
  redis.call('hset', lock, owner, '1')
  redis.call('pexpire', lock, lease)
  remember(string.format('%.0f', token))
  return {1, 1, token, lease}
end

if not count then
  if record_refusal then
    remember('busy ' .. remaining)
  end
  return {0, remaining}
end

-- Taking it again keeps the token and never shortens what is left. (Redisson overwrites the time to live, also downwards.)
-- Holds that the caller does not know of are left over from a grant that it was told is lost, so this is a new grant.
if token == 0 or known == 0 then
  token = raise_token(counter, token, counter_ttl)
end
lease = math.max(lease, remaining)
count = (known or tonumber(count)) + 1
redis.call('hset', lock, owner, string.format('%.0f', count))
redis.call('pexpire', lock, lease)
remember(string.format('%.0f', token))
return {1, count, token, lease}
