-- Gives one hold of each of several locks back; one that the owner does not hold does not keep the
-- others.
--
-- KEYS: for each lock those of the release script of its mode but for the record, then the record
--       of the request (only with a request id)
-- ARGV: 1 owner, 2 field of its write holds, 3 retention of the record ms, 4 publish command,
--       5 message that wakes one, 6 message that wakes all, 7 how long a waiter of a fair lock that
--       nobody vouches for keeps its place ms, 8 what tells these locks from others, then for each
--       lock: mode ('sole', 'fair', 'read', 'write'), lease ms that a hold which remains gets,
--       serial of the grant to give back ('' if the caller does not know it). Of exclusive locks,
--       without a request id: 1 owner, 2 that lease of all of them, then the serial of each
-- Returns: 1                                      all are given back, and no hold is left
--          {1, then for each lock four numbers}  given back as far as they were held
--            1, holds left, holds now, lease ms  given back
--            0, why, 0, -2                       not the owner; why: as of lock_release
--          {5, then for each lock four numbers}  the same, as answer to a repeat: the first answer,
--                                                then holds and remaining lease of now
--          {0, then for each lock four numbers}  the owner holds none of them
--          {3}         the request id was used for something else
--          {4, which}  a key is not such a lock's
-- Publishes: as the release script of each mode

local owner, call = ARGV[1], redis.call
local is_short = #ARGV == 2 + #KEYS / 3

-- The most frequent case, without the helpers, which Redis makes anew in each run: each is the last
-- hold of its grant, as in lock_release.lua.
if is_short then
  local are_own = true
  for i = 3, #ARGV do
    local at = 3 * i - 8
    are_own = are_own and call('hlen', KEYS[at]) == 1 and call('hget', KEYS[at], owner) == '1'
      and call('get', KEYS[at + 1]) == ARGV[i]
  end
  if are_own then
    for at = 1, #KEYS, 3 do
      call('publish', KEYS[at + 2], '0')
    end
    for at = 1, #KEYS, 3 do
      local lock, counter = KEYS[at], KEYS[at + 1]
      call('del', lock)
      -- As in lib/note.lua.
      redis.pcall('unlink', 'lockkeeper_note' .. string.sub(counter, #'redisson_lock_token' + 1))
    end
    return 1
  end
end

-- The helpers come here.

local args = ARGV
if is_short then
  args = {owner, owner .. ':write', '', 'PUBLISH', '0', '1', '', ''}
  for i = 3, #ARGV do
    args[#args + 1], args[#args + 2], args[#args + 3] = 'sole', ARGV[2], ARGV[i]
  end
end
local who = {
  owner = owner, writer = args[2], publish = args[4], one = args[5], all = args[6], patience = args[7],
}
local locks = args[8]
local members, record = members_of(KEYS, args, 9, {'lease', 'serial'}, MEMBER_KEYS)
local now, work = now_millis(), new_work()

for i, member in ipairs(members) do
  member.hold = member_hold(member, who)
  if not member.hold then
    return {4, i}
  end
end

local function write(reply, at, given, left, held, lease)
  reply[4 * at - 2], reply[4 * at - 1], reply[4 * at], reply[4 * at + 1] = given, left, held, lease
end

local first = record and redis.call('hmget', record, 'op', 'owner', 'locks', 'answer')
if first and first[1] then
  if first[1] ~= 'release_all' or first[2] ~= who.owner or first[3] ~= locks then
    return {3}
  end
  -- The owner may have released or acquired holds since, so the first answer does not tell what it
  -- holds now.
  local reply, at = {5}, 0
  for given, left in string.gmatch(first[4], '(%d+) (%d+)') do
    at = at + 1
    local hold = members[at].hold
    write(reply, at, tonumber(given), tonumber(left), hold.count or 0, hold.left)
  end
  return reply
end

local reply, answers = {0}, {}
for i, member in ipairs(members) do
  local hold = member.hold
  if hold.count and not hold.newer then
    local left, lease = drop_member(member, who, hold, tonumber(member.lease), now, work)
    write(reply, i, 1, left, left, lease)
    reply[1] = 1
  else
    write(reply, i, 0, hold.count and 2 or hold.refused, 0, -2)
  end
  answers[i] = string.format('%d %.0f', reply[4 * i - 2], reply[4 * i - 1])
end
if record and reply[1] == 1 then
  redis.call('hset', record, 'op', 'release_all', 'owner', who.owner, 'locks', locks, 'answer', table.concat(answers, ' '))
  expire_new(record, args[3])
end
return reply
