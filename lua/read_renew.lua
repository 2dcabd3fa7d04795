-- Extends the leases of many read holds. One that is gone, or a key that is no lock, does not stop
-- the others. A lease of 0 only makes the lock live as long as the hold again: a Redisson reader's
-- watchdog cuts the lock's time to live to its own lease.
--
-- KEYS: 4i - 3 lock, 4i - 2 fencing counter, 4i - 1 prefix of the owner's hold keys, 4i our readers
-- ARGV: 1 time to live of an idle counter ms, then for each hold: owner, lease ms
-- Returns: {the store's clock in microseconds, then for each hold four numbers:
--           lease ms, hold count, token of the last writer, serial   renewed
--           -1, 0, 0, 0                                              the owner does not hold it
--           -2, 0, 0, 0                                              the owner does not hold it,
--                                                                    but another one does}
-- Publishes: nothing

local counter_ttl = tonumber(ARGV[1])
local reply = {now_micros()}
local now = now_millis()

local function renew(lock, counter, prefix, readers, owner, lease)
  if redis.call('type', lock).ok ~= 'hash' then
    return -1, 0, 0, 0
  end
  local count, left, serial = read_hold(lock, prefix, owner)
  if not count then
    return redis.call('hlen', lock) > 1 and redis.call('hexists', lock, owner) == 0 and -2 or -1, 0, 0, 0
  end
  lease = math.max(lease, left)
  redis.call('pexpire', prefix .. ':' .. string.format('%.0f', count), lease)
  redis.call('zadd', readers, string.format('%.0f', now + lease), owner)
  keep_at_least(lock, lease)
  keep_at_least(readers, lease)
  return lease, count, kept_token(counter, counter_ttl), serial or 0
end

for i = 1, #KEYS / 4 do
  local lease, count, token, serial =
    renew(KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], KEYS[4 * i], ARGV[2 * i], tonumber(ARGV[2 * i + 1]))
  reply[4 * i - 2], reply[4 * i - 1], reply[4 * i], reply[4 * i + 1] = lease, count, token, serial
end
return reply
