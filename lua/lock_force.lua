-- Takes every hold of a lock of any mode away, whoever has it, and wakes who waits. The fencing
-- counter is raised, so that the tokens of those who held it are outdated at once, and a record
-- says why, for their coordinators.
--
-- KEYS: 1 lock, 2 fencing counter, 3 channel, 4 queue, 5 deadlines of the queue, 6 vouched waiters,
--       7 our readers, 8 base of the read hold keys of any owner, 9 channel of the read/write lock,
--       10 record of the release by force
-- ARGV: 1 publish command, 2 message, 3 message for all, 4 how long a waiter that nobody vouches
--       for keeps its place ms, 5 time to live of an idle counter ms, 6 reason, 7 retention of the
--       record ms, 8 how many holders to list at the most
-- Returns: {1, mode, token of those who held it, number of holders, holders}  mode and holders as
--                                                                             of lock_inspect
--          {0}  nobody holds it
--          {4}  the key or its counter is not such a lock's
-- Publishes: the message on the lock's channel and on that of the first in the queue; of a
--            read/write lock the message for all

local lock, counter, record, max = KEYS[1], KEYS[2], KEYS[10], tonumber(ARGV[8])
local publish = ARGV[1]
-- A program that sent a hold twice may have inflated its count, so the script limits the number of
-- keys that it reads.
local HOLDS_LOOKED_AT = 100

local fields, token, now = redis.call('hgetall', lock), read_token(counter), now_millis()
if not token then
  return {4}
elseif #fields == 0 then
  return {0}
end
local mode, remaining = 'sole', redis.call('pttl', lock)
for i = 1, #fields, 2 do
  if fields[i] == 'mode' then
    mode = fields[i + 1]
  elseif not tonumber(fields[i + 1]) then
    return {4}
  end
end
if mode ~= 'sole' and mode ~= 'read' and mode ~= 'write' then
  return {4}
end

local holders, number, gone = {}, 0, {lock}
for i = 1, #fields, 2 do
  local owner, count, left = fields[i], tonumber(fields[i + 1]), remaining
  if owner ~= 'mode' then
    if mode ~= 'sole' and string.sub(owner, -6) ~= ':write' then
      local base = KEYS[8] .. ':' .. owner .. ':rwlock_timeout:'
      left = redis.call('pttl', base .. string.format('%.0f', count))
      for hold = count, math.max(count - HOLDS_LOOKED_AT, 1), -1 do
        gone[#gone + 1] = base .. string.format('%.0f', hold)
      end
    end
    number = number + 1
    if number <= max then
      holders[3 * number - 2], holders[3 * number - 1], holders[3 * number] = owner, count, left
    end
  end
end

-- As in a release, a refused message leaves everything unchanged, and the first write is one that a
-- full store allows.
if mode == 'sole' then
  publish_to(publish, KEYS[3], ARGV[2])
else
  publish_to(publish, KEYS[9], ARGV[3])
  gone[#gone + 1] = KEYS[7]
end
for first = 1, #gone, 1000 do
  redis.call('del', unpack(gone, first, math.min(first + 999, #gone)))
end
if token > 0 then
  raise_token(counter, token, tonumber(ARGV[5]))
end
redis.call('hset', record, 'token', string.format('%.0f', token), 'reason', ARGV[6])
redis.call('pexpire', record, string.format('%.0f', math.max(tonumber(ARGV[7]), remaining)))
if mode == 'sole' and redis.call('llen', KEYS[4]) > 0 then
  wake_head({
    queue = KEYS[4], deadlines = KEYS[5], vouched = KEYS[6],
    patience = tonumber(ARGV[4]), channel = KEYS[3], publish = publish, message = ARGV[2],
  }, now)
end
return {1, mode, token, number, holders}
