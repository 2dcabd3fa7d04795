-- Answers a message to the coordinators of a lock's holders (holders_tell.lua): these were reached.
--
-- KEYS: 1 holders that were reached
-- ARGV: 1 how long that is kept in ms, 2 and following: the holders
-- Returns: {1}
-- Publishes: nothing

for i = 2, #ARGV do
  redis.call('hset', KEYS[1], ARGV[i], '1')
end
expire_new(KEYS[1], tonumber(ARGV[1]))
return {1}
