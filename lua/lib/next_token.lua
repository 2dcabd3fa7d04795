-- Raises the counter in its most frequent case, which is that it is new or of this window, so that
-- `raise_to` in lib/token.lua would only set it. This is not a function, because Redis would make
-- one anew in each run. Numbers stay text, because to convert one takes longer than to store it.
--
-- Needs counter, ttl (as text) and call. Makes token: nil if it is another case.
local token
do
  local previous, now = call('get', counter), call('time')
  local time, micros = now[1], now[2]
  if #micros < 6 then
    micros = string.sub('00000' .. micros, -6)
  end
  time = time .. micros
  if not previous and ttl ~= '0' then
    token = time
    call('set', counter, token, 'px', ttl)
  elseif previous and previous < time and previous >= string.sub(time, 1, -#ttl - 1) and #previous == #time then
    -- Texts between what tokens of this window begin with and the newest of them begin like that too.
    token = time
    call('set', counter, token, 'keepttl')
  end
end
