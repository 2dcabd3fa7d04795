-- Lowers a latch's count; at 0 the latch opens and the key goes.
--
-- KEYS: 1 latch, 2 kind, 3 leases that a semaphore of the name would have, 4 record of the request
--       (only with a request id)
-- ARGV: 1 by how many, 2 retention of the record ms, 3 publish command, 4 channel, which is no key
--       because Redisson's name of it need not share the latch's slot, 5 '1' to accept a number of
--       others
-- Returns: {1, count left}  lowered
--          {5, count left}  the same, as answer to a repeat
--          {0, count}       it would be below zero, so nothing changed
--          {3}              the request id was used for something else
--          {4}              the key is not a latch's
-- Publishes: 0 when the latch opens

local latch, kind, leases, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local by, retention, publish, channel = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]

local number = read_number(latch, kind, 'latch', leases, ARGV[5])
if number == false then
  return {4}
end
if record then
  local first = redis.call('hmget', record, 'op', 'by', 'answer')
  if first[1] then
    if first[1] ~= 'count_down' or tonumber(first[2]) ~= by then
      return {3}
    end
    return {5, tonumber(first[3])}
  end
end
if not number then
  forget_kind(kind, 0)
end
if by > (number or 0) then
  return {0, number or 0}
end

local left = number - by
if left == 0 then
  publish_to(publish, channel, '0')
  redis.call('del', latch, kind)
else
  -- A store that is out of memory refuses DECRBY as the first write of a script, but not ZREM. The
  -- key has no leases, otherwise it would be no latch.
  redis.call('zrem', leases, '')
  redis.call('decrby', latch, by)
end
if record then
  redis.call('hset', record, 'op', 'count_down', 'by', by, 'answer', left)
  expire_new(record, retention)
end
return {1, left}
