-- A writer waits no longer: readers need not be held back for it. Another one that waits marks that
-- again with its next attempt. Safe to repeat.
--
-- KEYS: 1 mark of a waiting writer, 2 channel
-- ARGV: 1 publish command, 2 message
-- Returns: {1}
-- Publishes: the message on the channel if readers were held back

if redis.call('del', KEYS[1]) == 1 then
  publish_to(ARGV[1], KEYS[2], ARGV[2])
end
return {1}
