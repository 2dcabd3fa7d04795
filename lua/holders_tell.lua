-- Sends a message to the coordinators of a lock's holders. It may be missed, so it is repeated until
-- they have answered (holders_reached.lua). Without holders it is for all coordinators, and nobody
-- answers.
--
-- KEYS: 1 holders that were reached
-- ARGV: 1 channel, 2 message, 3 and following: the holders
-- Returns: {for each holder 1 if it was reached, else 0}
-- Publishes: the message on the channel

redis.call('publish', ARGV[1], ARGV[2])
local reached = {}
for i = 3, #ARGV do
  reached[i - 2] = redis.call('hexists', KEYS[1], ARGV[i])
end
return reached
