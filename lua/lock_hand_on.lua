-- Gives the last hold of an exclusive, fair or write lock to another owner, which waits for it: a
-- release and an acquire, and the lock is free at no moment between them.
--
-- KEYS: 1 lock, 2 fencing counter; of a fair lock also 3 queue, 4 deadlines of the queue, 5 vouched
--       waiters; of a write lock also 3 mark of a waiting writer; then the record of the request
--       (only with a request id)
-- ARGV: 1 owner, 2 next owner, 3 lease ms, 4 and 5 as 4 and 5 of lock_acquire: the step is one from
--       the serial of the grant to give back; '' if the caller has not seen the counter, and then
--       6 that serial, '' if the caller does not know it, 7 time to live of an idle counter ms; with
--       a request id, and then without a step, also 8 attempt, 9 retention of the record ms
-- Returns: token  the owner has given it back, and the next one holds it; as text if it is the
--                 store's time
--          {0}    nothing changed: it is not the owner's last hold of that grant, the step did not
--                 lead to what was expected, there is a record of the request, or a key is not
--                 such a lock's
--          {1}    nothing changed: the next owner is not the first in the queue
-- Publishes: nothing, because the lock is not free

local lock, counter, owner, serial, call = KEYS[1], KEYS[2], ARGV[1], ARGV[6], redis.call

local attempt, next_owner = ARGV[8], ARGV[2]
local record = attempt and KEYS[#KEYS]
local queue, fields, mark = KEYS[3], 1, nil
if queue == record then
  queue = nil
elseif KEYS[4] == record then
  -- Its mode is one more field. There are others while the owner reads, too.
  if call('hget', lock, 'mode') ~= 'write' then
    return {0}
  end
  queue, fields, mark = nil, 2, queue
end
if call('hlen', lock) ~= fields or call('hget', lock, owner) ~= '1' then
  return {0}
end

if record and call('exists', record) == 1 then
  return {0}
end

if queue and call('lindex', queue, 0) ~= next_owner then
  return {1}
end

local newer
if not serial then
  -- The most frequent case. If the step leads to what was expected, the counter was the serial, so the
  -- grant is the newest.
  newer = call('incrby', counter, ARGV[4])
  if newer - ARGV[5] ~= 0 then
    -- A step from nothing has made a key without a time to live.
    if call('incrby', counter, '-' .. ARGV[4]) == 0 then
      call('unlink', counter)
    end
    return {0}
  end
else
  local step, expected, ttl = nil, nil, ARGV[7]
  -- The grant is the newest, as its counter says.
  if call('get', counter) == serial then
    -- The next token comes here.
    newer = token
  end
  if not newer then
    -- The helpers come here.
    local newest, known = read_token(counter), tonumber(serial)
    if not newest or newest > (known or newest) then
      return {0}
    end
    newer = raise_token(counter, newest, tonumber(ttl))
  end
end

-- Nothing may fail halfway. The counter is set first, because Redis refuses to set it when its
-- memory is full. The lock's key exists throughout, because a cluster lets no script create a key
-- in a slot that is being moved.
if queue then
  -- As leave_queue of lib/queue.lua, which is not included, because it would cost each exclusive
  -- lock. So it needs no other right.
  call('zrem', KEYS[4], next_owner)
  call('zrem', KEYS[5], next_owner)
  call('lrem', queue, 1, next_owner)
  if call('exists', KEYS[5]) == 0 then
    redis.pcall('persist', queue)
    redis.pcall('persist', KEYS[4])
  end
elseif mark then
  -- As take_write of lib/write.lua.
  call('unlink', mark)
end
call('hset', lock, next_owner, '1')
call('hdel', lock, owner)
call('pexpire', lock, ARGV[3])
if record then
  -- As in lib/acquire.lua.
  call('hset', record, 'op', 'acquire', 'owner', next_owner, 'attempt', attempt, 'answer', newer)
  call('pexpire', record, ARGV[9])
end
return newer
