-- Gives permits back, all that are named or none, and wakes those who wait.
--
-- KEYS: 1 semaphore, 2 leases, 3 owners, 4 kind, 5 channel, 6 record of the request (only with a
--       request id)
-- ARGV: 1 owner, 2 the ids of the permits, 16 bytes each; '' for all that the owner has,
--       3 retention of the record ms, 4 publish command
-- Returns: {1, permits given back, available}  given back
--          {5, permits given back, available}  the same, as answer to a repeat; the second number
--                                              is that of now
--          {0, 1}  not the owner of one of them: somebody else has it
--          {0, 2}  not the owner of one of them: its lease has ended, or it was given back
--          {0, 3}  the owner has none
--          {3}     the request id was used for something else
--          {4}     the key is not a semaphore's
-- Publishes: what is available then, unless that is nothing

local semaphore, leases, owners, kind, channel, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local owner, ids, retention, publish = ARGV[1], split_ids(ARGV[2]), ARGV[3], ARGV[4]

local now = now_millis()
local state = read_semaphore(semaphore, leases, owners, kind, now)
if not state then
  return {4}
end

if record then
  local first = redis.call('hmget', record, 'op', 'owner', 'answer')
  if first[1] then
    if first[1] ~= 'release_permits' or first[2] ~= owner then
      return {3}
    end
    return {5, tonumber(first[3]), state.available or 0}
  end
end

if #ids == 0 then
  local all = redis.call('hgetall', owners)
  for i = 1, #all, 2 do
    local id = unhex(all[i])
    if held_until(leases, owners, id, owner, now) then
      ids[#ids + 1] = id
    end
  end
  if #ids == 0 then
    return {0, 3}
  end
end
for _, id in ipairs(ids) do
  local held, why = held_until(leases, owners, id, owner, now)
  if not held then
    return {0, why}
  end
end

local available = give_back(semaphore, leases, owners, channel, publish, state, ids)
if record then
  redis.call('hset', record, 'op', 'release_permits', 'owner', owner, 'answer', #ids)
  redis.call('pexpire', record, retention)
end
return {1, #ids, available}
