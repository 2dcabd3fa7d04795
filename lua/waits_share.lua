-- Shares the waits of an owner with other coordinators, until its own refreshes them no more.
--
-- KEYS: 1 waits of a session, or of an owner without one
-- ARGV: 1 time to live ms, 2 the waits as coordinators write them; not given: there are none left
-- Returns: the store's time ms
-- Publishes: nothing

local now = string.format('%.0f', math.floor(now_micros() / 1000))
if ARGV[2] then
  redis.call('set', KEYS[1], now .. ' ' .. ARGV[2], 'px', ARGV[1])
else
  redis.call('del', KEYS[1])
end
return now
