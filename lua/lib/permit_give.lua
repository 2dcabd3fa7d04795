-- Gives permits of a semaphore back.

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

-- Releases expired permits and `ids`, and returns the number then available. PUBLISH is first,
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
