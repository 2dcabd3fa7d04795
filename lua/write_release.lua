-- Gives one write hold back; the last one frees the lock, or leaves it to the read holds of the
-- same owner, and wakes all waiters.
--
-- KEYS: 1 lock, 2 fencing counter, 3 channel, 4 record of the request (only with a request id)
-- ARGV: 1 to 6 as of lock_release
-- Returns: as lock_release
-- Publishes: the message on the channel when no write hold is left

local lock, channel = KEYS[1], KEYS[3]
local request = {owner = ARGV[1], retention = ARGV[3]}

local hold = write_hold(lock, KEYS[2], request.owner, tonumber(ARGV[6]))
if not hold then
  return {4}
end
return release(KEYS[4], request, hold, function()
  local ttl = math.max(tonumber(ARGV[2]), hold.left)
  return drop_write_hold(lock, request.owner, hold.count, ttl, channel, ARGV[4], ARGV[5]), ttl
end)
