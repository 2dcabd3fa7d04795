-- Wakes the waiters of a lock with one owner.

-- Returns a function that wakes a waiter of an exclusive lock or, with a patience, the first waiter
-- of a fair lock. keys: the KEYS of fair_release.
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
