-- Tells a lock with one owner from a hash of numbers that another program keeps.

-- The beginning of an owner as clients make them: the id of a session or of a Redisson client.
local OWNER = '^%x+%-%x+%-%x+%-%x+%-%x+'

-- `remaining`: the time to live of the hash. A lock ends, and so does not a counter of others. Of
-- a lock that a Redisson client left without an end, the owner tells.
local function may_be_lock(owner, remaining)
  return remaining ~= -1 or string.find(owner, OWNER) ~= nil
end
