//! Sorted sets: members and their scores. Ranges of them are next door.

use bytes::Bytes;

use super::super::{
    data::SortedSet,
    engine::Engine,
    number::{double, score},
    reply::{Refusal, Reply},
};

type Answer = Result<Reply, Refusal>;

/// Scores and members.
type Pairs<'a, 'b> = &'b [[&'a [u8]; 2]];

/// How `ZADD` treats members, as far as scripts say.
#[derive(Clone, Copy, Debug, Default)]
struct AddOptions {
    only_existing: bool,
    only_higher: bool,
}

/// A score as a reply.
pub(super) fn score_reply(score: f64) -> Reply {
    Reply::Bytes(Bytes::from(double(score)))
}

pub(super) fn zadd(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let (options, pairs) = AddOptions::parse(&args[1..])?;
    let scored = pairs
        .iter()
        .map(|[number, member]| Ok((score(number)?, *member)));
    let scored = scored.collect::<Result<Vec<_>, Refusal>>()?;
    let missing = engine.keys.read::<SortedSet>(args[0])?.is_none();
    if missing && options.only_existing {
        return Ok(Reply::Int(0));
    }
    let set = engine.keys.change_or_make::<SortedSet>(args[0])?;
    let added = scored
        .into_iter()
        .filter(|(score, member)| options.apply(set, member, *score));
    Ok(Reply::count(added.count()))
}

pub(super) fn zrem(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let Some(set) = engine.keys.change::<SortedSet>(args[0])? else {
        return Ok(Reply::Int(0));
    };
    let removed = args[1..].iter().filter(|member| set.remove(member)).count();
    engine.keys.tidy(args[0]);
    Ok(Reply::count(removed))
}

pub(super) fn zscore(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let set = engine.keys.read::<SortedSet>(args[0])?;
    Ok(set
        .and_then(|set| set.score(args[1]))
        .map_or(Reply::Nil, score_reply))
}

pub(super) fn zmscore(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let set = engine.keys.read::<SortedSet>(args[0])?;
    let score = |member: &&[u8]| set.and_then(|set| set.score(member));
    let scores = args[1..].iter().map(score);
    let scores = scores.map(|score| score.map_or(Reply::Nil, score_reply));
    Ok(Reply::Array(scores.collect()))
}

pub(super) fn zcard(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    Ok(Reply::count(
        engine
            .keys
            .read::<SortedSet>(args[0])?
            .map_or(0, SortedSet::len),
    ))
}

// === impl AddOptions ===

impl AddOptions {
    /// Splits the words after the key into options and pairs of score and member.
    fn parse<'a, 'b>(words: &'b [&'a [u8]]) -> Result<(Self, Pairs<'a, 'b>), Refusal> {
        let mut options = Self::default();
        let mut pairs = words;
        while let Some((word, rest)) = pairs.split_first() {
            match word.to_ascii_lowercase().as_slice() {
                b"xx" => options.only_existing = true,
                b"gt" => options.only_higher = true,
                _ => break,
            }
            pairs = rest;
        }
        let (pairs, rest) = pairs.as_chunks();
        if pairs.is_empty() || !rest.is_empty() {
            return Err(Refusal::SYNTAX);
        }
        Ok((options, pairs))
    }

    /// True if the member is new.
    fn apply(self, set: &mut SortedSet, member: &[u8], score: f64) -> bool {
        let before = set.score(member);
        let is_kept = match before {
            None => self.only_existing,
            // Zero and minus zero are the same score, and the old one stays.
            Some(before) => score <= before && (self.only_higher || score >= before),
        };
        if !is_kept {
            set.set(member, score);
        }
        !is_kept && before.is_none()
    }
}
