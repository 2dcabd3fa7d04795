-- Whether a lock was last taken away by force, and why. Changes nothing.
--
-- KEYS: 1 record of the release by force
-- ARGV: none
-- Returns: {1, token of those who held it, reason, grace period ms that is left, 1 if they were asked
--             to yield before, else 0}
--            reason: '' for a long one, which is not ours
--          {0}  nothing is known of one
-- Publishes: nothing

local known = redis.call('hmget', KEYS[1], 'token', 'reason', 'closed_until', 'preempted')
if not known[1] then
  return {0}
end
local reason, closed = known[2] or '', math.max((tonumber(known[3]) or 0) - now_millis(), 0)
return {1, tonumber(known[1]), #reason <= OWNER_BYTES_MAX and reason or '', closed, known[4] and 1 or 0}
