-- Undoes an acquire of several locks whose answer nobody took or nobody knows. Safe to repeat, and
-- safe if the acquire never ran.
--
-- KEYS: for each lock those of the release script of its mode but for the record, none of one to
--       leave alone; then the record of the request
-- ARGV: 1 owner, 2 field of its write holds, 3 attempt, 4 publish command, 5 message that wakes
--       one, 6 message that wakes all, 7 how long a waiter of a fair lock that nobody vouches for
--       keeps its place ms, then for each lock of the acquire: mode ('sole', 'read', 'write'; '' to
--       leave it alone), holds that the owner has without the attempt, used when there is no record
--       ('' if only the record can tell), serial of the grant it is about ('' if that is not known)
-- Returns: {1}         the attempt is undone
--          {0}         there was nothing to undo, or a repeat of the request has taken the grants
--                      over
--          {4, which}  a key is not such a lock's; nothing is undone
-- Publishes: as the release script of each mode

local who = {
  owner = ARGV[1], writer = ARGV[2], publish = ARGV[4], one = ARGV[5], all = ARGV[6], patience = ARGV[7], exact = true,
}
local sizes = {[''] = 0, sole = MEMBER_KEYS.sole, read = MEMBER_KEYS.read, write = MEMBER_KEYS.write}
local members, record = members_of(KEYS, ARGV, 8, {'expected', 'serial'}, sizes)
local now, work = now_millis(), new_work()

for i, member in ipairs(members) do
  if member.mode ~= '' then
    member.hold = member_hold(member, who)
    local token = read_token(member.keys[2])
    if not member.hold or not token then
      return {4, i}
    end
    if member.mode ~= 'read' then
      member.hold.serial = token
    end
  end
end

-- Removes holds until `expected` are left.
local function lower(member, expected)
  local hold, lowered = member.hold, 0
  while (hold.count or 0) > expected do
    hold.count = drop_member(member, who, hold, hold.left, now, work)
    lowered = 1
  end
  return lowered
end

local first = redis.call('hmget', record, 'op', 'attempt', 'answer')
local undone = 0
if not first[1] then
  for _, member in ipairs(members) do
    local expected = tonumber(member.expected)
    if member.hold and expected and not member.hold.newer then
      undone = math.max(undone, lower(member, expected))
    end
  end
elseif first[1] == 'acquire_all' and first[2] == ARGV[3] then
  redis.call('del', record)
  undone = 1
  local at = 0
  for serial in string.gmatch(first[3], '%d+') do
    at = at + 1
    local hold = members[at] and members[at].hold
    -- A grant that has ended has no share in what the owner may hold by now.
    if hold and hold.count and not hold.newer and tonumber(serial) == hold.serial then
      lower(members[at], hold.count - 1)
    end
  end
end
return {undone}
