-- The waits that the coordinator of an owner has shared. Changes nothing.
--
-- KEYS: 1 waits of a session, or of an owner without one
-- ARGV: none
-- Returns: {1, age ms, waits}  age: how long ago they were written; below 0 if the clock went back
--          {0}                 none are shared
-- Publishes: nothing

-- Longer ones are not ours.
local WAITS_BYTES_MAX = 65536

local shared = redis.call('get', KEYS[1]) or ''
local at, waits = string.match(shared, '^(%d+) (.*)$')
if not at or #shared > WAITS_BYTES_MAX then
  return {0}
end
return {1, math.ceil(now_micros() / 1000) - tonumber(at), waits}
