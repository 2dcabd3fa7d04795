-- How many permits a semaphore has and who holds them. Permits whose leases are over count as free.
-- Changes nothing.
--
-- KEYS: 1 semaphore, 2 leases, 3 owners, 4 kind
-- ARGV: none
-- Returns: {1, total, available, then for each owner: owner, permits, ms until the last of its
--           leases ends; -1: never}; the owner is '' for permits that Redisson clients took
--          {4}  the key is not a semaphore's
-- Publishes: nothing

local semaphore, leases, owners, kind = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local now = now_millis()
local state = read_semaphore(semaphore, leases, owners, kind, now)
if not state then
  return {4}
end

local known = {}
local all = redis.call('hgetall', owners)
for i = 1, #all, 2 do
  known[all[i]] = all[i + 1]
end

local reply, places = {1, state.total, state.available or 0}, {}
local taken = redis.call('zrangebyscore', leases, string.format('(%.0f', now), '+inf', 'withscores')
for i = 1, #taken, 2 do
  local owner, ends = known[hex(taken[i])] or '', tonumber(taken[i + 1])
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
