-- The fencing counter of a name: max(previous + 1, the store's clock in microseconds). A plain
-- counter repeats after a failover that lost writes. This one does not, if the failover takes more
-- than 50 ms, and more than the clocks of the two masters differ.

local function now_micros()
  local now = redis.call('time')
  return now[1] * 1000000 + now[2]
end

-- From here on a script cannot tell a number from the next one.
local TOKENS_END = 9007199254740991

-- Returns the counter's value; 0 if it does not exist. Otherwise nil and a reason: 4 the key does
-- not hold a number, 9 the number is out of range, so no larger token can follow.
local function read_token(counter)
  local value = redis.call('get', counter)
  if not value then
    return 0
  end
  local token = tonumber(value)
  if token and not (token > -TOKENS_END and token < TOKENS_END) then
    return nil, 9
  end
  return token, 4
end

-- Raises the counter to a token if that is larger, and returns the counter's value. A counter
-- without a time to live, such as one that a Redisson client created, stays without one. `ttl` 0
-- means that our counters have none either.
--
-- Time is divided into windows, in each of which the tokens agree but for as many last digits as
-- the time to live has, in ms. So a window is at most a hundredth of the time to live, which is no
-- more than the part of a lease that the coordinator does not rely on. A counter in use gets its
-- full time to live once in each window. A token tells when it was made. So a counter with a token
-- of this window already has its time to live, unless the token is ahead of the clock.
local function raise_to(counter, previous, token, ttl)
  if previous >= token then
    return previous
  end
  local text = string.format('%d', token)
  local window = 10 ^ #string.format('%.0f', ttl)
  if ttl > 0 and token - previous > 1 and math.floor(previous / window) == math.floor(token / window) then
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

-- Returns the counter's value, 0 if it is not a number in range. The counter of a name in use is
-- kept: it outlives the grant, however long the grant is renewed.
local function kept_token(counter, ttl)
  local left = redis.call('pttl', counter)
  if left >= 0 and left * 2 < ttl then
    redis.call('pexpire', counter, ttl)
    -- The record of lib/election.lua lives as long. PCALL, as in lib/note.lua.
    redis.pcall('pexpire', 'lockkeeper_election' .. string.sub(counter, #'redisson_lock_token' + 1), ttl)
  end
  local token = redis.pcall('get', counter)
  if type(token) == 'table' then
    return 0
  end
  token = tonumber(token or 0) or 0
  return token < TOKENS_END and token or 0
end

local function now_millis()
  return math.floor(now_micros() / 1000)
end
