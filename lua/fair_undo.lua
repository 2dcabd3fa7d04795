-- Undoes an acquire of a fair lock whose answer nobody took or nobody knows. Safe to repeat, and
-- safe if the acquire never ran.
--
-- KEYS: as of fair_release
-- ARGV: 1 to 6 as of lock_undo, 7 how long a waiter that nobody vouches for keeps its place ms
-- Returns: as lock_undo
-- Publishes: as fair_release

local lock, counter = KEYS[1], KEYS[2]
local owner = ARGV[1]

-- An attempt that is known by neither its grant nor a record has no field but the owner's.
local serial, record = tonumber(ARGV[6]), KEYS[7]
local hold = sole_hold(lock, counter, owner, serial, record, not serial and not record)
local request = {attempt = ARGV[2], expected = tonumber(ARGV[3]), serial = serial}
local token = read_token(counter)
if not hold or not token then
  return {4}
end
hold.serial = token
return undo(record, request, hold, function()
  return drop_hold(lock, counter, hold, hold.left, wake_sole(KEYS, ARGV[7], ARGV[4], ARGV[5]), request.attempt ~= '')
end)
