-- Who holds a lock of any mode, and who waits in its queue. Changes nothing.
--
-- KEYS: 1 lock, 2 fencing counter, 3 queue, 4 base of the read hold keys of any owner
-- ARGV: 1 how many holders and how many waiters to list at the most
-- Returns: {1, mode, remaining lease ms, token, number of holders, holders, number of waiters,
--           waiters}
--            mode: 'free', 'sole' (exclusive or fair), 'read', 'write'
--            remaining lease ms: -2: nobody holds it, -1: no time to live
--            number of holders: readers whose lease has ended count if they are not looked at
--            holders: for each its field, hold count, remaining lease ms (without the delay of a
--            lock that has one; 0: only that is left), note ('': none); waiters: owners
--          {4}  a key is not such a lock's
--          {9}  the fencing counter is out of range
-- Publishes: nothing

local lock, max = KEYS[1], tonumber(ARGV[1])
-- Of this many readers the notes are listed, the first ones.
local READER_NOTES_MAX = 200

local token, why = read_token(KEYS[2])
if not token then
  return {why}
end
local mode, remaining = redis.call('hget', lock, 'mode'), redis.call('pttl', lock)
local number = redis.call('hlen', lock) - (mode and 1 or 0)
if mode and mode ~= 'read' and mode ~= 'write' then
  return {4}
end

-- The script looks at a page, not at all holders: a tenant may have made many.
local holders = {}
local fields = redis.call('hscan', lock, '0', 'count', max + 2)[2]
for i = 1, #fields, 2 do
  local owner, count, left, hold = fields[i], tonumber(fields[i + 1]), remaining, nil
  if is_mark(owner) then
    count = 1
  elseif #fields > 2 and #fields <= 6 and remaining > 0 and not mode then
    local delay = tonumber(redis.call('hget', lock, delay_mark(owner)) or nil) or 0
    left = math.max(remaining - delay, 0)
  end
  if number > 1 and is_mark(owner) then
    number = number - 1
  elseif owner ~= 'mode' or not mode then
    if not count then
      return {4}
    elseif mode and string.sub(owner, -6) ~= ':write' then
      hold = KEYS[4] .. ':' .. owner .. ':rwlock_timeout:' .. string.format('%.0f', count)
      left = redis.call('pttl', hold)
    end
    -- The field of a reader whose lease has ended may still exist.
    if left == -2 and remaining ~= -2 then
      number = number - 1
    elseif #holders < 4 * max and #owner <= OWNER_BYTES_MAX then
      local note
      if not hold then
        note = note_of(KEYS[2], owner, token)
      elseif #holders < 4 * READER_NOTES_MAX then
        note = note_of_reader(KEYS[2], owner, hold)
      end
      holders[#holders + 1], holders[#holders + 2] = owner, shown_count(count)
      holders[#holders + 1], holders[#holders + 2] = left, note or ''
    end
  end
end
local waiters = {}
for _, owner in ipairs(redis.call('lrange', KEYS[3], 0, max - 1)) do
  if #owner <= OWNER_BYTES_MAX then
    waiters[#waiters + 1] = owner
  end
end
local is = mode or (number > 0 and 'sole' or 'free')
return {1, is, remaining, token, number, holders, redis.call('llen', KEYS[3]), waiters}
