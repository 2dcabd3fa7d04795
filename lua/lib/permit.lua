-- Permits as in Redisson's RPermitExpirableSemaphore: `semaphore` is the number of free permits.
-- `leases` has the ids (16 raw bytes) of held permits, scored by the end of their leases in epoch
-- ms. `owners` is ours and maps an id's hexadecimal digits to its owner.

-- The score of a permit that never ends. Only Redisson clients acquire such permits.
local NEVER = 922337203685477
local ID_BYTES = 16
-- The maximum number of members in one command.
local CHUNK = 1000

local function hex(id)
  return (string.gsub(id, '.', function(byte)
    return string.format('%02x', string.byte(byte))
  end))
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

local function now_millis()
  return math.floor(now_micros() / 1000)
end

-- Returns when the lease of an owner's permit ends. Otherwise nil and a reason: 1 another owner
-- holds it, 2 its lease has ended.
local function held_until(leases, owners, id, owner, now)
  local score = tonumber(redis.call('zscore', leases, id) or 0)
  if score <= now then
    return nil, 2
  elseif redis.call('hget', owners, hex(id)) ~= owner then
    return nil, 1
  end
  return score
end

-- Reads a semaphore; permits whose leases have ended count as free. Returns `available` (nil if
-- there is no semaphore), `total` and `expired`, which are still to be removed; nil if the key is
-- not a semaphore's. Changes nothing.
local function read_semaphore(semaphore, leases, owners, kind, now)
  local number = read_number(semaphore, kind, 'semaphore', leases)
  local expired = redis.call('zrangebyscore', leases, '-inf', now)
  local taken = redis.call('zcard', leases) - #expired
  redis.call('hlen', owners)
  if number == false then
    return nil
  end
  local available = number and number + #expired
  return { available = available, taken = taken, total = (available or 0) + taken, expired = expired }
end

-- Removes held permits. Without a semaphore there is nothing to return them to. ZREM is before
-- INCRBY, because a store that is out of memory refuses INCRBY as the first write of a script.
local function drop_permits(semaphore, leases, owners, ids, change)
  for first = 1, #ids, CHUNK do
    local last = math.min(first + CHUNK - 1, #ids)
    local fields = {}
    for i = first, last do
      fields[#fields + 1] = hex(ids[i])
    end
    redis.call('zrem', leases, unpack(ids, first, last))
    redis.call('hdel', owners, unpack(fields))
  end
  if change ~= 0 then
    redis.call('incrby', semaphore, change)
  end
end

-- Releases the expired permits and `ids`, and returns the number then available. PUBLISH is first,
-- so that its refusal changes nothing. Nothing is published if no permit is available. The number
-- is negative if a semaphore was made smaller than its held permits, and Redisson cannot handle
-- that.
local function give_back(semaphore, leases, owners, channel, publish, state, ids)
  local gone = {}
  for _, list in ipairs({ state.expired, ids }) do
    for _, id in ipairs(list) do
      gone[#gone + 1] = id
    end
  end
  if not state.available then
    drop_permits(semaphore, leases, owners, gone, 0)
    return 0
  end
  local available = state.available + #ids
  if #gone > 0 and available > 0 then
    publish_to(publish, channel, string.format('%.0f', available))
  end
  drop_permits(semaphore, leases, owners, gone, #gone)
  return available
end
