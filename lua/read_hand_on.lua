-- Gives the last read hold of a lock to a writer that waits for it: a release and an acquire, and
-- the lock is free at no moment between them.
--
-- KEYS: 1 lock, 2 fencing counter, 3 prefix of the reader's hold keys, 4 our readers, 5 mark of a
--       waiting writer, 6 record of the request (only with a request id)
-- ARGV: 1 reader, 2 writer, 3 lease ms, 4 serial of the read grant, '' if the caller does not know
--       it, 5 time to live of an idle counter ms, 6 and 7 as 4 and 5 of lock_acquire, 8 attempt,
--       9 retention of the record ms (both only with a request id)
-- Returns: token   the reader has given it back, and the writer holds it; as text if it is the
--                  store's time
--          {0}     nothing changed: it is not the reader's last hold of that grant, there is a record
--                  of the request, or a key is not such a lock's
--          {0, n}  nothing changed: n others read, too
-- Publishes: nothing, because the lock is not free

local lock, counter, reader, writer, serial = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[4]
local ttl, expected, record, call = ARGV[5], ARGV[7], KEYS[6], redis.call
local step = ARGV[6] ~= '' and ARGV[6]

local hold = KEYS[3] .. ':1'
if call('hget', lock, 'mode') ~= 'read' or call('hget', lock, reader) ~= '1' then
  return {0}
end
local known = call('get', hold)
if not known or (serial ~= '' and known ~= serial) then
  return {0}
end
local others = call('hlen', lock) - 2
if others > 0 then
  return {0, others}
end
if record and call('exists', record) == 1 then
  return {0}
end

-- The next token comes here.
if not token then
  return {0}
end

-- Nothing may fail halfway. The counter was set first, because Redis refuses to set it when its
-- memory is full. The lock's key exists throughout, because a cluster lets no script create a key
-- in a slot that is being moved.
call('unlink', KEYS[4], KEYS[5], hold)
call('hset', lock, 'mode', 'write', writer, '1')
call('hdel', lock, reader)
call('pexpire', lock, ARGV[3])
if record then
  -- As in lib/acquire.lua.
  call('hset', record, 'op', 'acquire', 'owner', writer, 'attempt', ARGV[8], 'answer', token)
  call('pexpire', record, ARGV[9])
end
return token
