-- Undoes a write acquire whose answer nobody took or nobody knows. Safe to repeat, and safe if it
-- never ran.
--
-- KEYS: as of write_release
-- ARGV: as of lock_undo
-- Returns: as lock_undo
-- Publishes: as write_release

local lock, owner = KEYS[1], ARGV[1]
local request = {attempt = ARGV[2], expected = tonumber(ARGV[3]), serial = tonumber(ARGV[6])}

local hold = write_hold(lock, KEYS[2], owner, tonumber(ARGV[6]))
local token = read_token(KEYS[2])
if not hold or not token then
  return {4}
end
hold.serial = token
return undo(KEYS[3], request, hold, function()
  return drop_write_hold(lock, KEYS[2], owner, hold.count, hold.left, ARGV[7], ARGV[4], ARGV[5])
end)
