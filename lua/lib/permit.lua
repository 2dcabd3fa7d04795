-- Permits as in Redisson's RPermitExpirableSemaphore: `semaphore` is the number of free permits.
-- `leases` has the ids (16 raw bytes) of held permits, scored by the end of their leases in epoch
-- ms. `owners` is ours and maps an id's hexadecimal digits to its owner.

-- The score of a permit that never ends. Only Redisson clients acquire such permits.
local NEVER = 922337203685477
local ID_BYTES = 16
local DIGITS = string.rep('%02x', ID_BYTES)
-- The maximum number of members in one command, and of permits that one script looks at.
local CHUNK = 1000
-- A script that is about many permits removes at least as many expired ones.
local SWEPT_MIN = 100

-- The hexadecimal digits of an id of ours.
local function hex(id)
  return #id == ID_BYTES and string.format(DIGITS, string.byte(id, 1, ID_BYTES)) or ''
end

local function unhex(digits)
  return (string.gsub(digits, '%x%x', function(pair)
    return string.char(tonumber(pair, 16))
  end))
end

-- Splits a text of concatenated ids.
local function split_ids(text)
  local ids = {}
  for i = 1, #text, ID_BYTES do
    ids[#ids + 1] = string.sub(text, i, i + ID_BYTES - 1)
  end
  return ids
end

-- Returns the earliest end of the leases of an owner's permits. Otherwise nil and a reason: 1
-- another owner holds one of them, 2 its lease has ended. At most CHUNK ids.
local function held_until(leases, owners, ids, owner, now)
  local digits = {}
  for i, id in ipairs(ids) do
    digits[i] = hex(id)
  end
  local ends = redis.call('zmscore', leases, unpack(ids))
  local holders = redis.call('hmget', owners, unpack(digits))
  local least
  for i = 1, #ids do
    local score = tonumber(ends[i] or 0)
    if score <= now then
      return nil, 2
    elseif holders[i] ~= owner then
      return nil, 1
    end
    least = math.min(least or score, score)
  end
  return least
end

-- Returns those ids whose leases have not ended.
local function held_of(leases, ids, now)
  local held = {}
  local ends = #ids > 0 and redis.call('zmscore', leases, unpack(ids)) or {}
  for i, id in ipairs(ids) do
    if tonumber(ends[i] or 0) > now then
      held[#held + 1] = id
    end
  end
  return held
end

-- Reads a semaphore; permits whose leases have ended count as free. Returns `available` (nil if
-- there is no semaphore), `taken`, `total`, `over` (the number of permits whose leases have ended)
-- and `expired` (some of them, which are to be removed); nil if the key is not a semaphore's.
-- Changes nothing. `adopt`: as in read_number; `permits`: those that the call is about.
local function read_semaphore(semaphore, leases, owners, kind, adopt, now, permits)
  local number = read_number(semaphore, kind, 'semaphore', leases, adopt)
  local over, expired = redis.call('zcount', leases, '-inf', now), {}
  if over > 0 then
    expired = redis.call('zrangebyscore', leases, '-inf', now, 'limit', 0, math.max(CHUNK - permits, SWEPT_MIN))
  end
  local taken = redis.call('zcard', leases) - over
  redis.call('hlen', owners)
  if number == false then
    return nil
  end
  local available = number and number + over
  return {available = available, taken = taken, total = (available or 0) + taken, over = over, expired = expired}
end
