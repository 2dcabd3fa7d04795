-- Extends the leases of many read holds. One that is gone, or a key that is no lock, does not stop
-- the others. A lease of 0 only makes the lock live as long as the hold again: a Redisson reader's
-- watchdog cuts the lock's time to live to its own lease.
--
-- KEYS: for each hold: lock, our readers and, if counters are named, fencing counter
-- ARGV: as of lock_renew, then the prefix of the owner's hold keys of each hold. No key has that name,
--       so a cluster would refuse it among KEYS for as long as it moves the slot.
-- Returns: as lock_renew, but if counters are named five numbers for each hold:
--           lease ms, hold count, token of the last writer, serial, noted  renewed
--           -1, 0, 0, 0, 0                                                 the owner does not hold
--                                                                          it
--           -2, 0, 0, 0, 0                                                 the owner does not hold
--                                                                          it, but another one does
-- Publishes: nothing

local counter_ttl, lease_of_all, call = tonumber(ARGV[1]), tonumber(ARGV[2]), redis.call
local keys = counter_ttl and 3 or 2
local holds = #KEYS / keys
local prefixes = lease_of_all and 2 + holds or 2 + 2 * holds
local micros = now_micros()
local reply, now = {micros}, math.floor(micros / 1000)

-- What holds with the same lease have in common.
local ends = lease_of_all and string.format('%.0f', now + lease_of_all)

-- Returns ms of the lease, the hold count, and the key of the newest hold.
local function renew(lock, prefix, readers, owner, lease, text)
  local count = redis.pcall('hget', lock, owner)
  if type(count) == 'table' then
    return -1
  elseif not count then
    return call('hlen', lock) > 1 and -2 or -1
  end
  local key, score = prefix .. ':' .. count, ends
  local left = call('pttl', key)
  if left == -2 then
    return -1
  elseif left < lease then
    call('pexpire', key, text)
  else
    lease, text, score = left, string.format('%.0f', left), nil
    -- So that a full store does not refuse the next command, and with it the holds that come after.
    call('pexpire', key, string.format('%.0f', math.max(left, 1)))
  end
  call('zadd', readers, score or string.format('%.0f', now + lease), owner)
  if call('pttl', lock) < lease then
    call('pexpire', lock, text)
  end
  if call('pttl', readers) < lease then
    call('pexpire', readers, text)
  end
  return lease, count, key
end

for i = 1, holds do
  local text, first = lease_of_all and ARGV[2] or ARGV[2 + holds + i], keys * (i - 1)
  local asked = lease_of_all or tonumber(text)
  local lease, count, key = renew(KEYS[first + 1], ARGV[prefixes + i], KEYS[first + 2], ARGV[2 + i], asked, text)
  if counter_ttl then
    local at = 5 * i - 3
    reply[at], reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4] = lease, 0, 0, 0, 0
    if count then
      reply[at + 1], reply[at + 2] = tonumber(count), kept_token(KEYS[first + 3], counter_ttl)
      reply[at + 3] = tonumber(call('get', key) or nil) or 0
      reply[at + 4] = extend_note(note_key(KEYS[first + 3], ARGV[2 + i]), lease)
    end
  elseif lease ~= asked then
    reply[#reply + 1], reply[#reply + 2] = i, lease
  end
end
return #reply > 1 and reply or reply[1]
