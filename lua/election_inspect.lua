-- Tells who leads, and the values that were recorded. Changes nothing.
--
-- KEYS: 1 lock, 2 fencing counter, 3 record of the election
-- ARGV: 1 the last revision that the caller has seen; not there: only the newest is wanted
-- Returns: {1, leads, remaining lease ms, values}  leads: 1 if the newest value is that of the
--                                                  holder of the newest grant, 0 if nobody leads;
--                                                  the newest value, before it those that the
--                                                  caller has not seen, as far as they are kept;
--                                                  empty if there is none
-- Publishes: nothing

local lock, counter, record = KEYS[1], KEYS[2], KEYS[3]

local newest = redis.call('lindex', record, '-1')
local revision, term, field = read_term(newest or '')
if not revision then
  return {1, 0, -2, {}}
end
local left = redis.call('pttl', lock)
local leads = redis.call('get', counter) == term and redis.call('hexists', lock, field) == 1
if leads and left >= 0 then
  left = math.max(left - (tonumber(redis.call('hget', lock, delay_mark(field)) or nil) or 0), 0)
  leads = left > 0
end
local new, values = ARGV[1] and tonumber(revision) - tonumber(ARGV[1]) or 0, {newest}
if new ~= 0 then
  local most = new > 0 and math.min(new, VALUES_MAX) or VALUES_MAX
  values = {}
  for _, entry in ipairs(redis.call('lrange', record, string.format('%.0f', -most), '-1')) do
    values[#values + 1] = read_term(entry) and entry
  end
end
return {1, leads and 1 or 0, left, values}
