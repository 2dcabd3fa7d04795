-- An owner's holds of several locks, and the release of one hold of each.
--
-- who: owner, writer (the field of its write holds), publish (command), one (message that wakes one
-- waiter), all (message that wakes all), patience (for a fair lock, how long a waiter that its
-- coordinator no longer vouches for keeps its place, in ms), exact (whether without a serial a field
-- that names a grant is not the owner's)

-- The number of a member's keys: those of the release script of its mode without the record.
local MEMBER_KEYS = {sole = 3, fair = 6, read = 6, write = 3}

-- Returns `hold` of lib/release.lua; nil if the key is not this kind of lock.
local function member_hold(member, who)
  local keys, serial = member.keys, tonumber(member.serial)
  if redis.call('exists', keys[1]) == 1 and redis.call('type', keys[1]).ok ~= 'hash' then
    return nil
  elseif member.mode == 'read' then
    return own_read_hold(keys, who.owner, serial)
  elseif member.mode == 'write' then
    return write_hold(keys[1], keys[2], who.writer, serial)
  end
  return sole_hold(keys[1], keys[2], who.owner, serial, true, who.exact and not serial)
end

-- Removes one hold; the remaining ones get at least `lease`. Returns the number of holds left and
-- their lease. `work`: what may be looked at.
local function drop_member(member, who, hold, lease, now, work)
  local keys, ttl = member.keys, math.max(lease, hold.left)
  if member.mode == 'read' then
    return drop_read_hold(keys, who.owner, hold, lease, who.publish, who.one, now, work)
  elseif member.mode == 'write' then
    return drop_write_hold(keys[1], keys[2], who.writer, hold.count, ttl, keys[3], who.publish, who.all), ttl
  end
  local wake = wake_sole(keys, member.mode == 'fair' and who.patience or '', who.publish, who.one)
  return drop_hold(keys[1], keys[2], hold, ttl, wake), ttl
end
