//! Lists.

use bytes::Bytes;

use super::super::{
    data::List,
    engine::Engine,
    number::{integer, integer_argument},
    reply::{Refusal, Reply},
};

type Answer = Result<Reply, Refusal>;

pub(super) fn rpush(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let list = engine.keys.change_or_make::<List>(args[0])?;
    list.extend(args[1..].iter().map(|item| Bytes::copy_from_slice(item)));
    Ok(Reply::count(list.len()))
}

pub(super) fn lpush(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let list = engine.keys.change_or_make::<List>(args[0])?;
    for item in &args[1..] {
        list.push_front(Bytes::copy_from_slice(item));
    }
    Ok(Reply::count(list.len()))
}

pub(super) fn lpop(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    const NOT_POSITIVE: Refusal = Refusal::new("ERR value is out of range, must be positive");
    let (key, count) = match args {
        [key] => (*key, None),
        [key, count] => {
            let count = integer(count).and_then(|count| usize::try_from(count).ok());
            (*key, Some(count.ok_or(NOT_POSITIVE)?))
        }
        _ => return Err(Refusal::wrong_arguments("lpop")),
    };
    let Some(list) = engine.keys.change::<List>(key)? else {
        return Ok(Reply::Nil);
    };
    let reply = if let Some(count) = count {
        let taken = list.drain(..count.min(list.len()));
        Reply::Array(taken.map(Reply::Bytes).collect())
    } else {
        list.pop_front().map_or(Reply::Nil, Reply::Bytes)
    };
    engine.keys.tidy(key);
    Ok(reply)
}

pub(super) fn llen(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    Ok(Reply::count(
        engine.keys.read::<List>(args[0])?.map_or(0, List::len),
    ))
}

pub(super) fn lindex(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let Some(list) = engine.keys.read::<List>(args[0])? else {
        return Ok(Reply::Nil);
    };
    let index = integer_argument(args[1])?;
    let steps = usize::try_from(if index < 0 { !index } else { index }).unwrap_or(usize::MAX);
    Ok(Reply::maybe(if index < 0 {
        list.iter().nth_back(steps)
    } else {
        list.get(steps)
    }))
}

pub(super) fn lrange(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let (start, end) = (integer_argument(args[1])?, integer_argument(args[2])?);
    let Some(list) = engine.keys.read::<List>(args[0])? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let items = list.range(stretch(start, end, list.len()));
    Ok(Reply::Array(
        items.map(|item| Reply::Bytes(item.clone())).collect(),
    ))
}

pub(super) fn lrem(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let count = integer_argument(args[1])?;
    let Some(list) = engine.keys.change::<List>(args[0])? else {
        return Ok(Reply::Int(0));
    };
    // Zero removes all; a negative count starts at the tail.
    let mut left = if count == 0 {
        u64::MAX
    } else {
        count.unsigned_abs()
    };
    let before = list.len();
    let mut keep = |item: &Bytes| {
        let goes = left > 0 && item == args[2];
        left -= u64::from(goes);
        !goes
    };
    if count >= 0 {
        list.retain(&mut keep);
    } else {
        let kept: Vec<Bytes> = list.drain(..).rev().filter(&mut keep).collect();
        list.extend(kept.into_iter().rev());
    }
    let removed = before - list.len();
    engine.keys.tidy(args[0]);
    Ok(Reply::count(removed))
}

/// The stretch of `len` items that two Redis indices enclose; negative ones count from the end.
pub(super) fn stretch(first: i64, last: i64, len: usize) -> std::ops::Range<usize> {
    let size = i64::try_from(len).unwrap_or(i64::MAX);
    let from_end = |index: i64| {
        if index < 0 {
            index.saturating_add(size)
        } else {
            index
        }
    };
    let first = from_end(first).max(0);
    let end = from_end(last).min(size - 1) + 1;
    if first >= end {
        return 0..0;
    }
    usize::try_from(first).unwrap_or(len)..usize::try_from(end).unwrap_or(len)
}
