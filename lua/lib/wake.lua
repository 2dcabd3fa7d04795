-- Waking who waits for a lock with one owner.

-- What wakes a waiter of an exclusive lock, or with a patience the first one of a fair lock. keys: as of fair_release.
local function wake_sole(keys, patience, publish, message)
  patience = tonumber(patience)
  return function()
    if not patience then
      publish_to(publish, keys[3], message)
    else
      wake_head({
        queue = keys[4], deadlines = keys[5], vouched = keys[6],
        patience = patience, channel = keys[3], publish = publish, message = message,
      }, now_millis())
    end
  end
end
