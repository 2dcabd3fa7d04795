//! The doors of the machine for `src/fuzzing`.

use mlua::{Lua, Table, Value as LuaValue};

use super::{super::reply::Reply, convert};
use crate::host::{HostError, Value};

/// More tables inside of each other than a reply may have.
const OPEN_MAX: usize = 100;

/// Values of a reply, far fewer than in the product: a table that holds itself is refused for them,
/// and many that are made up do.
const VALUES_MAX: usize = 1 << 10;

/// Bytes make a value of Lua, one after the other: what a script may return. It becomes a reply as
/// its caller sees it, and what commands answer with goes the other way and comes back the same.
pub fn reply(bytes: &[u8]) -> Result<Value, HostError> {
    thread_local! {
        // To make one takes longer than all that is done with it.
        static LUA: Lua = Lua::new();
    }
    LUA.with(|lua| reply_of(lua, bytes))
}

fn reply_of(lua: &Lua, bytes: &[u8]) -> Result<Value, HostError> {
    let made = make(lua, bytes).map_err(|error| HostError::OutcomeUnknown(error.to_string()))?;
    let value = convert::from_lua_within(&made, VALUES_MAX)?;
    let answered = as_reply(&value);
    if let Ok(back) = convert::to_lua(lua, answered) {
        let again = convert::from_lua(&back)?;
        assert_eq!(shape(&again), shape(&value));
    }
    Ok(value)
}

fn make(lua: &Lua, bytes: &[u8]) -> mlua::Result<LuaValue> {
    let mut open: Vec<Table> = vec![lua.create_table()?];
    let mut rest = bytes;
    while let Some((&kind, after)) = rest.split_first() {
        rest = after;
        let value = match kind % 10 {
            0 => LuaValue::Nil,
            1 => LuaValue::Boolean(true),
            2 => LuaValue::Boolean(false),
            3 => {
                let (number, after) = rest.split_at(rest.len().min(8));
                rest = after;
                let mut eight = [0; 8];
                eight[..number.len()].copy_from_slice(number);
                LuaValue::Number(f64::from_be_bytes(eight))
            }
            4 | 8 | 9 => {
                let length = rest.first().map_or(0, |length| usize::from(*length));
                let text = &rest[rest.len().min(1)..];
                let (text, after) = text.split_at(text.len().min(length));
                rest = after;
                let text = LuaValue::String(lua.create_string(text)?);
                if let (8 | 9, Some(table)) = (kind % 10, open.last()) {
                    table.raw_set(if kind % 10 == 8 { "ok" } else { "err" }, text)?;
                    continue;
                }
                text
            }
            5 if open.len() < OPEN_MAX => {
                open.push(lua.create_table()?);
                continue;
            }
            6 if open.len() > 1 => match open.pop() {
                Some(table) => LuaValue::Table(table),
                None => LuaValue::Nil,
            },
            7 => LuaValue::Integer(i64::from(kind)),
            // A table that holds itself.
            _ => open.first().cloned().map_or(LuaValue::Nil, LuaValue::Table),
        };
        if let Some(table) = open.last() {
            table.raw_push(value)?;
        }
    }
    while open.len() > 1 {
        if let (Some(inner), Some(outer)) = (open.pop(), open.last()) {
            outer.raw_push(inner)?;
        }
    }
    Ok(open.pop().map_or(LuaValue::Nil, LuaValue::Table))
}

fn as_reply(value: &Value) -> Reply {
    match value {
        Value::Nil => Reply::Nil,
        Value::Int(number) => Reply::Int(*number),
        Value::Bytes(bytes) => Reply::Bytes(bytes.clone()),
        Value::Array(items) => Reply::Array(items.iter().map(as_reply).collect()),
    }
}

/// What comes back the same: integers lose digits in Lua, and an array ends at its first `nil` only
/// if that is one of Lua's.
fn shape(value: &Value) -> Value {
    match value {
        Value::Int(_) => Value::Int(0),
        Value::Array(items) => Value::Array(items.iter().map(shape).collect()),
        other => other.clone(),
    }
}
