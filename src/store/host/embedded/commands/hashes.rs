//! Hashes.

use bytes::Bytes;

use super::super::{
    data::Fields,
    engine::Engine,
    number::integer_argument,
    reply::{Refusal, Reply},
};

type Answer = Result<Reply, Refusal>;

/// Fields that `HSCAN` looks at without a `COUNT`.
const SCANNED: usize = 10;

pub(super) fn hget(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let fields = engine.keys.read::<Fields>(args[0])?;
    Ok(Reply::maybe(fields.and_then(|fields| fields.get(args[1]))))
}

pub(super) fn hmget(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let fields = engine.keys.read::<Fields>(args[0])?;
    let value = |name: &&[u8]| Reply::maybe(fields.and_then(|fields| fields.get(name)));
    Ok(Reply::Array(args[1..].iter().map(value).collect()))
}

pub(super) fn hexists(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let fields = engine.keys.read::<Fields>(args[0])?;
    Ok(fields
        .is_some_and(|fields| fields.get(args[1]).is_some())
        .into())
}

pub(super) fn hlen(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    Ok(Reply::count(
        engine.keys.read::<Fields>(args[0])?.map_or(0, Fields::len),
    ))
}

pub(super) fn hgetall(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let fields = engine.keys.read::<Fields>(args[0])?;
    let pairs = fields.into_iter().flat_map(Fields::iter);
    let words = pairs.flat_map(|(name, value)| [name, value]);
    Ok(Reply::Array(
        words.map(|word| Reply::Bytes(word.clone())).collect(),
    ))
}

/// Some fields with their values, and where to go on.
pub(super) fn hscan(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let from = str::from_utf8(args[1])
        .ok()
        .and_then(|cursor| cursor.parse().ok())
        .ok_or(Refusal::new("ERR invalid cursor"))?;
    let count = match args[2..] {
        [] => SCANNED,
        [word, number] if word.eq_ignore_ascii_case(b"count") => {
            usize::try_from(integer_argument(number)?).unwrap_or(0)
        }
        _ => return Err(Refusal::SYNTAX),
    };
    if count == 0 {
        return Err(Refusal::SYNTAX);
    }
    let fields = engine.keys.read::<Fields>(args[0])?;
    let (pairs, next) = fields.map_or((Vec::new(), 0), |fields| fields.scan(from, count));
    let words = pairs.into_iter().flat_map(|(name, value)| [name, value]);
    Ok(Reply::Array(vec![
        Reply::Bytes(next.to_string().into()),
        Reply::Array(words.map(|word| Reply::Bytes(word.clone())).collect()),
    ]))
}

pub(super) fn hset(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let (pairs, []) = args[1..].as_chunks() else {
        return Err(Refusal::wrong_arguments("hset"));
    };
    let fields = engine.keys.change_or_make::<Fields>(args[0])?;
    let set = |[name, value]: &&[&[u8]; 2]| fields.set(name, Bytes::copy_from_slice(value));
    Ok(Reply::count(pairs.iter().filter(set).count()))
}

pub(super) fn hdel(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let Some(fields) = engine.keys.change::<Fields>(args[0])? else {
        return Ok(Reply::Int(0));
    };
    let removed = args[1..].iter().filter(|name| fields.remove(name)).count();
    engine.keys.tidy(args[0]);
    Ok(Reply::count(removed))
}
