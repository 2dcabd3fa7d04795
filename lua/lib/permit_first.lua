-- The most frequent case of permit_acquire, without the helpers, which Redis makes anew in each run:
-- a semaphore that never ends has a permit for the one that is asked for, and the lease of none has
-- ended. The steps are those of `take_permits` in lib/permit_take.lua.
if ARGV[8] and not record then
  local time, number = call('time'), call('get', semaphore)
  local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
  if
    number and string.find(number, '^[1-9]%d*$') and call('get', kind) == 'semaphore'
    and call('pttl', semaphore) == -1 and call('zcount', leases, '-inf', now) == 0
    and call('zcard', leases) < tonumber(ARGV[6])
  then
    local lease, left = ARGV[2], call('pttl', owners)
    call('hset', owners, ARGV[8], owner)
    if left == -2 then
      -- As in lib/expire.lua.
      if redis.pcall('pexpire', owners, lease) ~= 1 then
        redis.pcall('unlink', owners)
        call('pexpire', owners, lease)
      end
    elseif left < tonumber(lease) then
      call('pexpire', owners, lease)
    end
    call('zadd', leases, string.format('%d', now + lease), ARGV[7])
    -- As mark_kind of lib/kind.lua.
    if ARGV[3] == '0' then
      call('persist', kind)
    else
      call('pexpire', kind, ARGV[3])
    end
    local available = redis.pcall('incrby', semaphore, '-1')
    if type(available) == 'table' then
      redis.pcall('zrem', leases, ARGV[7])
      available = call('incrby', semaphore, '-1')
    end
    return available
  end
end
