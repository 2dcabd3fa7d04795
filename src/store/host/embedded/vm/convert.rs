//! What Lua knows as a value and Redis as a reply, in both directions.

use bytes::Bytes;
use mlua::{BorrowedBytes, Lua, MultiValue, Table, Value as LuaValue};

use super::super::{
    number,
    reply::{Refusal, Reply},
};
use crate::host::Value;

/// A word of a command that a script calls: a string, or a number as Redis writes it.
#[derive(Debug)]
pub(super) enum Word {
    Borrowed(BorrowedBytes),
    Written(String),
}

/// How deep tables of a reply may be nested, so that one that contains itself ends. Redis goes
/// deeper; replies that mean something do not.
const DEPTH_MAX: usize = 64;

/// How many values a reply may have, because a table that contains itself twice is two to the power
/// of its depth. Replies that mean something have far fewer.
const VALUES_MAX: usize = 1 << 17;

/// The reply of a command, as a script sees it.
pub(super) fn to_lua(lua: &Lua, reply: Reply) -> mlua::Result<LuaValue> {
    Ok(match reply {
        Reply::Nil => LuaValue::Boolean(false),
        Reply::Int(number) => LuaValue::Number(widen(number)),
        Reply::Status(status) => LuaValue::Table(single_field(lua, "ok", status)?),
        Reply::Bytes(bytes) => LuaValue::String(lua.create_string(bytes)?),
        Reply::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for item in items {
                table.raw_push(to_lua(lua, item)?)?;
            }
            LuaValue::Table(table)
        }
    })
}

/// A table by which scripts tell a status or an error from a string.
pub(super) fn single_field(lua: &Lua, name: &str, text: &str) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(name, text)?;
    Ok(table)
}

/// What a script returned, as its caller sees it. An error within a table makes an error of the
/// whole.
pub(super) fn from_lua(value: &LuaValue) -> Result<Value, Refusal> {
    from_lua_within(value, VALUES_MAX)
}

/// The same, with a limit of values in a reply.
pub(super) fn from_lua_within(value: &LuaValue, values_max: usize) -> Result<Value, Refusal> {
    nested_from_lua(value, 0, &mut { values_max })
}

/// The same of a table whose items are these.
pub(super) fn items_from_lua(items: &MultiValue) -> Result<Value, Refusal> {
    let mut room = VALUES_MAX;
    let items = items.iter();
    let items = items.map(|item| nested_from_lua(item, 1, &mut room));
    Ok(Value::Array(items.collect::<Result<_, _>>()?))
}

fn nested_from_lua(value: &LuaValue, depth: usize, room: &mut usize) -> Result<Value, Refusal> {
    const TOO_MANY: Refusal = Refusal::new("ERR the reply has too many values");
    *room = room.checked_sub(1).ok_or(TOO_MANY)?;
    Ok(match value {
        LuaValue::Boolean(true) => Value::Int(1),
        LuaValue::Integer(number) => Value::Int(*number),
        LuaValue::Number(number) => Value::Int(truncate(*number)),
        LuaValue::String(text) => Value::Bytes(Bytes::copy_from_slice(&text.as_bytes())),
        LuaValue::Table(table) => table_from_lua(table, depth, room)?,
        _ => Value::Nil,
    })
}

fn table_from_lua(table: &Table, depth: usize, room: &mut usize) -> Result<Value, Refusal> {
    const TOO_DEEP: Refusal = Refusal::new("ERR reached lua stack limit");
    if depth >= DEPTH_MAX {
        return Err(TOO_DEEP);
    }
    let unreadable = |error: mlua::Error| Refusal(format!("ERR {error}").into());
    if let LuaValue::String(text) = table.raw_get("err").map_err(unreadable)? {
        return Err(Refusal(
            text.to_string_lossy().replace(['\r', '\n'], " ").into(),
        ));
    }
    if let LuaValue::String(text) = table.raw_get("ok").map_err(unreadable)? {
        let line: Vec<u8> = text.as_bytes().iter().map(|byte| one_line(*byte)).collect();
        return Ok(Value::Bytes(Bytes::from(line)));
    }
    let mut items = Vec::with_capacity(table.raw_len());
    for place in 1_i64.. {
        match table.raw_get(place).map_err(unreadable)? {
            LuaValue::Nil => break,
            item => items.push(nested_from_lua(&item, depth + 1, room)?),
        }
    }
    Ok(Value::Array(items))
}

/// A status is a line on the wire.
fn one_line(byte: u8) -> u8 {
    if matches!(byte, b'\r' | b'\n') {
        b' '
    } else {
        byte
    }
}

/// Numbers of scripts are doubles; integers beyond 2^53 lose their last digits, as they do in
/// Redis.
#[expect(clippy::cast_precision_loss, reason = "the precision of Lua 5.1")]
pub(super) fn widen(number: i64) -> f64 {
    number as f64
}

/// What does not fit becomes the least integer, as the conversion of the processors that Redis runs
/// on has it.
#[expect(
    clippy::cast_possible_truncation,
    reason = "numbers that do not fit are caught"
)]
fn truncate(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) {
        number as i64
    } else {
        i64::MIN
    }
}

// === impl Word ===

impl Word {
    pub(super) fn new(value: &LuaValue) -> Result<Self, Refusal> {
        const NEITHER: Refusal =
            Refusal::new("ERR Lua redis lib command arguments must be strings or integers");
        match value {
            LuaValue::String(text) => Ok(Self::Borrowed(text.as_bytes())),
            LuaValue::Integer(number) => Ok(Self::Written(written(*number))),
            LuaValue::Number(number) => Ok(Self::Written(number::double(*number))),
            _ => Err(NEITHER),
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Written(text) => text.as_bytes(),
        }
    }
}

/// Redis writes 17 digits; larger numbers get an exponent.
fn written(number: i64) -> String {
    const PLAIN_MAX: u64 = 99_999_999_999_999_999;
    if number.unsigned_abs() <= PLAIN_MAX {
        number.to_string()
    } else {
        number::double(widen(number))
    }
}
