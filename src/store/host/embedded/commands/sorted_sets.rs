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

/// How `ZADD` treats members.
#[derive(Clone, Copy, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a word of the command"
)]
struct AddOptions {
    only_new: bool,
    only_existing: bool,
    only_higher: bool,
    only_lower: bool,
    count_changed: bool,
    increment: bool,
}

/// What became of one member.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Skipped,
    Added(f64),
    Changed(f64),
    Same(f64),
}

/// A score as a reply.
pub(super) fn score_reply(score: f64) -> Reply {
    Reply::Bytes(Bytes::from(double(score)))
}

pub(super) fn zadd(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let (options, pairs) = AddOptions::parse(&args[1..])?;
    if options.increment && pairs.len() > 1 {
        return Err(Refusal::new(
            "ERR INCR option supports a single increment-element pair",
        ));
    }
    let scored = pairs
        .iter()
        .map(|[number, member]| Ok((score(number)?, *member)));
    let scored = scored.collect::<Result<Vec<_>, Refusal>>()?;
    add(engine, args[0], options, &scored)
}

fn add(engine: &mut Engine, key: &[u8], options: AddOptions, scored: &[(f64, &[u8])]) -> Answer {
    let missing = engine.keys.read::<SortedSet>(key)?.is_none();
    if missing && options.only_existing {
        return Ok(if options.increment {
            Reply::Nil
        } else {
            Reply::Int(0)
        });
    }
    let set = engine.keys.change_or_make::<SortedSet>(key)?;
    let (mut counted, mut last) = (0, Outcome::Skipped);
    for (score, member) in scored {
        last = options.apply(set, member, *score)?;
        counted += usize::from(match last {
            Outcome::Added(_) => true,
            Outcome::Changed(_) => options.count_changed,
            Outcome::Skipped | Outcome::Same(_) => false,
        });
    }
    if !options.increment {
        return Ok(Reply::count(counted));
    }
    Ok(match last {
        Outcome::Skipped => Reply::Nil,
        Outcome::Added(score) | Outcome::Changed(score) | Outcome::Same(score) => {
            score_reply(score)
        }
    })
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
        const NX_WITH_XX: Refusal =
            Refusal::new("ERR XX and NX options at the same time are not compatible");
        const GT_WITH_LT: Refusal =
            Refusal::new("ERR GT, LT, and/or NX options at the same time are not compatible");
        let mut options = Self::default();
        let mut pairs = words;
        while let Some((word, rest)) = pairs.split_first() {
            match word.to_ascii_lowercase().as_slice() {
                b"nx" => options.only_new = true,
                b"xx" => options.only_existing = true,
                b"gt" => options.only_higher = true,
                b"lt" => options.only_lower = true,
                b"ch" => options.count_changed = true,
                b"incr" => options.increment = true,
                _ => break,
            }
            pairs = rest;
        }
        let (pairs, rest) = pairs.as_chunks();
        if pairs.is_empty() || !rest.is_empty() {
            return Err(Refusal::SYNTAX);
        } else if options.only_new && options.only_existing {
            return Err(NX_WITH_XX);
        }
        let relations = [options.only_higher, options.only_lower, options.only_new];
        if relations.into_iter().filter(|given| *given).count() > 1 {
            return Err(GT_WITH_LT);
        }
        Ok((options, pairs))
    }

    fn apply(self, set: &mut SortedSet, member: &[u8], score: f64) -> Result<Outcome, Refusal> {
        const NOT_A_NUMBER: Refusal = Refusal::new("ERR resulting score is not a number (NaN)");
        let Some(before) = set.score(member) else {
            if self.only_existing {
                return Ok(Outcome::Skipped);
            }
            set.set(member, score);
            return Ok(Outcome::Added(score));
        };
        if self.only_new {
            return Ok(Outcome::Skipped);
        }
        let score = if self.increment {
            before + score
        } else {
            score
        };
        if score.is_nan() {
            return Err(NOT_A_NUMBER);
        }
        if (self.only_lower && score >= before) || (self.only_higher && score <= before) {
            return Ok(Outcome::Skipped);
        }
        // Zero and minus zero are the same score, and the old one stays.
        if score
            .partial_cmp(&before)
            .is_some_and(std::cmp::Ordering::is_eq)
        {
            return Ok(Outcome::Same(score));
        }
        set.set(member, score);
        Ok(Outcome::Changed(score))
    }
}
