-- Takes permits of a semaphore, all that are asked for or none.
--
-- KEYS: 1 semaphore, 2 leases, 3 owners, 4 kind, 5 channel, 6 record of the request (only with a
--       request id)
-- ARGV: 1 owner, 2 lease ms, 3 time to live of an idle kind ms, 4 publish command, 5 '1' to accept a
--       number of others, 6 how many permits may be taken, 7 the ids of the permits, 16 bytes each,
--       at most 1000; without a request id of a single permit 8 the hexadecimal digits of its id;
--       with a request id 8 '', 9 attempt, 10 retention of the record ms, 11 '1' to record a refusal
--       too (an answer), '0' not to (the caller will wait)
-- Returns: available                               granted: one permit, with this lease
--          {1, available, total, lease ms}           granted
--          {5, available, total, lease ms, ids}      a repeat's answer: the ids of the first in hex
--          {0, available, total, ms}                 too few are free; ms until a lease ends, or -1
--          {2}         a repeat of a request that was granted, but the grant has ended
--          {3}         the request id was used for something else
--          {4}         the key is not a semaphore's
--          {7}         there is no semaphore
--          {8, total}  there are not as many
--          {10}        as many are taken as may be
-- Publishes: what is available, if permits whose leases are over were swept and some are left

local semaphore, leases, owners, kind, channel, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local owner, call = ARGV[1], redis.call

-- The most frequent case comes here.
-- The helpers come here.
local lease, kind_ttl, publish, adopt = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local taken_max, ids = tonumber(ARGV[6]), split_ids(ARGV[7])
local attempt, retention, record_refusal = ARGV[9], ARGV[10], ARGV[11] == '1'

local now = now_millis()
local state = read_semaphore(semaphore, leases, owners, kind, adopt, now, #ids)
if not state then
  return {4}
end

local function remember(answer)
  if record then
    redis.call('hset', record, 'op', 'acquire_permits', 'owner', owner, 'attempt', attempt, 'answer', answer)
    expire_new(record, retention)
  end
end

local function repeated(answer)
  local busy = { string.match(answer, '^busy (%S+) (%S+) (%S+)$') }
  if busy[1] then
    -- The answer to a try is of no use to a call that waits.
    return record_refusal and {0, tonumber(busy[1]), tonumber(busy[2]), tonumber(busy[3])} or {3}
  elseif #answer ~= 32 * #ids then
    return {3}
  end
  local ends = held_until(leases, owners, split_ids(unhex(answer)), owner, now)
  if not ends then
    return {2}
  end
  share_record(record, retention, ends - now)
  return {5, state.available or 0, state.total, ends - now, answer}
end

if record then
  local first = redis.call('hmget', record, 'op', 'owner', 'answer')
  if first[1] then
    if first[1] ~= 'acquire_permits' or first[2] ~= owner then
      return {3}
    end
    return repeated(first[3])
  end
end

if not state.available then
  forget_kind(kind, state.taken + state.over)
  return {7}
elseif #ids > state.total then
  return {8, state.total}
elseif state.taken + #ids > taken_max then
  return {10}
end

if #ids > state.available then
  give_back(semaphore, leases, owners, channel, publish, state, {})
  local next_end = redis.call('zrangebyscore', leases, now, '+inf', 'withscores', 'limit', 0, 1)[2]
  local wait = -1
  if next_end and tonumber(next_end) < NEVER then
    wait = tonumber(next_end) - now
  end
  if record_refusal then
    remember(string.format('busy %.0f %.0f %.0f', state.available, state.total, wait))
  end
  return {0, state.available, state.total, wait}
end

-- A semaphore with a time to live ends together with its permits, so their leases cannot be longer.
local ttl = redis.call('pttl', semaphore)
if ttl >= 0 then
  lease = math.min(lease, math.max(ttl, 1))
end
local available = state.available - #ids
if #state.expired > 0 and available > 0 then
  publish_to(publish, channel, string.format('%.0f', available))
end
local digits = take_permits(semaphore, leases, owners, owner, ids, lease, now)
drop_permits(semaphore, leases, owners, state.expired, #state.expired)
if ttl >= 0 then
  redis.call('pexpire', leases, math.max(ttl, 1))
end
mark_kind(kind, 'semaphore', kind_ttl)
remember(table.concat(digits))
return {1, available, state.total, lease}
