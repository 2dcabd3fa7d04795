-- What every release and every undo does around its lock: the record of the request, and the form of the answers.
--
-- hold: count (nil if the owner has none; then refused: why), newer (whether it is of a newer grant than the one it is about), left (ms of the lease;
-- -2: none), and for an undo serial (of the grant it is of)
-- drop(hold): takes one hold off and returns how many are left and their lease ms

-- record: key or nil; request: owner, retention of the record ms
local function release(record, request, hold, drop)
  if record then
    local first = redis.call('hmget', record, 'op', 'owner', 'answer')
    if first[1] then
      if first[1] ~= 'release' or first[2] ~= request.owner then
        return {3}
      end
      -- The owner may have given back or taken more since, so the first answer does not say what it holds.
      return {5, tonumber(first[3]), hold.count or 0, hold.left}
    end
  end
  if not hold.count then
    return {0, hold.refused}
  end
  -- The session may have gone on at another coordinator and taken the lock anew while this was on its way.
  if hold.newer then
    return {0, 2}
  end
  local left, lease = drop(hold)
  if record then
    redis.call('hset', record, 'op', 'release', 'owner', request.owner, 'answer', left)
    redis.call('pexpire', record, request.retention)
  end
  return {1, left, lease}
end

-- record: key or nil; request: attempt, expected (holds that the owner has without it, used when there is no record)
local function undo(record, request, hold, drop)
  local count = hold.count or 0
  if hold.newer then
    return {0, count}
  end
  if record then
    local first = redis.call('hmget', record, 'attempt', 'answer')
    if first[1] ~= request.attempt then
      return {0, count}
    end
    redis.call('del', record)
    -- An attempt that was refused, or whose grant has ended, has no share in what the owner may hold by now.
    if count == 0 or tonumber(first[2]) ~= hold.serial then
      return {0, count}
    end
    return {1, (drop(hold))}
  end
  local undone = 0
  while count > request.expected do
    undone = 1
    count = drop(hold)
    hold.count = count
  end
  return {undone, count}
end
