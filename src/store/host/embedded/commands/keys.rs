//! Strings, times to live, and what concerns keys of any type.

use bytes::Bytes;

use super::super::{
    data::{Data, Kind as _, Text},
    engine::Engine,
    keyspace::Lifetime,
    number::integer_argument,
    reply::{Refusal, Reply},
};

type Answer = Result<Reply, Refusal>;

const MILLIS_PER_SECOND: i64 = 1000;

pub(super) fn time(engine: &mut Engine, _: &[&[u8]]) -> Answer {
    let now = engine.now_micros();
    let parts = [now.div_euclid(1_000_000), now.rem_euclid(1_000_000)];
    let text = |part: i64| Reply::Bytes(Bytes::from(part.to_string()));
    Ok(Reply::Array(parts.map(text).into()))
}

pub(super) fn get(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let text = engine.keys.read::<Text>(args[0])?;
    Ok(Reply::maybe(text.map(|text| &text.0)))
}

#[derive(Default)]
struct SetOptions<'a> {
    only_new: bool,
    only_existing: bool,
    keep_ttl: bool,
    /// The number, and how many milliseconds one of it is.
    ttl: Option<(&'a [u8], i64)>,
}

pub(super) fn set(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let (key, value) = (args[0], args[1]);
    let options = SetOptions::parse(&args[2..])?;
    let ttl = options.ttl.map(|(number, unit)| {
        let number = integer_argument(number)?;
        let at = number
            .checked_mul(unit)
            .and_then(|ms| ms.checked_add(engine.keys.now_ms()));
        at.filter(|_| number > 0)
            .ok_or_else(|| Refusal::invalid_expire("set"))
    });
    let expires_at = ttl.transpose()?;
    let found = engine.keys.lifetime(key);
    let exists = found != Lifetime::Missing;
    if (options.only_new && exists) || (options.only_existing && !exists) {
        return Ok(Reply::Nil);
    }
    let kept = if options.keep_ttl { found.end() } else { None };
    let data = Text(Bytes::copy_from_slice(value)).into_data();
    engine.keys.put_until(key, data, expires_at.or(kept));
    Ok(Reply::OK)
}

pub(super) fn del(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    Ok(Reply::count(
        args.iter().filter(|key| engine.keys.remove(key)).count(),
    ))
}

pub(super) fn exists(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    Ok(Reply::count(
        args.iter()
            .filter(|key| engine.keys.data(key).is_some())
            .count(),
    ))
}

pub(super) fn type_of(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    Ok(Reply::Status(
        engine.keys.data(args[0]).map_or("none", Data::type_name),
    ))
}

pub(super) fn pttl(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    Ok(Reply::Int(match engine.keys.lifetime(args[0]) {
        Lifetime::Missing => -2,
        Lifetime::Endless => -1,
        Lifetime::Until(at) => at - engine.keys.now_ms(),
    }))
}

pub(super) fn persist(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let had_one = engine.keys.lifetime(args[0]).end().is_some();
    engine.keys.expire(args[0], None);
    Ok(had_one.into())
}

#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a word of the command"
)]
struct ExpireOptions {
    if_none: bool,
    if_some: bool,
    if_later: bool,
    if_sooner: bool,
}

pub(super) fn pexpire(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let options = ExpireOptions::parse(&args[2..])?;
    let at = integer_argument(args[1])?
        .checked_add(engine.keys.now_ms())
        .ok_or_else(|| Refusal::invalid_expire("pexpire"))?;
    let before = engine.keys.lifetime(args[0]);
    if before == Lifetime::Missing || !options.allow(before.end(), at) {
        return Ok(false.into());
    }
    if at <= engine.keys.now_ms() {
        engine.keys.remove(args[0]);
    } else {
        engine.keys.expire(args[0], Some(at));
    }
    Ok(true.into())
}

pub(super) fn publish(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    Ok(Reply::count(engine.pubsub.publish(args[0], args[1])))
}

// === impl SetOptions ===

impl<'a> SetOptions<'a> {
    fn parse(mut words: &[&'a [u8]]) -> Result<Self, Refusal> {
        let mut options = Self::default();
        while let Some((word, rest)) = words.split_first() {
            words = rest;
            match word.to_ascii_lowercase().as_slice() {
                b"nx" if !options.only_existing => options.only_new = true,
                b"xx" if !options.only_new => options.only_existing = true,
                b"keepttl" if options.ttl.is_none() => options.keep_ttl = true,
                unit @ (b"px" | b"ex") if !options.keep_ttl => {
                    let unit = if unit == b"px" { 1 } else { MILLIS_PER_SECOND };
                    let (number, rest) = words.split_first().ok_or(Refusal::SYNTAX)?;
                    // The same unit twice is allowed, and the last one counts.
                    if options
                        .ttl
                        .replace((number, unit))
                        .is_some_and(|(_, other)| other != unit)
                    {
                        return Err(Refusal::SYNTAX);
                    }
                    words = rest;
                }
                _ => return Err(Refusal::SYNTAX),
            }
        }
        Ok(options)
    }
}

// === impl ExpireOptions ===

impl ExpireOptions {
    fn parse(words: &[&[u8]]) -> Result<Self, Refusal> {
        const WITH_NX: Refusal =
            Refusal::new("ERR NX and XX, GT or LT options at the same time are not compatible");
        const GT_WITH_LT: Refusal =
            Refusal::new("ERR GT and LT options at the same time are not compatible");
        let mut options = Self::default();
        for word in words {
            match word.to_ascii_lowercase().as_slice() {
                b"nx" => options.if_none = true,
                b"xx" => options.if_some = true,
                b"gt" => options.if_later = true,
                b"lt" => options.if_sooner = true,
                _ => {
                    let word = String::from_utf8_lossy(word);
                    return Err(Refusal(format!("ERR Unsupported option {word}").into()));
                }
            }
        }
        if options.if_none && (options.if_some || options.if_later || options.if_sooner) {
            return Err(WITH_NX);
        } else if options.if_later && options.if_sooner {
            return Err(GT_WITH_LT);
        }
        Ok(options)
    }

    /// A key without a time to live counts as one that ends never.
    fn allow(&self, before: Option<i64>, at: i64) -> bool {
        !((self.if_none && before.is_some())
            || (self.if_some && before.is_none())
            || (self.if_later && before.is_none_or(|before| at <= before))
            || (self.if_sooner && before.is_some_and(|before| at >= before)))
    }
}
