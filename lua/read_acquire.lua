-- Takes a read hold, one more by the same owner, or tells what is left of the writer's lease.
--
-- KEYS: 1 lock, 2 fencing counter, 3 prefix of the owner's hold keys, 4 our readers, 5 mark of a
--       waiting writer, 6 base of the hold keys of any owner, 7 record of the request (only with a
--       request id)
-- ARGV: 1 owner, 2 lease ms, 3 serial of the grant if it is a new one, 4 how long a waiting writer
--       holds readers back ms, 5 how many may hold the lock, 6 to 10 as of lock_acquire
-- Returns: token of the last writer, 0 if none is known  granted: one hold, with this lease and
--                                                        serial
--          {1, hold count, token of the last writer, lease ms, serial}  granted
--          {5, hold count, token of the last writer, lease ms, serial}  the same, as answer to a
--                                                                       repeat
--          {0, remaining lease ms, 0, counter, note}  a writer holds it, or waits and is let go
--                                               first; -1: the key has no time to live; note as
--                                               lock_acquire
--          {2}                                  a repeat of a request that was granted, but the
--                                               grant has ended
--          {3}                                  the request id was used for something else
--          {4}                                  a key is not such a lock's
--          {9}                                  the fencing counter is out of range
--          {10}                                 as many hold it as may
-- Publishes: nothing

local lock, counter, prefix, readers, mark = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local owner, lease, serial, call = ARGV[1], ARGV[2], ARGV[3], redis.call

-- The most frequent case, without the helpers, which Redis makes anew in each run: the lock is
-- free, and no writer waits. The steps are those of `take_read` in lib/read_acquire.lua.
if not ARGV[6] and call('pttl', lock) == -2 and call('pttl', mark) == -2 then
  local token = tonumber(call('get', counter) or 0)
  if token and token < 9007199254740991 then
    local now = call('time')
    local millis = now[1] .. string.sub('00000' .. now[2], -6, -4)
    call('set', prefix .. ':1', serial, 'px', lease)
    call('unlink', readers)
    call('hset', lock, 'mode', 'read', owner, '1')
    if redis.pcall('pexpire', lock, lease) ~= 1 then
      redis.pcall('del', lock)
      call('pexpire', lock, lease)
    end
    call('zadd', readers, string.format('%d', millis + lease), owner)
    if redis.pcall('pexpire', readers, lease) ~= 1 then
      redis.pcall('unlink', readers)
      call('pexpire', readers, lease)
    end
    return token
  end
end

-- The helpers come here.

local known, record = tonumber(ARGV[6] or 0), KEYS[7]
local request = {
  owner = owner, attempt = ARGV[7], retention = ARGV[8], record_refusal = ARGV[9] == '1',
  lease = lease, lock = lock, note = ARGV[10], reader = owner,
}
local now = now_millis()

return acquire(counter, record, request, function()
  return look_read(KEYS, owner, owner .. ':write', tonumber(ARGV[4]), known, KEYS[6], tonumber(ARGV[5]), now, new_work())
end, function(token, seen)
  return take_read(lock, prefix, readers, owner, tonumber(lease), known, tonumber(serial), token, seen, now)
end, function(seen)
  return seen.remaining, 0
end)
