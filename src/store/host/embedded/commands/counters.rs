//! Integers that are kept as text, in strings and in fields of hashes.

use bytes::Bytes;

use super::super::{
    data::{Fields, Kind as _, Text},
    engine::Engine,
    number::{integer, integer_argument},
    reply::{Refusal, Reply},
};

type Answer = Result<Reply, Refusal>;

pub(super) fn incrby(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let by = integer_argument(args[1])?;
    add(engine, args[0], by)
}

pub(super) fn decrby(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    const OVERFLOW: Refusal = Refusal::new("ERR decrement would overflow");
    let by = integer_argument(args[1])?.checked_neg().ok_or(OVERFLOW)?;
    add(engine, args[0], by)
}

fn add(engine: &mut Engine, key: &[u8], by: i64) -> Answer {
    let written = |sum: i64| Text(Bytes::from(sum.to_string()));
    if let Some(text) = engine.keys.change::<Text>(key)? {
        let sum = integer_argument(&text.0)?
            .checked_add(by)
            .ok_or(Refusal::OVERFLOW)?;
        *text = written(sum);
        return Ok(Reply::Int(sum));
    }
    engine.keys.put(key, written(by).into_data());
    Ok(Reply::Int(by))
}

pub(super) fn hincrby(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    const NOT_AN_INTEGER: Refusal = Refusal::new("ERR hash value is not an integer");
    let by = integer_argument(args[2])?;
    // A hash that this makes is not left empty: without a field there is nothing that fails.
    let fields = engine.keys.change_or_make::<Fields>(args[0])?;
    let before = match fields.get(args[1]) {
        Some(value) => integer(value).ok_or(NOT_AN_INTEGER)?,
        None => 0,
    };
    let sum = before.checked_add(by).ok_or(Refusal::OVERFLOW)?;
    fields.set(args[1], Bytes::from(sum.to_string()));
    Ok(Reply::Int(sum))
}
