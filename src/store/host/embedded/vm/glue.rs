//! The layer between the store and its scripts that is Lua itself: a step from a script to Rust
//! costs more than all of it.

use mlua::{Function, Lua, Table, Value as LuaValue};

use super::sandbox;

const GLUE: &str = r"
local xpcall, explain, type, select, unpack, format = ...

-- Up to this number of items is returned as several values, which are read faster than a table.
-- Lua can return some thousand, and not more.
local ITEMS_MAX = 100

-- How a script ended: 0 and its error; 1 and its reply; 2 and the items of its reply.
local function ended(ok, reply)
  if not ok then
    return 0, reply
  elseif type(reply) ~= 'table' or reply.err ~= nil or reply.ok ~= nil then
    return 1, reply
  end
  local count = 0
  while reply[count + 1] ~= nil do
    count = count + 1
  end
  if count > ITEMS_MAX then
    return 1, reply
  end
  return 2, unpack(reply, 1, count)
end

local script, keys, args

local function run()
  return script(keys, args)
end

-- Runs a script with tables of keys and arguments.
local function run_with_tables(...)
  script, keys, args = ...
  return ended(xpcall(run, explain))
end

-- The same with the keys, so many, and the arguments one after the other.
local function run_with_words(which, count, ...)
  script, args = which, {select(count + 1, ...)}
  local a, b, c, d, e, f, g = ...
  -- Faster than one by one. As many as KEYS_MAX in mod.rs.
  keys = {a, b, c, d, e, f, g}
  for place = count + 1, 7 do
    keys[place] = nil
  end
  return ended(xpcall(run, explain))
end

-- A whole number as Redis writes it. Others are for the long way.
local function written(number)
  return number > -1e15 and number < 1e15 and number % 1 == 0 and format('%.0f', number)
end

-- Makes what scripts call commands by. The long way can do all. The short ways know what scripts
-- call most, with up to three words and up to six. They get the number of a command plus that of
-- the words, and the words. For a call that needs the long way they answer nil and do nothing.
local function caller(numbers, short, middle, long)
  return function(...)
    local name, a, b, c = ...
    local command, count = numbers[name], select('#', ...) - 1
    if not command or count > 6 then
      return long(...)
    end
    if type(a) == 'number' then a = written(a) end
    if type(b) == 'number' then b = written(b) end
    if type(c) == 'number' then c = written(c) end
    local reply
    if count <= 3 then
      reply = short(command + count, a, b, c)
    else
      local d, e, f = select(5, ...)
      if type(d) == 'number' then d = written(d) end
      if type(e) == 'number' then e = written(e) end
      if type(f) == 'number' then f = written(f) end
      reply = middle(command + count, a, b, c, d, e, f)
    end
    if reply == nil then
      return long(...)
    end
    return reply
  end
end

return run_with_tables, run_with_words, caller
";

/// Its functions: two that run scripts, and one that makes what they call commands by.
pub(super) fn functions(lua: &Lua) -> mlua::Result<[Function; 3]> {
    let all = lua.globals();
    let explain = lua.create_function(|lua, error: LuaValue| sandbox::explain(lua, &error))?;
    let [xpcall, kind, select, unpack] =
        ["xpcall", "type", "select", "unpack"].map(|name| all.get::<Function>(name));
    let format: Function = all.get::<Table>("string")?.get("format")?;
    let glue = lua.load(GLUE).set_name("=glue");
    let functions: (_, _, _) = glue.call((xpcall?, explain, kind?, select?, unpack?, format))?;
    Ok(functions.into())
}
