-- Gives a latch its count, if it has none.
--
-- KEYS: 1 latch, 2 kind, 3 leases that a semaphore of the name would have, 4 record of the request
--       (only with a request id)
-- ARGV: 1 count, 2 time to live ms; 0: none, 3 time to live of an idle kind ms, 4 retention of the
--       record ms, 5 publish command, 6 channel, which is no key because Redisson's name of it need
--       not share the latch's slot, 7 '1' to accept a number of others
-- Returns: {1, count}  set
--          {5, count}  the same, as answer to a repeat
--          {0, count}  it has a count already: this
--          {3}         the request id was used for something else
--          {4}         the key is not a latch's
-- Publishes: 1 when the count is set

local latch, kind, leases, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local count, ttl, kind_ttl, retention = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local publish, channel = ARGV[5], ARGV[6]

local number = read_number(latch, kind, 'latch', leases, ARGV[7])
if number == false then
  return {4}
end
if record then
  local first = redis.call('hmget', record, 'op', 'answer')
  if first[1] then
    if first[1] ~= 'set_count' or first[2] ~= count then
      return {3}
    end
    return {5, tonumber(count)}
  end
end
if number then
  return {0, number}
end

publish_to(publish, channel, '1')
if ttl == 0 then
  redis.call('set', latch, count)
else
  redis.call('set', latch, count, 'px', ttl)
end
mark_kind(kind, 'latch', kind_ttl == 0 and ttl or kind_ttl)
if record then
  redis.call('hset', record, 'op', 'set_count', 'answer', count)
  expire_new(record, retention)
end
return {1, tonumber(count)}
