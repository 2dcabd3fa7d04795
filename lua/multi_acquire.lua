-- Takes several locks for one owner if all can be had, else none, and tells of one that cannot.
--
-- KEYS: for each lock those of the acquire script of its mode but for the record, then the record
--       of the request
-- ARGV: 1 to 6 as of lock_acquire, 7 what tells these locks from others, 8 field of the owner's
--       write holds, 9 serial of read grants that are new ones, 10 how long a waiting writer holds
--       readers back ms, 11 '1' if the caller waits, 12 how many may hold a lock, then for each
--       lock: mode ('sole', 'read', 'write'), holds that the caller knows the owner has ('' if it
--       does not know), then the note of each lock (only with one)
-- Returns: {1, then for each lock: hold count, token, lease ms, serial}  granted
--          {5, then for each lock: hold count, token, lease ms, serial}  the same, for a repeat
--          {0, which, remaining lease ms, note}  none is taken, this one is held; -1: no time to
--                      live; note as lock_acquire
--          {2}         a repeat of a request that was granted, but one of the grants has ended
--          {3}         the request id was used for something else
--          {4, which}  a key is not such a lock's; 9: its fencing counter is out of range; 10: as
--                      many hold it as may; 6: the owner holds it for reading and would wait for
--                      itself
-- Publishes: nothing

local owner, lease, counter_ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local record_refusal, locks, writer, hold_back = ARGV[6] == '1', ARGV[7], ARGV[8], tonumber(ARGV[10])
-- The arguments before are an even number, and so are those of each lock.
local note = #ARGV % 2 == 1 and table.remove(ARGV) or nil
local members, record = members_of(KEYS, ARGV, 13, {'known'}, {sole = 2, read = 6, write = 6})
local now = now_millis()

local call = {
  owner = owner, writer = writer, lease = lease, counter_ttl = counter_ttl, hold_back = hold_back,
  serial = tonumber(ARGV[9]), holders_max = tonumber(ARGV[12]), now = now, work = new_work(),
}

local function remember(answer)
  redis.call('hset', record, 'op', 'acquire_all', 'owner', owner, 'locks', locks, 'attempt', ARGV[4], 'answer', answer)
  expire_new(record, ARGV[5])
end

-- Same as `repeated` of lib/acquire.lua; its comments apply here too.
local function repeated()
  local first = redis.call('hmget', record, 'op', 'owner', 'locks', 'answer')
  if not first[1] then
    return nil
  elseif first[1] ~= 'acquire_all' or first[2] ~= owner or first[3] ~= locks then
    return {3}
  end
  local which, remaining = string.match(first[4], '^busy (%d+) (-?%d+)$')
  if which then
    return record_refusal and {0, tonumber(which), tonumber(remaining)} or {3}
  end
  local reply, at = {5}, 0
  for serial in string.gmatch(first[4], '%d+') do
    at = at + 1
    local member = members[at]
    if not member.seen.count or tonumber(serial) ~= member.seen.serial then
      return {2}
    end
    reply[4 * at - 2], reply[4 * at - 1] = member.seen.count, member.token
    reply[4 * at], reply[4 * at + 1] = member.seen.left, member.seen.serial
  end
  redis.call('pexpire', record, ARGV[5])
  redis.call('hset', record, 'attempt', '')
  return reply
end

for i, member in ipairs(members) do
  local kind = redis.call('type', member.keys[1]).ok
  local why
  member.token, why = read_token(member.keys[2])
  member.seen = member.token and (kind == 'none' or kind == 'hash') and look_member(member, call)
  if not member.seen then
    return {member.token and 4 or why, i}
  end
end
local answer = repeated()
if answer then
  return answer
end
for i, member in ipairs(members) do
  if member.seen.deadlock then
    return {6, i}
  elseif member.seen.open and member.seen.full then
    return {10, i}
  end
end
for i, member in ipairs(members) do
  if not member.seen.open then
    if member.mode == 'write' and ARGV[11] == '1' then
      hold_readers_back(member.keys[6], member.seen, hold_back)
    end
    if record_refusal then
      remember(string.format('busy %d %.0f', i, member.seen.remaining))
    end
    local keys, seen = member.keys, member.seen
    return {0, i, seen.remaining, holder_note(keys[1], keys[2], member.token, seen.reads and keys[5])}
  end
end
local reply, serials = {1}, {}
for i, member in ipairs(members) do
  local count, token, held_for, serial = take_member(member, call)
  reply[4 * i - 2], reply[4 * i - 1], reply[4 * i], reply[4 * i + 1] = count, token, held_for, serial
  if note or member.seen.count then
    local key = note_key(member.keys[2], member.mode == 'read' and owner)
    write_note(key, member.mode == 'write' and writer or owner, serial, note, held_for)
  end
  serials[i] = string.format('%.0f', serial)
end
remember(table.concat(serials, ' '))
return reply
