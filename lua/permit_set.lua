-- Makes a semaphore, or changes how many permits it has. Permits that are taken stay taken: if they
-- are more, what is available is negative until enough of them were given back.
--
-- KEYS: 1 semaphore, 2 leases, 3 owners, 4 kind, 5 channel
-- ARGV: 1 permits in all, 2 '1' to leave a semaphore that there is as it is, 3 time to live of an
--       idle kind ms, 4 publish command, 5 '1' to accept a number of others
-- Returns: {1, total, available, '1' if it was made by this}  set
--          {0, total, available}                              there is one already
--          {4}                                                the key is not a semaphore's
-- Publishes: what is available then, at least 0, so that those who wait for more than there are
--            find out

local semaphore, leases, owners, kind, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local total, only_new, kind_ttl, publish = tonumber(ARGV[1]), ARGV[2] == '1', tonumber(ARGV[3]), ARGV[4]

local state = read_semaphore(semaphore, leases, owners, kind, ARGV[5], now_millis(), 0)
if not state then
  return {4}
elseif only_new and state.available then
  return {0, state.total, state.available}
end

local available = total - state.taken
publish_to(publish, channel, string.format('%.0f', math.max(available, 0)))
if total == 0 and state.taken == 0 then
  -- No key is needed to say that nothing exists.
  redis.call('unlink', semaphore, leases, owners, kind)
elseif state.available then
  -- A change keeps the key's time to live, which another program may have set.
  drop_permits(semaphore, leases, owners, state.expired, available - state.available + #state.expired)
  mark_kind(kind, 'semaphore', kind_ttl)
else
  drop_permits(semaphore, leases, owners, state.expired, 0)
  -- Those whose leases have ended and that are still there are added when they are removed.
  redis.call('set', semaphore, string.format('%.0f', available - (state.over - #state.expired)))
  mark_kind(kind, 'semaphore', kind_ttl)
end
return {1, total, available, state.available and 0 or 1}
