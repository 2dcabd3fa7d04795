-- What kind of lock, semaphore or latch each of several names is now, if any. Changes nothing. A
-- hash is a lock if it has the shape of one: with a `mode`, or one field that is a count (beside
-- it may be how long it is held at least), and either an end or an owner as clients make them.
--
-- KEYS: 4i - 3 name, 4i - 2 kind, 4i - 1 leases of permits, 4i queue
-- ARGV: none
-- Returns: for each name 0: none that is known, 1: a lock with one owner, 2: a read/write lock,
--           3: a semaphore, 4: a latch
-- Publishes: nothing

local function has_type(key, wanted)
  return redis.call('type', key).ok == wanted
end

local function of_hash(name)
  local mode = redis.call('hget', name, 'mode')
  if mode == 'read' or mode == 'write' then
    return 2
  end
  local number = redis.call('hlen', name)
  if number > 2 then
    return 0
  end
  local field = redis.call('hscan', name, '0', 'count', 2)[2]
  if number == 2 and is_least_mark(field[1]) then
    field = {field[3], field[4]}
  elseif number == 2 and not is_least_mark(field[3]) then
    return 0
  end
  local counts = string.match(field[2], '^%d+$')
  return counts and may_be_lock(field[1], redis.call('pttl', name)) and 1 or 0
end

local function of_text(kind, leases)
  local known = has_type(kind, 'string') and redis.call('get', kind)
  if known == 'semaphore' or (not known and has_type(leases, 'zset')) then
    return 3
  end
  return known == 'latch' and 4 or 0
end

local reply = {}
for i = 1, #KEYS, 4 do
  local is = redis.call('type', KEYS[i]).ok
  if is == 'hash' then
    reply[#reply + 1] = of_hash(KEYS[i])
  elseif is == 'string' then
    reply[#reply + 1] = of_text(KEYS[i + 1], KEYS[i + 2])
  else
    reply[#reply + 1] = is == 'none' and has_type(KEYS[i + 3], 'list') and 1 or 0
  end
end
return reply
