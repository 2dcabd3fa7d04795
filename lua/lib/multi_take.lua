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

-- Same as `repeated` of lib/acquire.lua; its comments apply here too.
local function repeated_all(record, call, locks, retention, record_refusal, members)
  local first = redis.call('hmget', record, 'op', 'owner', 'locks', 'answer')
  if not first[1] then
    return nil
  elseif first[1] ~= 'acquire_all' or first[2] ~= call.owner or first[3] ~= locks then
    return {3}
  end
  local which, remaining = string.match(first[4], '^busy (%d+) (-?%d+)$')
  if which then
    return record_refusal and {0, tonumber(which), tonumber(remaining)} or {3}
  end
  local reply, at, longest = {5}, 0, 0
  for serial in string.gmatch(first[4], '%d+') do
    at = at + 1
    local member = members[at]
    if not member.seen.count or tonumber(serial) ~= member.seen.serial then
      return {2}
    end
    reply[4 * at - 2], reply[4 * at - 1] = member.seen.count, member.token
    reply[4 * at], reply[4 * at + 1] = member.seen.left, member.seen.serial
    longest = math.max(longest, member.seen.left)
  end
  share_record(record, retention, longest)
  return reply
end
