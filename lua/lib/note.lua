-- Notes: what an owner says of its hold, for other callers. A note is a hash of its own, because
-- Redisson counts the fields of a lock's hash: owner, serial of the grant, and text. It has the
-- hold's time to live. A note of another owner or grant than the present one is not shown: a release
-- by Redisson leaves it to its time to live.
--
-- No script names the key of a note among its KEYS, so a cluster refuses it while the slot moves and
-- the key is missing. Hence PCALL: then there is no note.

-- Longer ones are not ours.
local NOTE_BYTES_MAX = 4096

-- Readers whose notes are looked at.
local NOTES_LOOKED_AT = 16

-- The key of the note of the sole holder or the writer, or of this reader. It is the fencing
-- counter's with another beginning, so that nothing more is sent for a hold without a note.
local function note_key(counter, reader)
  local tagged = string.sub(counter, #'redisson_lock_token' + 1)
  return reader and 'lockkeeper_reader_note' .. tagged .. ':' .. reader or 'lockkeeper_note' .. tagged
end

-- Returns the text, the owner and the serial; nothing if there is no note.
local function read_note(key)
  local seen = redis.pcall('hmget', key, 'note', 'owner', 'serial')
  if seen[1] and #seen[1] <= NOTE_BYTES_MAX then
    return seen[1], seen[2], tonumber(seen[3])
  end
end

-- Returns the text of an owner's note; nothing if it has none.
local function note_of(counter, owner, token)
  local text, whose, serial = read_note(note_key(counter))
  if whose == owner and serial == token then
    return text
  end
end

-- The same of a reader. `hold`: the key of its newest hold, whose value is the serial.
local function note_of_reader(counter, owner, hold)
  local text, _, serial = read_note(note_key(counter, owner))
  if text and tonumber(redis.call('get', hold) or nil) == serial then
    return text
  end
end

-- Returns the text of the note of who holds a lock; nothing if there is none. `readers_base`: if
-- readers hold it, the base of their hold keys; then of the first that has a note.
local function holder_note(lock, counter, token, readers_base)
  if not readers_base then
    local text, owner, serial = read_note(note_key(counter))
    return text and serial == token and redis.call('hexists', lock, owner) == 1 and text or nil
  end
  local fields = redis.call('hscan', lock, '0', 'count', NOTES_LOOKED_AT)[2]
  for i = 1, math.min(#fields, 2 * NOTES_LOOKED_AT), 2 do
    local hold = readers_base .. ':' .. fields[i] .. ':rwlock_timeout:' .. fields[i + 1]
    local text = note_of_reader(counter, fields[i], hold)
    if text then
      return text
    end
  end
end

-- Makes a note live as long as its grant. Returns 1, or 0 if there is none.
local function extend_note(key, lease)
  return redis.pcall('pexpire', key, string.format('%.0f', lease)) == 1 and 1 or 0
end

-- Writes the note of a grant. Without a text, the one that it has stays.
local function write_note(key, owner, serial, text, lease)
  if text then
    redis.pcall('unlink', key)
    redis.pcall('hset', key, 'note', text, 'owner', owner, 'serial', string.format('%.0f', serial))
  end
  extend_note(key, lease)
end
