-- Times to live of keys that a script has just made, and of records of requests.

-- An undo is repeated for so long after the lease of its attempt.
local LATE_UNDO = 600000

-- Gives a new key its time to live. If the store's user may not do that, the key goes again: it
-- would never end. The last command then raises the same refusal.
local function expire_new(key, ttl)
  ttl = string.format('%.0f', ttl)
  if type(redis.pcall('pexpire', key, ttl)) == 'table' then
    redis.pcall('del', key)
    redis.call('pexpire', key, ttl)
  end
end

-- Says in the record of a request that several attempts may know of its grant. No undo of one of them
-- may remove that: it finds no attempt's mark and leaves the grant alone, so the mark stays for as
-- long as an undo may come. `left`: of the lease, in ms. `set`: what stays of the mark, nil: nothing.
-- PEXPIRE is first, because it works when memory is full.
local function share_record(record, retention, left, set)
  redis.call('pexpire', record, string.format('%.0f', retention + math.max(left, 0) + LATE_UNDO))
  redis.call('hset', record, 'attempt', set or '')
end
