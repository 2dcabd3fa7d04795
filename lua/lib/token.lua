-- The fencing counter of a name: max(previous + 1, the store's clock in microseconds). A plain counter repeats after a failover that lost
-- writes; this one does not, as long as the clocks of two masters differ by less than the failover takes.

local function now_micros()
  local now = redis.call('time')
  return now[1] * 1000000 + now[2]
end

-- The counter's value; 0 if there is none, nil if the key holds something else than a number.
local function read_token(counter)
  local value = redis.call('get', counter)
  if not value then
    return 0
  end
  return tonumber(value)
end

-- Time is cut into windows of this part of a counter's time to live, in each of which a counter in use gets that anew once: no more than the part of a
-- lease that nobody relies on.
local TTL_SHARE = 0.01

-- Raises the counter to a token, if that is larger; returns what it shows then. A counter found without a time to live (one that a Redisson client
-- made) stays without; `ttl` 0 means that ours have none either. A token says when it was made, so a counter that shows one of this window has got its
-- time in it; but not one that is ahead of the clock.
local function raise_to(counter, previous, token, ttl)
  if previous >= token then
    return previous
  end
  local text = string.format('%d', token)
  local age = token - previous
  if ttl > 0 and age > 1 and age <= token % (ttl * 1000 * TTL_SHARE) then
    redis.call('set', counter, text, 'keepttl')
  elseif ttl == 0 or (previous > 0 and redis.call('pttl', counter) == -1) then
    redis.call('set', counter, text)
  else
    redis.call('set', counter, text, 'px', ttl)
  end
  return token
end

-- Raises the counter and returns the new token.
local function raise_token(counter, previous, ttl)
  local token = math.max(previous + 1, now_micros())
  return raise_to(counter, previous, token, ttl)
end

-- The counter's value, 0 if it holds no number. The counter of a name in use is kept: it outlives the grant, however long that is renewed.
local function kept_token(counter, ttl)
  local left = redis.call('pttl', counter)
  if left >= 0 and left * 2 < ttl then
    redis.call('pexpire', counter, ttl)
  end
  local token = redis.pcall('get', counter)
  if type(token) == 'table' then
    return 0
  end
  return tonumber(token or 0) or 0
end

local function now_millis()
  return math.floor(now_micros() / 1000)
end
