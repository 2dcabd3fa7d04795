-- What every release and every undo does around its lock: the record of the request, and the form
-- of the answers.
--
-- hold: a table with
--   count: the owner's holds; nil if it has none, and then refused: why
--   newer: whether the hold belongs to a newer grant than the one in question
--   left: ms of the lease; -2: none
--   serial: for an undo, identifies the hold's grant
-- drop(hold): removes one hold and returns the number left and their lease ms

-- record: key or nil; request: owner, retention of the record in ms
local function release(record, request, hold, drop)
  if record then
    local first = redis.call('hmget', record, 'op', 'owner', 'answer')
    if first[1] then
      if first[1] ~= 'release' or first[2] ~= request.owner then
        return {3}
      end
      -- The owner may have released or acquired holds since, so the first answer does not tell what
      -- it holds now.
      return {5, tonumber(first[3]), hold.count or 0, hold.left}
    end
  end
  if not hold.count then
    return {0, hold.refused}
  end
  -- Meanwhile the session may have moved to another coordinator and acquired the lock anew.
  if hold.newer then
    return {0, 2}
  end
  local left, lease = drop(hold)
  if record then
    redis.call('hset', record, 'op', 'release', 'owner', request.owner, 'answer', left)
    expire_new(record, request.retention)
  end
  return {1, left, lease}
end

-- record: key or nil; request: attempt, expected (the owner's holds without the attempt; nil if that
-- is not known, then there is a record), serial (of the grant that it got or would add a hold to; nil
-- if that is not known)
local function undo(record, request, hold, drop)
  local count = hold.count or 0
  local first = record and redis.call('hmget', record, 'attempt', 'answer') or {}
  if first[1] and first[1] == request.attempt then
    -- Whatever has become of the grant: the next attempt with the id would get its answer.
    redis.call('del', record)
    -- An attempt that was refused, or whose grant has ended, has no share in what the owner may
    -- hold by now.
    if count == 0 or hold.newer or tonumber(first[2]) ~= hold.serial then
      return {0, count}
    end
    return {1, (drop(hold))}
  elseif hold.newer or first[1] then
    return {0, count}
  elseif record then
    -- The record may have ended before the grant. That is the attempt's if it began with it; for
    -- other holds it is unknown whether the attempt ran.
    if count == 0 or request.expected ~= 0 or not request.serial then
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
