-- The waits that the coordinator of an owner has shared. Changes nothing.
--
-- KEYS: 1 waits of a session, or of an owner without one
-- ARGV: none
-- Returns: {1, age ms, waits}  age: how long ago they were written; below 0 if the clock went back
--          {0}                 none are shared
-- Publishes: nothing

local shared = redis.call('get', KEYS[1])
local at, waits = string.match(shared or '', '^(%d+) (.*)$')
if not at then
  return {0}
end
return {1, math.ceil(now_micros() / 1000) - tonumber(at), waits}
