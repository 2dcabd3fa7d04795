-- The record of an election: a list of the values that its leaders proclaimed, the newest last. It
-- has the time to live of the fencing counter, and lib/token.lua extends it with that. Each value is
-- text in lines: revision, term, field of the leader in the lock's hash, name of its client, value.

-- Older values are forgotten.
local VALUES_MAX = 64

-- Longer entries are not ours.
local ENTRY_BYTES_MAX = 4096

-- Returns the revision, the term and the field, as text; nothing if the entry is not ours.
local function read_term(entry)
  if #entry <= ENTRY_BYTES_MAX then
    return string.match(entry, '^(%d+)\n(%d+)\n([^\n]*)\n')
  end
end
