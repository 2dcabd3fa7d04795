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
