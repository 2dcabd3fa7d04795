-- Finds out whether the store takes writes, without writing anything: it looks at its memory and at
-- its disk before it looks for the key.
--
-- KEYS: 1 a key that is never there
-- ARGV: none
-- Returns: {1}
-- Publishes: nothing

redis.call('set', KEYS[1], '', 'xx', 'px', 1)
return {1}
