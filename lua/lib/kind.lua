-- Redisson keeps a semaphore and a latch alike, as a number under the name, so a key of our own says which of the two it is. It ends when the name
-- has been idle for long: then, as for a number that a Redisson client made, whoever asks is believed.

-- The number under a name; nil if there is none, false if it is not a number or one of another kind. `leases` only a semaphore has.
local function read_number(key, kind, wanted, leases)
  local value, known = redis.call('get', key), redis.call('get', kind)
  if redis.call('zcard', leases) > 0 and wanted == 'latch' then
    return false
  elseif not value then
    return nil
  elseif (known and known ~= wanted) or not string.match(value, '^-?%d+$') then
    return false
  end
  return tonumber(value)
end

-- Says which kind it is; `ttl` 0: for ever.
local function mark_kind(kind, is, ttl)
  if ttl == 0 then
    redis.call('set', kind, is)
  else
    redis.call('set', kind, is, 'px', ttl)
  end
end
