-- How many permits a semaphore has and who holds them. Permits whose leases are over count as free.
-- Changes nothing.
--
-- KEYS: 1 semaphore, 2 leases, 3 owners, 4 kind
-- ARGV: 1 '1' to accept a number of others, 2 how many permits to pass over, in the order in which
--       their leases end, 3 how many to look at, at most 1000
-- Returns: {1, total, available, permits looked at, then for each of their owners: owner, permits,
--           ms until the last of its leases ends; -1: never}; the owner is '' for permits that
--           Redisson clients took
--          {4}  the key is not a semaphore's
-- Publishes: nothing

local semaphore, leases, owners, kind = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local now = now_millis()
local state = read_semaphore(semaphore, leases, owners, kind, ARGV[1], now, 0)
if not state then
  return {4}
end

local taken = redis.call('zrangebyscore', leases, string.format('(%.0f', now), '+inf', 'withscores', 'limit', ARGV[2], ARGV[3])
local reply, places, digits = {1, state.total, state.available or 0, #taken / 2}, {}, {}
for i = 1, #taken, 2 do
  digits[#digits + 1] = hex(taken[i])
end
local known = #digits > 0 and redis.call('hmget', owners, unpack(digits)) or {}
for i = 1, #digits do
  local owner, ends = known[i] or '', tonumber(taken[2 * i])
  if #owner > OWNER_BYTES_MAX then
    owner = ''
  end
  local place = places[owner]
  if not place then
    place = #reply + 1
    places[owner] = place
    reply[place], reply[place + 1] = owner, 0
  end
  reply[place + 1] = reply[place + 1] + 1
  reply[place + 2] = ends < NEVER and ends - now or -1
end
return reply
