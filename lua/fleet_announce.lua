-- Announces a coordinator to the others until it does so no more, and tells which others there are.
--
-- KEYS: 1 coordinators and what they say of themselves
-- ARGV: 1 id, 2 time to live ms, 3 the most coordinators, 4 what it says; not given: it leaves
-- Returns: {1, id, text, ...}  the others
--          {0, id, text, ...}  the same, but it is not announced: there are too many
-- Publishes: nothing

local coordinators = KEYS[1]
local id, ttl, max, said = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]

-- Longer texts, and more of them, were written by another program.
local TEXT_MAX = 1000

local now = math.floor(now_micros() / 1000)
local reply, gone = {1}, {}
-- All of them: there are never more than a page has.
local known = redis.call('hscan', coordinators, '0', 'count', 1000)[2]
for i = 1, #known, 2 do
  local other, at, text = known[i], string.match(known[i + 1], '^(%d+) (.*)$')
  local age = at and now - tonumber(at)
  -- One that is younger than now was written by a server whose clock was ahead.
  if not age or age < 0 or age >= ttl then
    gone[#gone + 1] = other
  elseif other ~= id and #text <= TEXT_MAX and #reply <= 2 * max then
    reply[#reply + 1] = other
    reply[#reply + 1] = text
  end
end

if not said then
  gone[#gone + 1] = id
end
for _, other in ipairs(gone) do
  redis.call('hdel', coordinators, other)
end
if said and (#reply - 1) / 2 >= max then
  reply[1] = 0
elseif said then
  redis.call('hset', coordinators, id, string.format('%.0f', now) .. ' ' .. said)
  expire_new(coordinators, ttl)
end
return reply
