-- Extends the leases of many holds. One that is gone, or a key that is no lock, does not stop the
-- others.
--
-- KEYS: for each hold: lock and, if counters are named, fencing counter
-- ARGV: 1 time to live of an idle counter ms; '' if no counters are named, 2 lease ms of all holds;
--       '' if they differ, then the owner of each hold, then, if they differ, the lease of each
-- Returns: the store's clock in microseconds, if no counters are named: all have the lease that was
--          asked for
--          {the clock, then for each hold that has not: its number, and its lease ms, -1 or -2}
--          {the clock, then for each hold, if counters are named, four numbers:
--           lease ms, hold count, token, noted  renewed; 1: and so is a note, 0: there is none
--           -1, 0, 0, 0                         nobody holds it, or its lease is over and its delay
--                                               runs
--           -2, 0, 0, 0                         another one holds it}
-- Publishes: nothing

local counter_ttl, lease_of_all, call = tonumber(ARGV[1]), tonumber(ARGV[2]), redis.call
local keys = counter_ttl and 2 or 1
local holds = #KEYS / keys
local reply = {now_micros()}

-- Returns ms of the lease, -1 or -2, and the field of the hold.
local function renew(lock, owner, lease, text)
  local held, delay = redis.pcall('hexists', lock, owner), 0
  if held == 0 then
    owner = grant_field(lock, owner)
    if not owner then
      return call('exists', lock) == 1 and -2 or -1
    end
  elseif held ~= 1 then
    return -2
  elseif call('hlen', lock) > 1 then
    local fields = call('hmget', lock, 'mode', delay_mark(owner))
    if fields[1] and string.sub(owner, -6) ~= ':write' then
      -- A hold in another mode does not count as the requested hold.
      return -2
    end
    delay = tonumber(fields[2]) or 0
  end
  local left = call('pttl', lock)
  if delay > 0 and left <= delay then
    return -1
  end
  left = left - delay
  if left >= lease then
    return left, owner
  elseif left == -1 and not may_be_lock(owner, left) then
    return -2
  end
  call('pexpire', lock, delay > 0 and lease + delay or text)
  return lease, owner
end

for i = 1, holds do
  local text, lock, owner = lease_of_all and ARGV[2] or ARGV[2 + holds + i], KEYS[keys * (i - 1) + 1], ARGV[2 + i]
  local asked = lease_of_all or tonumber(text)
  local lease, field = renew(lock, owner, asked, text)
  if counter_ttl then
    reply[4 * i - 2], reply[4 * i - 1], reply[4 * i], reply[4 * i + 1] = lease, 0, 0, 0
    if lease >= 0 then
      reply[4 * i - 1] = tonumber(call('hget', lock, field)) or 1
      reply[4 * i] = kept_token(KEYS[2 * i], counter_ttl)
      reply[4 * i + 1] = extend_note(note_key(KEYS[2 * i]), lease)
    end
  elseif lease ~= asked then
    reply[#reply + 1], reply[#reply + 2] = i, lease
  end
end
return #reply > 1 and reply or reply[1]
