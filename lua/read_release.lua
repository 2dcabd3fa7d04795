-- Gives one read hold back; the last reader frees the lock and wakes a waiter.
--
-- KEYS: 1 lock, 2 fencing counter, 3 prefix of the owner's hold keys, 4 our readers, 5 base of the
--       hold keys of any owner, 6 channel, 7 record of the request (only with a request id)
-- ARGV: 1 to 6 as of lock_release
-- Returns: as lock_release
-- Publishes: the message on the channel when the lock becomes free

local request = {owner = ARGV[1], retention = ARGV[3]}

local hold = own_read_hold(KEYS, request.owner, tonumber(ARGV[6]))
if not hold then
  return {4}
end
return release(KEYS[7], request, hold, function()
  return drop_read_hold(KEYS, request.owner, hold, tonumber(ARGV[2]), ARGV[4], ARGV[5], now_millis(), new_work())
end)
