-- Undoes an acquire of permits whose answer nobody took or nobody knows. Safe to repeat, and safe
-- if the acquire never ran.
--
-- KEYS: 1 semaphore, 2 leases, 3 owners, 4 kind, 5 channel, 6 record of the request (only with a
--       request id)
-- ARGV: 1 attempt, 2 the ids of its permits, 16 bytes each, at most 1000, 3 publish command,
--       4 '1' to accept a number of others
-- Returns: {1, permits}  so many were given back
--          {0, 0}        there was nothing to undo, or a repeat of the request has taken the grant
--                        over
--          {4}           the key is not a semaphore's
-- Publishes: what is available then, unless that is nothing

local semaphore, leases, owners, kind, channel, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local attempt, publish = ARGV[1], ARGV[3]

local now = now_millis()
local state = read_semaphore(semaphore, leases, owners, kind, ARGV[4], now, #ARGV[2] / ID_BYTES)
if not state then
  return {4}
end

local known = record and redis.call('hget', record, 'attempt')
if known and known ~= attempt then
  return {0, 0}
elseif known then
  redis.call('del', record)
end

-- The ids belong to this attempt alone, so they identify everything to undo, also when the record has
-- ended before the lease.
local ids = held_of(leases, split_ids(ARGV[2]), now)
if #ids == 0 then
  return {0, 0}
end
give_back(semaphore, leases, owners, channel, publish, state, ids)
return {1, #ids}
