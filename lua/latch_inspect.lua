-- A latch's count. Changes nothing.
--
-- KEYS: 1 latch, 2 kind, 3 leases that a semaphore of the name would have
-- ARGV: 1 '1' to accept a number of others
-- Returns: {1, count, remaining time to live ms}  the time is -1 if there is no end, -2 if there is
--                                                 no count, and the count is 0 then
--          {4}                                    the key is not a latch's
-- Publishes: nothing

local latch, kind, leases = KEYS[1], KEYS[2], KEYS[3]

local number = read_number(latch, kind, 'latch', leases, ARGV[1])
if number == false then
  return {4}
end
return {1, math.max(number or 0, 0), redis.call('pttl', latch)}
