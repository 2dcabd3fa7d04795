-- Gives one read hold back; the last reader frees the lock and wakes a waiter.
--
-- KEYS: 1 lock, 2 fencing counter, 3 prefix of the owner's hold keys, 4 our readers, 5 base of the
--       hold keys of any owner, 6 channel, 7 record of the request (only with a request id)
-- ARGV: 1 to 3 as of lock_release, 4 publish command; not there: PUBLISH, 5 retention of the record
--       ms (only with a request id or a note), 6 '1' if the grant has a note (only then)
-- Returns: as lock_release
-- Publishes: 0 on the channel when the lock becomes free

local lock, owner, serial, publish, call = KEYS[1], ARGV[1], ARGV[2], ARGV[4] or 'PUBLISH', redis.call

-- The most frequent case, without the helpers, which Redis makes anew in each run: the last hold of
-- this grant, of the last reader. The steps are those of `drop_read_hold` in lib/read_release.lua.
if
  not KEYS[7] and not ARGV[6] and call('hlen', lock) == 2 and call('hget', lock, 'mode') == 'read'
  and call('hget', lock, owner) == '1' and call('get', KEYS[3] .. ':1') == serial
then
  if publish == 'SPUBLISH' then
    redis.pcall('spublish', KEYS[6], '0')
  end
  call('publish', KEYS[6], '0')
  call('unlink', lock, KEYS[4], KEYS[3] .. ':1')
  return 1
end

-- The helpers come here.

local hold = own_read_hold(KEYS, owner, tonumber(serial))
if not hold then
  return {4}
end
return release(KEYS[7], {owner = owner, retention = ARGV[5]}, hold, function()
  return drop_read_hold(KEYS, owner, hold, tonumber(ARGV[3]), publish, '0', now_millis(), new_work())
end)
