-- Sends a message, and returns how many heard it here. The command SPUBLISH stands for both kinds of it that a cluster knows: Redisson listens to the
-- one that belongs to a slot where the servers have it, and to the plain one elsewhere and in its older versions. A server without the first kind
-- refuses it, as does one that has the channel's slot somewhere else; that must not keep the second from being sent. They stand next to each other,
-- so that who listens to both can tell that it is one.
local function publish_to(command, channel, message)
  if command ~= 'SPUBLISH' then
    return redis.call(command, channel, message)
  end
  local heard = redis.pcall('spublish', channel, message)
  local plain = redis.call('publish', channel, message)
  return type(heard) == 'number' and plain + heard or plain
end
