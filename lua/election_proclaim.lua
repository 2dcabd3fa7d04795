-- Records a value of the leader: of the owner that holds the lock by the grant with this token.
--
-- KEYS: 1 lock, 2 fencing counter, 3 record of the election
-- ARGV: 1 owner, 2 term: the token of its grant, 3 name of its client, 4 value, 5 time to live of an
--       idle counter ms, which is that of the record too; 0: none, 6 publish command, 7 channel
-- Returns: {1, revision}  recorded
--          {5, revision}  it is the newest value already
--          {0, 1}         not the leader: another one holds the lock
--          {0, 2}         not the leader: the grant has ended
--          {0, 3}         not the leader: no grant of the name is known
--          {4}            the key is not such a lock's
-- Publishes: 1 when the value is recorded

local lock, counter, record = KEYS[1], KEYS[2], KEYS[3]
local owner, term, client, value, ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local fields = redis.call('hmget', lock, owner, 'mode')
if fields[2] then
  return {4}
end
local field = fields[1] and owner or grant_field(lock, owner)
local newest = redis.call('get', counter)
if not field and redis.call('exists', lock) == 1 then
  return {0, 1}
elseif not field or newest ~= term then
  return {0, newest and 2 or 3}
end
-- After the lease, while the delay runs, nobody leads.
local delay = tonumber(redis.call('hget', lock, delay_mark(owner)) or nil)
if delay and redis.call('pttl', lock) <= delay then
  return {0, 2}
end
local last = redis.call('lindex', record, '-1')
local revision = last and tonumber((read_term(last)))
local rest = '\n' .. term .. '\n' .. field .. '\n' .. client .. '\n' .. value
if revision and last == string.format('%.0f', revision) .. rest then
  return {5, revision}
end
revision = revision and revision + 1 or now_micros()
publish_to(ARGV[6], ARGV[7], '1')
if redis.call('rpush', record, string.format('%.0f', revision) .. rest) > VALUES_MAX then
  redis.call('lpop', record)
end
if ttl ~= '0' then
  expire_new(record, ttl)
else
  redis.call('persist', record)
end
return {1, revision}
