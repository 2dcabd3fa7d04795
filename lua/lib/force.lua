-- Taking a lock away by force: who may lose it, and how it stays closed.

-- More than a hash has room for whose holders were asked: they are few.
local ASKED_LOOKED_AT = 5000

-- Whether each holder of a lock is one of these owners.
local function all_asked(lock, owners)
  local asked, fields = {}, redis.call('hscan', lock, '0', 'count', ASKED_LOOKED_AT)[2]
  for _, owner in ipairs(owners) do
    asked[owner] = true
  end
  for i = 1, #fields, 2 do
    local owner = owner_of((string.gsub(fields[i], ':write$', '')))
    if not (asked[owner] or is_mark(owner) or owner == 'mode') then
      return false
    end
  end
  return #fields >= 2 * redis.call('hlen', lock)
end

-- Closes a lock to all but the former owners that the marks are of: {mark, count of holds}. A writer
-- that also reads has one mark, for all of its holds.
local function keep_closed(lock, marks, mode, grace)
  for _, mark in ipairs(marks) do
    redis.call('hincrby', lock, mark[1], string.format('%.0f', mark[2]))
  end
  if mode then
    redis.call('hset', lock, 'mode', 'write')
  end
  expire_new(lock, grace)
end
