-- Several locks in one call. A member is one of them: its mode, its keys, and the arguments for it.

-- Splits KEYS and ARGV into members. first: the index of the first member's arguments; each member
-- has its mode, then one argument for each of `names`. sizes: the number of a member's keys, by its
-- mode. Returns the members and the key after theirs: the record of the request, nil if there is
-- none.
local function members_of(keys, args, first, names, sizes)
  local members, key = {}, 1
  for arg = first, #args, 1 + #names do
    local member = {mode = args[arg], keys = {}}
    for i, name in ipairs(names) do
      member[name] = args[arg + i]
    end
    for i = 1, sizes[member.mode] do
      member.keys[i] = keys[key]
      key = key + 1
    end
    members[#members + 1] = member
  end
  return members, keys[key]
end
