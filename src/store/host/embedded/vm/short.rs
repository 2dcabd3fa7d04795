//! The short way from a script to a command, for calls with few words and short replies. Its words
//! and items go over the stack of the machine; the long way makes a reference to each.

use std::sync::Arc;

use mlua::{BString, Either, Function, Lua, Table, Value as LuaValue};

use super::{
    super::{
        commands,
        reply::{Refusal, Reply},
    },
    SharedEngine, convert,
};

/// A word, or something else that is not nil.
type Word = Option<Either<BString, bool>>;

/// A reply, or an item of one.
type Item = Either<Either<bool, f64>, Either<String, LuaValue>>;

/// A reply; none if the call is for the long way.
type Answer = mlua::Result<Option<Item>>;

/// What a script gets if a command is refused.
type Refused = fn(&Lua, Refusal) -> mlua::Result<LuaValue>;

/// What the number of a command is a multiple of; what is left is how many words follow.
const WORDS: usize = 8;

/// A table of the numbers of commands by their names.
pub(super) fn numbers(lua: &Lua) -> mlua::Result<Table> {
    lua.create_table_from(commands::names().zip((0..).step_by(WORDS)))
}

/// The ways for up to three words and up to six, as `glue.rs` calls them.
pub(super) fn ways(
    lua: &Lua,
    engine: &SharedEngine,
    refused: Refused,
) -> mlua::Result<(Function, Function)> {
    type Three = (usize, Word, Word, Word);
    type Six = (usize, Word, Word, Word, Word, Word, Word);
    let on = Arc::clone(engine);
    let short = lua.create_function(move |lua, (number, a, b, c): Three| {
        go(lua, &on, refused, number, [&a, &b, &c])
    })?;
    let on = Arc::clone(engine);
    let middle = lua.create_function(move |lua, (number, a, b, c, d, e, f): Six| {
        go(lua, &on, refused, number, [&a, &b, &c, &d, &e, &f])
    })?;
    Ok((short, middle))
}

fn go<const MAX: usize>(
    lua: &Lua,
    engine: &SharedEngine,
    refused: Refused,
    number: usize,
    given: [&Word; MAX],
) -> Answer {
    let (place, count) = (number / WORDS, number % WORDS);
    let mut words = [&[][..]; MAX];
    for (word, given) in words.iter_mut().zip(given).take(count) {
        let Some(Either::Left(bytes)) = given else {
            return Ok(None);
        };
        *word = bytes;
    }
    let Some(command) = commands::at(place).filter(|command| command.takes(count + 1)) else {
        return Ok(None);
    };
    let reply = commands::run_checked(&mut engine.lock(), command, &words[..count]);
    match reply {
        Ok(reply) => item(lua, reply).map(Some),
        Err(refusal) => refused(lua, refusal).map(|value| Some(other(value))),
    }
}

fn item(lua: &Lua, reply: Reply) -> mlua::Result<Item> {
    Ok(match reply {
        Reply::Nil => Either::Left(Either::Left(false)),
        Reply::Int(number) => Either::Left(Either::Right(convert::widen(number))),
        Reply::Bytes(bytes) => match String::from_utf8(bytes.into()) {
            Ok(text) => Either::Right(Either::Left(text)),
            Err(error) => other(LuaValue::String(lua.create_string(error.as_bytes())?)),
        },
        Reply::Array(items) => {
            let items = items.into_iter().map(|reply| item(lua, reply));
            let items = items.collect::<mlua::Result<Vec<_>>>()?;
            other(LuaValue::Table(lua.create_sequence_from(items)?))
        }
        Reply::Status(_) => other(convert::to_lua(lua, reply)?),
    })
}

fn other(value: LuaValue) -> Item {
    Either::Right(Either::Right(value))
}
