-- Publishes a message and returns the number of subscribers that received it here. The command
-- SPUBLISH stands for both kinds of publishing that a cluster has. Redisson subscribes to the
-- sharded channel where the servers have it, and to the plain one elsewhere and in its older
-- versions. A server without sharded channels refuses SPUBLISH, and so does one that has the
-- channel's slot elsewhere. That must not prevent the plain message. The two are adjacent, so that
-- a subscriber to both can tell that they are one.
local function publish_to(command, channel, message)
  if command ~= 'SPUBLISH' then
    return redis.call(command, channel, message)
  end
  local heard = redis.pcall('spublish', channel, message)
  local plain = redis.call('publish', channel, message)
  return type(heard) == 'number' and plain + heard or plain
end
