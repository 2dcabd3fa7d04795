-- Undoes a read acquire whose answer nobody took or nobody knows. Safe to repeat, and safe if it
-- never ran.
--
-- KEYS: as of read_release
-- ARGV: 1 to 6 as of lock_undo
-- Returns: as lock_undo
-- Publishes: as read_release

local owner = ARGV[1]
local request = {attempt = ARGV[2], expected = tonumber(ARGV[3]), serial = tonumber(ARGV[6])}

local hold = own_read_hold(KEYS, owner, tonumber(ARGV[6]))
if not hold then
  return {4}
end
return undo(KEYS[7], request, hold, function()
  return (drop_read_hold(KEYS, owner, hold, hold.left, ARGV[4], ARGV[5], now_millis(), new_work()))
end)
