-- What every acquire does around its lock: the fencing counter, the record of the request, and the
-- form of the answers.
--
-- request: owner, field (of a sole hold, else nil), attempt, lease in ms, retention of the record in
--   ms (the lease if only an undo will look for it), record_refusal, lock, note (its text, nil if
--   there is none), least (how long a sole lock that is taken now is held at least, in ms; nil: it
--   need not be; the lease is as long), delay (for how long after its lease nobody gets a sole lock
--   that is taken now, in ms; nil: not at all), reader (the owner of a read hold, else nil),
--   readers_base (for a writer)
-- look(token): nil if the key is not this kind of lock, otherwise a table with
--   remaining: ms of the lock's lease; -2: the lock is free, -1: no time to live
--   count: the owner's holds, nil if it has none; if set, also serial, which identifies the grant,
--     and left, ms of its lease
--   open: whether the owner may take the lock now
--   deadlock: whether the owner would wait for itself
--   full: whether as many hold it as may
--   reads: whether readers keep a writer from it
-- take(token, seen): holds, token, lease ms, serial
-- refuse(seen): remaining lease ms, place in the queue (0: unknown)

-- What the id of an attempt with a request id ends in: of one of several locks that are taken one by
-- one, what tells these locks from others.
local SET = '/.*'

local function remember(record, request, answer)
  redis.call('hset', record, 'op', 'acquire', 'owner', request.owner, 'attempt', request.attempt, 'answer', answer)
  expire_new(record, request.retention)
end

-- Returns the answer to a repeat of a request; nil if this is the first call with its id.
local function repeated(record, request, token, seen)
  local first = redis.call('hmget', record, 'op', 'owner', 'answer', 'attempt')
  if not first[1] then
    return nil
  end
  -- A record of version 0.2.0 names none.
  local set = string.match(first[4] or '', SET)
  if first[1] ~= 'acquire' or first[2] ~= request.owner or (set and set ~= string.match(request.attempt, SET)) then
    return {3}
  elseif string.sub(first[3], 1, 4) == 'busy' then
    -- The answer to a try is of no use to a call that waits.
    if not request.record_refusal then
      return {3}
    end
    return {0, tonumber(string.sub(first[3], 6)), 0, token}
  elseif not seen.count or tonumber(first[3]) ~= seen.serial then
    return {2}
  end
  share_record(record, request.retention, seen.left, set)
  return {5, seen.count, token, seen.left, seen.serial}
end

local function acquire(counter, record, request, look, take, refuse)
  local token, why = read_token(counter)
  local seen = token and look(token)
  if not seen then
    return {why or 4}
  end
  local answer = record and repeated(record, request, token, seen)
  if answer then
    return answer
  elseif seen.deadlock then
    return {6}
  elseif not seen.open then
    local remaining, place = refuse(seen)
    if record and request.record_refusal then
      remember(record, request, 'busy ' .. remaining)
    end
    local base = seen.reads and request.readers_base
    return {0, remaining, place, token, holder_note(request.lock, counter, token, base)}
  elseif seen.full then
    return {10}
  end
  local count, newest, lease, serial = take(token, seen)
  if request.note or seen.count then
    write_note(note_key(counter, request.reader), seen.field or request.field or request.owner, serial, request.note, lease)
  end
  if request.least and not seen.count then
    redis.call('hset', request.lock, least_mark(request.field), string.format('%.0f', now_millis() + request.least))
  end
  if request.delay and not seen.count then
    redis.call('hset', request.lock, delay_mark(request.field), string.format('%.0f', request.delay))
    redis.call('pexpire', request.lock, lease + request.delay)
  end
  if record then
    -- A hold that was added to others lives as long as they do.
    if request.retention == request.lease then
      request.retention = lease
    end
    remember(record, request, string.format('%.0f', serial))
  end
  return {1, count, newest, lease, serial}
end
