-- Looks at one of several locks, and takes it. See lib/acquire.lua for the results.
--
-- call: owner, writer (the field of its write holds), lease, counter_ttl, hold_back, serial (of read
-- grants that are new), holders_max, now, work (what may be looked at)

local function look_member(member, call)
  local keys, known = member.keys, tonumber(member.known)
  if member.mode == 'read' then
    return look_read(keys, call.owner, call.writer, call.hold_back, known, keys[6], call.holders_max, call.now, call.work)
  elseif member.mode == 'write' then
    return look_write(keys, call.writer, call.owner, member.token, known, call.now, call.work)
  end
  return look_sole(keys[1], call.owner, member.token, known)
end

local function take_member(member, call)
  local keys, known, token, seen = member.keys, tonumber(member.known), member.token, member.seen
  if member.mode == 'read' then
    return take_read(keys[1], keys[3], keys[4], call.owner, call.lease, known, call.serial, token, seen, call.now)
  elseif member.mode == 'write' then
    return take_write(keys, call.counter_ttl, call.writer, call.lease, known, token, seen)
  end
  return take_sole(keys[1], keys[2], call.counter_ttl, call.owner, call.lease, known, token, seen)
end
