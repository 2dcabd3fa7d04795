-- The most frequent case of multi_acquire, without the helpers, which Redis makes anew in each run:
-- the locks are free, and their counters are new or of this window, as in lib/next_token.lua.
if not ARGV[7] and call('exists', record) == 0 then
  local now = call('time')
  local token = now[1] .. string.sub('00000' .. now[2], -6)
  local window, known, are_free = string.sub(token, 1, -#ttl - 1), {}, true
  for i = 1, #KEYS - 2, 2 do
    local previous = call('get', KEYS[i + 1])
    are_free = call('pttl', KEYS[i]) == -2
      and (previous and previous < token and previous >= window and #previous == #token or not previous and ttl ~= '0')
    known[i] = previous
    if not are_free then
      break
    end
  end
  if are_free then
    for i = 1, #KEYS - 2, 2 do
      local lock = KEYS[i]
      if known[i] then
        call('set', KEYS[i + 1], token, 'keepttl')
      else
        call('set', KEYS[i + 1], token, 'px', ttl)
      end
      call('hset', lock, owner, '1')
      -- As in lib/expire.lua.
      if redis.pcall('pexpire', lock, lease) ~= 1 then
        redis.pcall('del', lock)
        call('pexpire', lock, lease)
      end
    end
    local answer = token .. string.rep(' ' .. token, (#KEYS - 3) / 2)
    call('hset', record, 'op', 'acquire_all', 'owner', owner, 'locks', locks, 'attempt', ARGV[4], 'answer', answer)
    if redis.pcall('pexpire', record, retention) ~= 1 then
      redis.pcall('del', record)
      call('pexpire', record, retention)
    end
    return token
  end
end
