-- Takes all holds of a lock of any mode from all holders, and wakes the waiters. The fencing
-- counter is raised, so that the tokens of those who held it are outdated at once, and a record
-- says why, for their coordinators. With a grace period the lock stays closed to all others for
-- that long, or until each former holder has acknowledged the loss (lock_acknowledge.lua).
--
-- KEYS: 1 lock, 2 fencing counter, 3 channel, 4 queue, 5 deadlines of the queue, 6 vouched waiters,
--       7 our readers, 8 base of the read hold keys of any owner, 9 channel of the read/write lock,
--       10 record of the release by force
-- ARGV: 1 publish command, 2 message, 3 message for all, 4 how long a waiter that nobody vouches
--       for keeps its place ms, 5 time to live of an idle counter ms, 6 reason, 7 retention of the
--       record ms, 8 how many holders to list at the most, 9 grace period ms, 10 the fencing token
--       of the holders that were asked to yield, and from 11 on their owners; not there: the lock is
--       taken from any holder. Readers and owners in Redisson may have come later with that token.
--       If there is one that was not asked, nothing is taken: it would free the lock for no one
-- Returns: {1, mode, token of those who held it, number of holders, holders, grace period ms}
--            mode and holders as of lock_inspect; the grace period: at most the lease that was left
--          {0}  nobody holds it, or one who was not asked
--          {4}  the key or its counter is not such a lock's
--          {9}  the fencing counter is out of range
-- Publishes: the message on the lock's channel and on that of the first in the queue; of a
--            read/write lock the message for all

local lock, counter, record, max = KEYS[1], KEYS[2], KEYS[10], tonumber(ARGV[8])
local publish, asked_token = ARGV[1], tonumber(ARGV[10] or nil)
-- At most this many keys of read holds are deleted. Others end with their leases, and mean nothing
-- without the lock.
local HOLDS_DELETED_MAX = 500
-- The most of one reader, whose count another program may have inflated.
local HOLDS_LOOKED_AT = 100

local mode, token, why = redis.call('hget', lock, 'mode'), read_token(counter)
local number, now = redis.call('hlen', lock) - (mode and 1 or 0), now_millis()
if not token then
  return {why}
elseif (number < 1 and not mode) or (asked_token and token > asked_token) then
  return {0}
elseif asked_token and not all_asked(lock, {unpack(ARGV, 11)}) then
  return {0}
elseif mode and mode ~= 'read' and mode ~= 'write' then
  return {4}
end
local remaining = redis.call('pttl', lock)
local grace = number > 0 and tonumber(ARGV[9]) or 0
if remaining >= 0 then
  grace = math.min(grace, remaining)
end

local holders, gone, marks = {}, {}, {}
local fields = redis.call('hscan', lock, '0', 'count', HOLDS_DELETED_MAX)[2]
grace = number == 1 and is_mark(fields[1]) and 0 or grace
for i = 1, #fields, 2 do
  local owner, count, left = fields[i], tonumber(fields[i + 1]), remaining
  count = is_mark(owner) and 1 or count
  if number > 1 and is_mark(owner) then
    number = number - 1
  elseif owner ~= 'mode' or not mode then
    if not count or not (mode or may_be_lock(owner, remaining)) then
      return {4}
    elseif mode and string.sub(owner, -6) ~= ':write' then
      local base = KEYS[8] .. ':' .. owner .. ':rwlock_timeout:'
      left = #holders < 3 * max and redis.call('pttl', base .. string.format('%.0f', count))
      gone[#gone + 1] = note_key(counter, owner)
      local hold = count
      while hold >= 1 and hold > count - HOLDS_LOOKED_AT and #gone < HOLDS_DELETED_MAX do
        gone[#gone + 1] = base .. string.format('%.0f', hold)
        hold = hold - 1
      end
    end
    if #holders < 3 * max and #owner <= OWNER_BYTES_MAX then
      holders[#holders + 1], holders[#holders + 2], holders[#holders + 3] = owner, shown_count(count), left
      marks[#marks + 1] = {forced_mark(owner, mode), math.max(shown_count(count), 1)}
    end
  end
end

-- As in a release, a refused message leaves everything unchanged, and the first write is one that a
-- full store allows.
if not mode then
  publish_to(publish, KEYS[3], ARGV[2])
  redis.call('unlink', lock)
else
  publish_to(publish, KEYS[9], ARGV[3])
  redis.call('unlink', lock, KEYS[7], unpack(gone))
end
redis.pcall('unlink', note_key(counter))
if grace > 0 then
  -- To all others, also to Redisson, it is a lock that strangers hold alone.
  if number > #holders / 3 then
    marks[#marks + 1] = {forced_mark('', mode), 1}
  end
  keep_closed(lock, marks, mode, grace)
end
-- Readers that no writer came before have no token. Later ones get this one, so that theirs differs.
if token > 0 or mode then
  raise_token(counter, token, tonumber(ARGV[5]))
end
redis.call('del', record)
redis.call('hset', record, 'token', string.format('%.0f', token), 'reason', ARGV[6])
local _ = ARGV[10] and redis.call('hset', record, 'preempted', '1')
if grace > 0 then
  redis.call('hset', record, 'closed_until', string.format('%.0f', now + grace))
end
expire_new(record, math.max(tonumber(ARGV[7]), remaining))
if not mode and redis.call('llen', KEYS[4]) > 0 then
  wake_head({
    queue = KEYS[4], deadlines = KEYS[5], vouched = KEYS[6],
    patience = tonumber(ARGV[4]), channel = KEYS[3], publish = publish, message = ARGV[2],
  }, now)
end
return {1, mode or 'sole', token, number, holders, grace}
