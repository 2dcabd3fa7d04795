//! What scripts can reach: a fixed set of globals that cannot grow, and `redis`.

use std::sync::Arc;

use mlua::{Error, Function, Lua, LuaString, MultiValue, Table, Value as LuaValue};

use super::{
    super::{
        commands,
        reply::{Refusal, Reply},
    },
    CHUNK, SharedEngine, convert, short,
};

/// What a script raised.
#[derive(Debug)]
enum Raised {
    /// A complete error reply.
    Reply(String),
    /// Text without a code.
    Text(String),
}

/// What scripts may use besides `KEYS`, `ARGV` and `redis`. Shorter than the list of Redis: nothing
/// that reaches around the sandbox, compiles code, or gives another answer each time (the order of
/// `pairs` does).
const GLOBALS: [&str; 11] = [
    "assert",
    "error",
    "ipairs",
    "rawequal",
    "rawget",
    "select",
    "setmetatable",
    "tonumber",
    "tostring",
    "type",
    "unpack",
];

const LIBRARIES: [&str; 3] = ["string", "table", "math"];

/// Local names for what scripts may use, so that it is not looked up again and again. On one line,
/// as it precedes the first of a script. Unlike Redis this lets a script assign to them, which
/// changes nothing for others.
pub(super) fn shortcuts() -> String {
    let names = GLOBALS.iter().chain(&LIBRARIES).chain(&["pcall", "redis"]);
    let names = names.copied().collect::<Vec<_>>().join(", ");
    format!("local {names} = {names} ")
}

/// Gives scripts a `pcall` that shows errors as Redis shows them: as text.
const PCALL: &str = "
    local pcall, text = ...
    local function show(ok, first, ...)
        if not ok then
            return false, text(first)
        end
        return true, first, ...
    end
    return function(...) return show(pcall(...)) end";

/// The globals of scripts.
pub(super) fn globals(lua: &Lua, engine: &SharedEngine, caller: &Function) -> mlua::Result<Table> {
    let all = lua.globals();
    // Redis repeats the random numbers of a script in each run; nothing here needs any.
    for random in ["random", "randomseed"] {
        all.get::<Table>("math")?.raw_set(random, LuaValue::Nil)?;
    }
    let visible = lua.create_table()?;
    for name in GLOBALS {
        visible.raw_set(name, all.get::<Function>(name)?)?;
    }
    for name in LIBRARIES {
        visible.raw_set(name, frozen(lua, &all.get(name)?)?)?;
    }
    let text = lua.create_function(|_, error: LuaValue| {
        let (Raised::Reply(text) | Raised::Text(text)) = Raised::new(&error)?;
        Ok(text)
    })?;
    let pcall: Function = lua
        .load(PCALL)
        .call((all.get::<Function>("pcall")?, text))?;
    visible.raw_set("pcall", pcall)?;
    visible.raw_set("redis", frozen(lua, &redis(lua, engine, caller)?)?)?;

    let metatable = lua.create_table()?;
    let missing = lua.create_function(|lua, (_, name): (Table, LuaString)| {
        let name = name.to_string_lossy();
        let text = format!("Script attempted to access nonexistent global variable '{name}'");
        Err::<(), _>(misuse(lua, &text))
    })?;
    metatable.raw_set("__index", missing)?;
    visible.set_metatable(Some(metatable))?;
    Ok(visible)
}

/// A table through which another one can be read, but not changed.
pub(super) fn frozen(lua: &Lua, table: &Table) -> mlua::Result<Table> {
    let metatable = lua.create_table()?;
    metatable.raw_set("__index", table)?;
    metatable.raw_set(
        "__newindex",
        lua.create_function(|lua, (): ()| {
            Err::<(), _>(misuse(lua, "Attempt to modify a readonly table"))
        })?,
    )?;
    metatable.raw_set("__metatable", false)?;
    let face = lua.create_table()?;
    face.set_metatable(Some(metatable))?;
    Ok(face)
}

/// What scripts know as `redis`.
fn redis(lua: &Lua, engine: &SharedEngine, caller: &Function) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    let on = Arc::clone(engine);
    let call = lua.create_function(move |lua, words: MultiValue| {
        let reply = call_from_script(&on, &words).map_err(Error::external)?;
        convert::to_lua(lua, reply)
    })?;
    let numbers = short::numbers(lua)?;
    let (short, middle) = short::ways(lua, engine, |_, refusal| Err(Error::external(refusal)))?;
    let call: Function = caller.call((&numbers, short, middle, call))?;
    redis.raw_set("call", call)?;

    let caught = |lua: &Lua, Refusal(text): Refusal| {
        convert::single_field(lua, "err", &text).map(LuaValue::Table)
    };
    let on = Arc::clone(engine);
    let pcall =
        lua.create_function(
            move |lua, words: MultiValue| match call_from_script(&on, &words) {
                Ok(reply) => convert::to_lua(lua, reply),
                Err(refusal) => caught(lua, refusal),
            },
        )?;
    let (short, middle) = short::ways(lua, engine, caught)?;
    let pcall: Function = caller.call((numbers, short, middle, pcall))?;
    redis.raw_set("pcall", pcall)?;

    redis.raw_set(
        "error_reply",
        lua.create_function(|lua, words: MultiValue| {
            let text = only_string(&words).map(|text| error_reply(&text));
            convert::single_field(lua, "err", &text.unwrap_or(WRONG_TYPES.into()))
        })?,
    )?;
    redis.raw_set(
        "status_reply",
        lua.create_function(|lua, words: MultiValue| match only_string(&words) {
            Some(text) => convert::single_field(lua, "ok", &text),
            None => convert::single_field(lua, "err", WRONG_TYPES),
        })?,
    )?;
    Ok(redis)
}

const WRONG_TYPES: &str = "ERR wrong number or type of arguments";

fn only_string(words: &MultiValue) -> Option<String> {
    let text = words
        .front()
        .and_then(LuaValue::as_string)
        .map(LuaString::to_string_lossy);
    text.filter(|_| words.len() == 1)
}

/// A text without a code gets the code `ERR`; a dash before the code is optional.
fn error_reply(text: &str) -> String {
    let text = text.strip_prefix('-').unwrap_or(text);
    if text.contains(' ') {
        text.to_owned()
    } else {
        format!("ERR {text}")
    }
}

fn call_from_script(engine: &SharedEngine, words: &MultiValue) -> Result<Reply, Refusal> {
    let words = words
        .iter()
        .map(convert::Word::new)
        .collect::<Result<Vec<_>, _>>()?;
    let words: Vec<&[u8]> = words.iter().map(convert::Word::as_bytes).collect();
    commands::run_in_script(&mut engine.lock(), &words)
}

/// Turns what a script raised into a table with the error reply and the line, while the stack of
/// the script still exists.
pub(super) fn explain(lua: &Lua, error: &LuaValue) -> mlua::Result<Table> {
    let explained = lua.create_table()?;
    explained.raw_set(
        "err",
        match Raised::new(error)? {
            Raised::Reply(text) => text,
            Raised::Text(text) => format!("ERR {text}"),
        },
    )?;
    explained.raw_set("line", line(lua))?;
    Ok(explained)
}

/// The line of the script that runs.
fn line(lua: &Lua) -> Option<usize> {
    let frames = (1..).map_while(|level| {
        lua.inspect_stack(level, |frame| {
            let is_script = frame.source().source.as_deref() == Some(CHUNK);
            frame.current_line().filter(|_| is_script)
        })
    });
    frames.flatten().next()
}

/// An error of a script's own making, with its place before it as Lua does.
fn misuse(lua: &Lua, text: &str) -> Error {
    let place = line(lua)
        .map(|line| format!("user_script:{line}: "))
        .unwrap_or_default();
    Error::runtime(format!("{place}{text}"))
}

// === impl Raised ===

impl Raised {
    fn new(error: &LuaValue) -> mlua::Result<Self> {
        Ok(match error {
            LuaValue::Table(table) => match table.raw_get::<LuaValue>("err")? {
                LuaValue::String(text) => Self::Reply(text.to_string_lossy()),
                _ => Self::Reply("ERR unknown error".to_owned()),
            },
            LuaValue::Error(error) => match error.downcast_ref::<Refusal>() {
                Some(Refusal(text)) => Self::Reply(text.clone().into_owned()),
                None => Self::Text(innermost(error)),
            },
            other => Self::Text(other.to_string()?),
        })
    }
}

/// The text of an error without what the machine puts around it.
pub(super) fn innermost(error: &Error) -> String {
    match error {
        Error::RuntimeError(text) | Error::SyntaxError { message: text, .. } => text.clone(),
        Error::CallbackError { cause, .. } => innermost(cause),
        other => other.to_string(),
    }
}
