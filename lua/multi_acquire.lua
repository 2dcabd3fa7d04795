-- Takes several locks for one owner if all can be had, else none, and tells of one that cannot.
--
-- KEYS: for each lock those of the acquire script of its mode but for the record, then the record
--       of the request
-- ARGV: 1 to 3 as of lock_acquire, 4 attempt, 5 retention of the record ms, the lease if only an
--       undo will look for it, 6 what tells these locks from others; the others are not there if all
--       are exclusive locks that the owner does not hold, and a refusal is not recorded: 7 '1' to
--       record it, 8 field of the owner's write holds, 9 serial of read grants that are new ones,
--       10 how long a waiting writer holds readers back ms, 11 '1' if the caller waits, 12 how many
--       may hold a lock, then for each lock: mode ('sole', 'read', 'write'), holds that the caller
--       knows the owner has ('' if it does not know), then the note of each lock (only with one)
-- Returns: token  granted: one hold of each, with this lease and token, the store's time as text
--          {1, then for each lock: hold count, token, lease ms, serial}  granted
--          {5, then for each lock: hold count, token, lease ms, serial}  the same, for a repeat
--          {0, which, remaining lease ms, note}  none is taken, this one is held; -1: no time to
--                      live; note as lock_acquire
--          {2}         a repeat of a request that was granted, but one of the grants has ended
--          {3}         the request id was used for something else
--          {4, which}  a key is not such a lock's; 9: its fencing counter is out of range; 10: as
--                      many hold it as may; 6: the owner holds it for reading and would wait for
--                      itself
-- Publishes: nothing

local owner, lease, ttl, retention, locks, call = ARGV[1], ARGV[2], ARGV[3], ARGV[5], ARGV[6], redis.call
local record = KEYS[#KEYS]

-- The most frequent case comes here.

-- The helpers come here.

local args = ARGV
if not args[7] then
  args = {owner, lease, ttl, ARGV[4], retention, locks, '0', owner .. ':write', '0', '0', '0', '0'}
  for _ = 1, #KEYS - 2, 2 do
    args[#args + 1], args[#args + 2] = 'sole', '0'
  end
end
local record_refusal, writer, hold_back = args[7] == '1', args[8], tonumber(args[10])
-- The arguments before are an even number, and so are those of each lock.
local note = #args % 2 == 1 and table.remove(args) or nil
local members = members_of(KEYS, args, 13, {'known'}, {sole = 2, read = 6, write = 6})
local now = now_millis()

local who = {
  owner = owner, writer = writer, lease = tonumber(lease), counter_ttl = tonumber(ttl),
  hold_back = hold_back, serial = tonumber(args[9]), holders_max = tonumber(args[12]), now = now,
  work = new_work(),
}

local function remember(answer)
  redis.call('hset', record, 'op', 'acquire_all', 'owner', owner, 'locks', locks, 'attempt', ARGV[4], 'answer', answer)
  expire_new(record, retention)
end

for i, member in ipairs(members) do
  local kind = redis.call('type', member.keys[1]).ok
  local why
  member.token, why = read_token(member.keys[2])
  member.seen = member.token and (kind == 'none' or kind == 'hash') and look_member(member, who)
  if not member.seen then
    return {member.token and 4 or why, i}
  end
end
local answer = repeated_all(record, who, locks, retention, record_refusal, members)
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
    if member.mode == 'write' and args[11] == '1' then
      hold_readers_back(member.keys[6], member.seen, hold_back)
    end
    if record_refusal then
      remember(string.format('busy %d %.0f', i, member.seen.remaining))
    end
    local keys, seen = member.keys, member.seen
    return {0, i, seen.remaining, holder_note(keys[1], keys[2], member.token, seen.reads and keys[5])}
  end
end
local reply, serials, longest = {1}, {}, 0
for i, member in ipairs(members) do
  local count, token, held_for, serial = take_member(member, who)
  longest = math.max(longest, held_for)
  reply[4 * i - 2], reply[4 * i - 1], reply[4 * i], reply[4 * i + 1] = count, token, held_for, serial
  if note or member.seen.count then
    local key = note_key(member.keys[2], member.mode == 'read' and owner)
    local field = member.seen.field or owner
    write_note(key, member.mode == 'write' and writer or field, serial, note, held_for)
  end
  serials[i] = string.format('%.0f', serial)
end
-- A hold that was added to others lives as long as they do.
if retention == lease then
  retention = longest
end
remember(table.concat(serials, ' '))
return reply
