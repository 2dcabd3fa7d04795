-- Raises the counter in its most frequent cases. This is not a function, because Redis would make
-- one anew in each run. Numbers stay text, because to convert one takes longer than to store it.
--
-- Needs counter, ttl (as text), call, and step and expected: what the caller adds to the counter,
-- and what it then is, if nobody else has changed it since the caller saw it; nil if it has not
-- seen it. Makes token: a number after such a step, and otherwise the store's time as text; nil if
-- it is another case.
local token
if step then
  token = call('incrby', counter, step)
  if token - expected ~= 0 then
    -- Another caller has raised the counter, or it was lost or set back: no step leads from where it
    -- really is to the time. The step is taken back; one from nothing has made a key without a time
    -- to live.
    token = nil
    if call('incrby', counter, '-' .. step) == 0 then
      call('unlink', counter)
    end
  end
end
if not token then
  local previous, now = call('get', counter), call('time')
  local time, micros = now[1], now[2]
  if #micros < 6 then
    micros = string.sub('00000' .. micros, -6)
  end
  time = time .. micros
  -- The counter is new or of this window, so `raise_to` in lib/token.lua would only set it. Texts
  -- between the beginning of this window's tokens and the newest of them have the same beginning.
  if not previous and ttl ~= '0' then
    token = time
    call('set', counter, token, 'px', ttl)
  elseif previous and previous < time and previous >= string.sub(time, 1, -#ttl - 1) and #previous == #time then
    token = time
    call('set', counter, token, 'keepttl')
  end
end
