-- The marks that keep a lock closed after a release by force, until its former holders acknowledge.

local FORCED_MARK = 'lockkeeper_forced:'

-- The field that stands in the place of a former holder's, which nobody owns any more. All marks of
-- a read/write lock are those of writers. The mark of a mark is the mark itself.
local function forced_mark(owner, mode)
  if string.sub(owner, 1, #FORCED_MARK) ~= FORCED_MARK then
    owner = FORCED_MARK .. owner_of(owner)
  end
  if mode and string.sub(owner, -6) ~= ':write' then
    owner = owner .. ':write'
  end
  return owner
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

-- Returns a table whose keys are the words from the first on.
local function set_of(words, first)
  local set = {}
  for i = first, #words do
    set[words[i]] = true
  end
  return set
end
