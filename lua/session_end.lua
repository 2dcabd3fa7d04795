-- Remembers that a session has ended, so that its resume token brings it back nowhere. Of each
-- identity the last ones are remembered.
--
-- KEYS: 1 ended sessions of an identity, by when they are forgotten
-- ARGV: 1 digest of the session, 2 how long it is remembered in ms, 3 how many are
-- Returns: {1}
-- Publishes: nothing

local ended = KEYS[1]
local digest, retention, max = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

if redis.call('zcard', ended) >= max and not redis.call('zscore', ended, digest) then
  local first = redis.call('zrangebyscore', ended, '-inf', '+inf', 'limit', 0, 1)[1]
  redis.call('zrem', ended, first)
end
redis.call('zadd', ended, string.format('%.0f', now_micros() / 1000 + retention), digest)
expire_new(ended, retention)
return {1}
