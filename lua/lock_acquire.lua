-- Takes an exclusive lock, takes it again, or tells what is left of the holder's lease.
--
-- KEYS: 1 lock, 2 fencing counter, 3 record of the request (only with a request id)
-- ARGV: 1 owner, 2 lease ms, 3 time to live of an idle counter ms, 4 and 5 a step of the counter
--       and what it leads to (see lib/next_token.lua); not there or '' if the caller has not seen
--       the counter; the others are not there if the owner has no hold and there is no request id:
--       6 holds that the caller knows the owner has, '' if it does not know, 7 attempt, 8 retention
--       of the record ms, the lease if only an undo will look for it, 9 '1' to record a refusal too
--       (an answer), '0' not to (the caller waits), 10 note (only with one; '': none), 11 how long
--       the lock is held at least ms (only if so; '': not), 12 for how long after the lease nobody
--       gets it, unless it is released ms (only if so)
-- Returns: token                                     granted: one hold, with this lease; as text if
--                                                    it is the store's time
--          {1, hold count, token, lease ms, serial}  granted
--          {5, hold count, token, lease ms, serial}  the same, as answer to a repeat
--          {0, remaining lease ms, 0, counter, note} held by another; -1: the key has no time to
--                                                    live; the note only if its holder has one
--          {2}                                       a repeat of a request that was granted, but
--                                                    the grant has ended
--          {3}                                       the request id was used for something else
--          {4}                                       the key or its counter is not such a lock's
--          {9}                                       the counter is out of range
-- Publishes: nothing

local lock, counter, owner, lease, ttl = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local step, expected, call = ARGV[4], ARGV[5], redis.call

-- The most frequent cases, without the helpers, which Redis makes anew in each run. The lock is free;
-- another owner holds it, without a note; or the owner takes it again, and it has no other field.
local again = ARGV[6] and ARGV[6] ~= '' and not KEYS[3] and (ARGV[10] or '') == ''
local left = (not ARGV[6] or again) and call('pttl', lock)
if left == -2 and not ARGV[6] then
  -- The next token comes here.
  if token then
    call('hset', lock, owner, '1')
    -- As in lib/expire.lua.
    if redis.pcall('pexpire', lock, lease) ~= 1 then
      redis.pcall('del', lock)
      call('pexpire', lock, lease)
    end
    return token
  end
elseif left and left > 0 then
  local newest = tonumber(call('get', counter) or nil)
  -- As in lib/note.lua and lib/token.lua.
  local note = 'lockkeeper_note' .. string.sub(counter, #'redisson_lock_token' + 1)
  if newest and newest > 0 and newest < 9007199254740991 then
    if not ARGV[6] then
      local fields = call('hmget', lock, owner, 'mode')
      if not fields[1] and not fields[2] and redis.pcall('exists', note) == 0 then
        return {0, left, 0, newest}
      end
    elseif call('hlen', lock) == 1 and call('hget', lock, owner) == ARGV[6] then
      local count = ARGV[6] + 1
      left = math.max(left, tonumber(lease))
      call('hset', lock, owner, count)
      call('pexpire', lock, left)
      redis.pcall('pexpire', note, left)
      return {1, count, newest, left, newest}
    end
  end
end

-- The helpers come here.

local known, record = tonumber(ARGV[6] or 0), KEYS[3]
local request = {
  owner = record and owner_of(owner), field = owner,
  attempt = ARGV[7], lease = lease, retention = ARGV[8], record_refusal = ARGV[9] == '1',
  lock = lock, note = ARGV[10] ~= '' and ARGV[10] or nil, least = tonumber(ARGV[11]),
  delay = tonumber(ARGV[12]),
}

return acquire(counter, record, request, function(token)
  return look_sole(lock, owner, token, known)
end, function(token, seen)
  return take_sole(lock, counter, tonumber(ttl), owner, tonumber(lease), known, token, seen)
end, function(seen)
  return seen.remaining, 0
end)
