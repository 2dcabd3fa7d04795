-- Extends the leases of many holds. One that is gone, or a key that is no lock, does not stop the
-- others.
--
-- KEYS: 2i - 1 lock, 2i fencing counter
-- ARGV: 1 time to live of an idle counter ms, then for each lock: owner, lease ms
-- Returns: {the store's clock in microseconds, then for each lock three numbers:
--           lease ms, hold count, token   renewed
--           -1, 0, 0                      nobody holds it
--           -2, 0, 0                      another one holds it}
-- Publishes: nothing

local counter_ttl = tonumber(ARGV[1])
local reply = {now_micros()}

local function renew(lock, counter, owner, lease)
  local fields = redis.pcall('hmget', lock, owner, 'mode')
  local count = fields[1]
  if fields.err then
    return -2, 0, 0
  elseif not count or (fields[2] and string.sub(owner, -6) ~= ':write') then
    -- A hold in another mode does not count as the requested hold.
    return redis.call('exists', lock) == 1 and -2 or -1, 0, 0
  end
  local left = redis.call('pttl', lock)
  if not may_be_lock(owner, left) then
    return -2, 0, 0
  end
  lease = math.max(lease, left)
  redis.call('pexpire', lock, lease)
  return lease, tonumber(count) or 1, kept_token(counter, counter_ttl)
end

for i = 1, #KEYS / 2 do
  local lease, count, token = renew(KEYS[2 * i - 1], KEYS[2 * i], ARGV[2 * i], tonumber(ARGV[2 * i + 1]))
  reply[3 * i - 1], reply[3 * i], reply[3 * i + 1] = lease, count, token
end
return reply
