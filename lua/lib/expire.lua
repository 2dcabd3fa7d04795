-- Times to live of keys that a script has just made.

-- Gives a new key its time to live. If the store's user may not do that, the key goes again: it
-- would never end. The last command then raises the same refusal.
local function expire_new(key, ttl)
  ttl = string.format('%.0f', ttl)
  if type(redis.pcall('pexpire', key, ttl)) == 'table' then
    redis.pcall('del', key)
    redis.call('pexpire', key, ttl)
  end
end
