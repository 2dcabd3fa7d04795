-- Gives permits back, all that are named or none, and wakes those who wait. Without names it gives
-- back those of the owner, a page of the owners in each call.
--
-- KEYS: 1 semaphore, 2 leases, 3 owners, 4 kind, 5 channel, 6 record of the request (only with a
--       request id)
-- ARGV: 1 owner, 2 the ids of the permits, 16 bytes each, at most 1000; '' for all that the owner
--       has, 3 publish command, 4 '1' to accept a number of others; of a single permit without a
--       request id 5 the hexadecimal digits of its id; else 5 '', 6 retention of the record ms,
--       7 page of the owners ('0': the first), 8 permits given back by the pages before
-- Returns: available                       the permit is given back
--          {1, permits given back, available, next page}  given back, those before included; the
--                                                         page is 0 after the last
--          {5, permits given back, available, 0}  the same, as answer to a repeat; the second
--                                                 number is that of now
--          {0, 1}  not the owner of one of them: another owner has it
--          {0, 2}  not the owner of one of them: its lease has ended, or it was given back
--          {0, 3}  the owner has none
--          {3}     the request id was used for something else
--          {4}     the key is not a semaphore's
-- Publishes: what is available then, unless that is nothing

local semaphore, leases, owners, kind, channel, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local owner, publish, call = ARGV[1], ARGV[3], redis.call

-- The most frequent case, without the helpers, which Redis makes anew in each run: the permit is the
-- owner's, and the lease of none has ended. The steps are those of `give_back` in
-- lib/permit_give.lua.
if not ARGV[6] then
  local time, number = call('time'), call('get', semaphore)
  local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
  if
    number and string.find(number, '^%d+$') and call('get', kind) == 'semaphore'
    and call('zcount', leases, '-inf', now) == 0 and call('hget', owners, ARGV[5]) == owner
    and call('zscore', leases, ARGV[2])
  then
    if publish == 'SPUBLISH' then
      redis.pcall('spublish', channel, number + 1)
    end
    call('publish', channel, number + 1)
    call('zrem', leases, ARGV[2])
    call('hdel', owners, ARGV[5])
    return call('incrby', semaphore, '1')
  end
end

-- The helpers come here.

local ids, retention = split_ids(ARGV[2]), ARGV[6]
local before, page = tonumber(ARGV[8] or 0), '0'

local now = now_millis()
local state = read_semaphore(semaphore, leases, owners, kind, ARGV[4], now, #ids)
if not state then
  return {4}
end

if record then
  local first = redis.call('hmget', record, 'op', 'owner', 'answer', 'permits')
  if first[1] then
    -- A coordinator of an earlier version does not record the permits.
    if first[1] ~= 'release_permits' or first[2] ~= owner or (first[4] or ARGV[2]) ~= ARGV[2] then
      return {3}
    end
    return {5, tonumber(first[3]), state.available or 0, 0}
  end
end

if ARGV[2] == '' then
  local scanned = redis.call('hscan', owners, ARGV[7], 'count', CHUNK)
  page = scanned[1]
  for i = 1, #scanned[2], 2 do
    if scanned[2][i + 1] == owner then
      ids[#ids + 1] = unhex(scanned[2][i])
    end
  end
  ids = held_of(leases, ids, now)
  if #ids == 0 and page ~= '0' then
    return {1, before, state.available or 0, tonumber(page)}
  elseif #ids == 0 and before == 0 then
    return {0, 3}
  end
else
  local held, why = held_until(leases, owners, ids, owner, now)
  if not held then
    return {0, why}
  end
end

local available = give_back(semaphore, leases, owners, channel, publish, state, ids)
if record and page == '0' then
  redis.call('hset', record, 'op', 'release_permits', 'owner', owner, 'answer', before + #ids, 'permits', ARGV[2])
  expire_new(record, retention)
end
return {1, before + #ids, available, tonumber(page)}
