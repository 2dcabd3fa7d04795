-- Undoes an acquire of an exclusive lock whose answer nobody took or nobody knows. Safe to repeat,
-- and safe if the acquire never ran.
--
-- KEYS: as of lock_release
-- ARGV: 1 owner, 2 attempt; '': a release in another form, 3 holds that the owner has without it;
--       '' if that is not known (only with a record), 4 publish command, 5 message, 6 serial of the
--       grant it is about; '' if that is not known, 7 channel
-- Returns: {1, holds left}  a hold was taken back
--          {0, holds left}  there was nothing to undo, its grant has ended, or a repeat of the
--                           request has taken the grant over
--          {4}              a key is not such a lock's
-- Publishes: as lock_release

local lock, counter = KEYS[1], KEYS[2]
local owner = ARGV[1]

-- An attempt that is known by neither its grant nor a record has no field but the owner's.
local serial, record = tonumber(ARGV[6]), KEYS[3]
local hold = sole_hold(lock, counter, owner, serial, record, not serial and not record)
local request = {attempt = ARGV[2], expected = tonumber(ARGV[3]), serial = serial}
local token = read_token(counter)
if not hold or not token then
  return {4}
end
hold.serial = token
return undo(record, request, hold, function()
  return drop_hold(lock, counter, hold, hold.left, function()
    publish_to(ARGV[4], ARGV[7], ARGV[5])
  end, request.attempt ~= '')
end)
