-- Tells a lock with one owner from a hash of numbers that another program keeps.

-- The beginning of an owner as clients make them: the id of a session or of a Redisson client.
local OWNER = '^%x+%-%x+%-%x+%-%x+%-%x+'

-- The owner that a field belongs to: the field without the number of a grant, which stands behind
-- the session id.
local function owner_of(field)
  if not string.find(field, '#', 1, true) then
    return field
  end
  return (string.gsub(field, OWNER .. '#%d+:', function(start)
    return string.match(start, '^[^#]+') .. ':'
  end))
end

-- The field beside an owner's that says until when the lock stays held after its last release, in ms
-- of the store's clock. After that release it stands alone, and to all others, also to Redisson, the
-- lock is one that a stranger holds.
local LEAST_MARK = 'lockkeeper_least:'

local function least_mark(owner)
  return LEAST_MARK .. owner_of(owner)
end

-- The field beside an owner's that says for how many ms after its lease the lock stays held, unless
-- the owner releases it before. The time to live of the key is the lease and the delay.
local DELAY_MARK = 'lockkeeper_delay:'

local function delay_mark(owner)
  return DELAY_MARK .. owner_of(owner)
end

-- The fields of a lock with one owner: what counts the owner's holds, and a read/write lock's mode. If
-- there are others, then also the marks of the owner, delay and least.
local function sole_fields(lock, owner)
  if redis.call('hlen', lock) > 1 then
    return redis.call('hmget', lock, owner, 'mode', delay_mark(owner), least_mark(owner))
  end
  return redis.call('hmget', lock, owner, 'mode')
end

-- Whether a field says something of a hold and is none itself.
local function is_mark(field)
  local start = string.sub(field, 1, #LEAST_MARK)
  return start == LEAST_MARK or start == DELAY_MARK
end

-- The field of an owner that has none of its own, if it names the grant: a lock that is taken so has
-- no other. nil if there is none, or the caller has asked for one grant itself.
local function grant_field(lock, owner)
  if not string.find(owner, OWNER .. ':') or redis.call('hlen', lock) ~= 1 then
    return nil
  end
  local field = redis.call('hscan', lock, '0', 'count', 1)[2][1]
  return field and owner_of(field) == owner and field or nil
end

-- `remaining`: the time to live of the hash. A lock ends, and so does not a counter of others. Of
-- a lock that a Redisson client left without an end, the owner tells.
local function may_be_lock(owner, remaining)
  return remaining ~= -1 or string.find(owner, OWNER) ~= nil
end
