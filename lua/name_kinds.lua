-- What kind of lock, semaphore or latch each of several names is now, if any. Changes nothing. A
-- hash is a lock if it has the shape of one: with a `mode`, or one field that is a count (beside
-- it may be marks of it), and either an end or an owner as clients make them.
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
  if redis.call('hlen', name) > 3 then
    return 0
  end
  local fields, holder, count = redis.call('hscan', name, '0', 'count', 3)[2], nil, nil
  for i = 1, #fields, 2 do
    if #fields == 2 or not is_mark(fields[i]) then
      if holder then
        return 0
      end
      holder, count = fields[i], string.match(fields[i + 1], '^%d+$')
    end
  end
  return count and may_be_lock(holder, redis.call('pttl', name)) and 1 or 0
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
