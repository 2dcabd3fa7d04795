-- What a reply contains of keys that other programs may have written.

-- Longer owners are not listed, and longer reasons are not shown, so that a reply has a limit whatever is in the key. (A field in
-- Redis may have 512 MB.)
local OWNER_BYTES_MAX = 1024

-- A count as a number that fits into a reply.
local function shown_count(count)
  return math.max(math.min(count, 9007199254740991), -1)
end
