-- Extends the leases of many grants of permits, each as a whole. One that is gone, or a key that is
-- no semaphore's, does not stop the others.
--
-- KEYS: 2i - 1 leases, 2i owners
-- ARGV: for each grant: owner, lease ms, the ids of its permits, 16 bytes each
-- Returns: {the store's clock in microseconds, then for each grant one number:
--           lease ms   renewed
--           -1         the lease of one of its permits has ended, or it was given back
--           -2         another owner has one of them}
-- Publishes: nothing

local micros = now_micros()
local now = math.floor(micros / 1000)
local reply = {micros}

local function renew(leases, owners, owner, lease, ids)
  if redis.call('type', leases).ok ~= 'zset' or redis.call('type', owners).ok ~= 'hash' then
    return -1
  end
  local least, why = held_until(leases, owners, ids, owner, now)
  if not least then
    return why == 1 and -2 or -1
  end
  -- A semaphore with a time to live ends together with its permits.
  local ttl = redis.call('pttl', leases)
  if ttl >= 0 then
    lease = math.min(lease, ttl)
  end
  -- PEXPIRE is first, because it works when memory is full.
  redis.call('pexpire', owners, math.max(lease, redis.call('pttl', owners), 1))
  local ends, scored = string.format('%.0f', now + lease), {}
  for i, id in ipairs(ids) do
    scored[2 * i - 1], scored[2 * i] = ends, id
  end
  redis.call('zadd', leases, 'xx', 'gt', unpack(scored))
  return math.max(least - now, lease)
end

for i = 1, #KEYS / 2 do
  local owner, lease, ids = ARGV[3 * i - 2], tonumber(ARGV[3 * i - 1]), split_ids(ARGV[3 * i])
  reply[i + 1] = renew(KEYS[2 * i - 1], KEYS[2 * i], owner, lease, ids)
end
return reply
