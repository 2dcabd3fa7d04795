-- Whether a session is remembered as ended. Changes nothing.
--
-- KEYS: 1 ended sessions of an identity, by when they are forgotten
-- ARGV: 1 digest of the session
-- Returns: {1}  it has ended
--          {0}  nothing is known of its end
-- Publishes: nothing

local forgotten_at = redis.call('zscore', KEYS[1], ARGV[1])
if forgotten_at and tonumber(forgotten_at) * 1000 > now_micros() then
  return {1}
end
return {0}
