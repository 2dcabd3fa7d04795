-- Who holds a lock of any mode, and who waits in its queue. Changes nothing.
--
-- KEYS: 1 lock, 2 fencing counter, 3 queue, 4 base of the read hold keys of any owner
-- ARGV: 1 how many holders and how many waiters to list at the most
-- Returns: {1, mode, remaining lease ms, token, number of holders, holders, number of waiters,
--           waiters}
--            mode: 'free', 'sole' (exclusive or fair), 'read', 'write'
--            remaining lease ms: -2: nobody holds it, -1: no time to live
--            holders: for each its field, hold count, remaining lease ms; waiters: owners
--          {4}  a key is not such a lock's
-- Publishes: nothing

local lock, max = KEYS[1], tonumber(ARGV[1])
local token = read_token(KEYS[2])
local fields = redis.call('hgetall', lock)
if not token then
  return {4}
end
local remaining = redis.call('pttl', lock)
local mode, wrong = #fields == 0 and 'free' or 'sole', false
for i = 1, #fields, 2 do
  if fields[i] == 'mode' then
    mode = fields[i + 1]
    wrong = mode ~= 'read' and mode ~= 'write'
  end
end

local holders, number = {}, 0
for i = 1, #fields, 2 do
  local owner, count, left = fields[i], tonumber(fields[i + 1]), remaining
  if owner ~= 'mode' then
    wrong = wrong or not count
    if mode ~= 'sole' and count and string.sub(owner, -6) ~= ':write' then
      left = redis.call('pttl', KEYS[4] .. ':' .. owner .. ':rwlock_timeout:' .. string.format('%.0f', count))
    end
    -- The field of a reader whose lease has ended may still exist.
    if left ~= -2 or remaining == -2 then
      number = number + 1
      if number <= max then
        holders[3 * number - 2], holders[3 * number - 1], holders[3 * number] = owner, count or 0, left
      end
    end
  end
end
if wrong then
  return {4}
end
local waiters = redis.call('lrange', KEYS[3], 0, max - 1)
return {1, mode, remaining, token, number, holders, redis.call('llen', KEYS[3]), waiters}
