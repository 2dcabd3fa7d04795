//! Ranges of sorted sets, by rank and by score.

use bytes::Bytes;

use super::{
    super::{
        data::SortedSet,
        engine::Engine,
        number::integer_argument,
        reply::{Refusal, Reply},
    },
    lists::stretch,
    sorted_sets::score_reply,
};

type Answer = Result<Reply, Refusal>;

#[derive(Debug, Default)]
struct Options {
    by_score: bool,
    reversed: bool,
    with_scores: bool,
    /// How many to skip, and how many to take.
    limit: Option<(i64, i64)>,
}

/// Scores from one bound to the other.
#[derive(Debug)]
struct Scores {
    min: Bound,
    max: Bound,
}

#[derive(Debug)]
struct Bound {
    score: f64,
    exclusive: bool,
}

pub(super) fn zrange(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let options = Options::parse(&args[3..], Options::default())?;
    range(engine, args, &options)
}

pub(super) fn zrevrange(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let reversed = Options {
        reversed: true,
        ..Options::default()
    };
    let options = Options::parse(&args[3..], reversed)?;
    range(engine, args, &options)
}

pub(super) fn zrangebyscore(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let by_score = Options {
        by_score: true,
        ..Options::default()
    };
    let options = Options::parse(&args[3..], by_score)?;
    range(engine, args, &options)
}

pub(super) fn zcount(engine: &mut Engine, args: &[&[u8]]) -> Answer {
    let scores = Scores::parse(args[1], args[2])?;
    let set = engine.keys.read::<SortedSet>(args[0])?;
    Ok(Reply::count(set.map_or(0, |set| scores.of(set).count())))
}

fn range(engine: &mut Engine, args: &[&[u8]], options: &Options) -> Answer {
    let (key, first, last) = (args[0], args[1], args[2]);
    if options.by_score {
        let scores = Scores::parse(first, last)?;
        let Some(set) = engine.keys.read::<SortedSet>(key)? else {
            return Ok(Reply::Array(Vec::new()));
        };
        return Ok(options.reply(options.limited(scores.of(set))));
    }
    let (first, last) = (integer_argument(first)?, integer_argument(last)?);
    let Some(set) = engine.keys.read::<SortedSet>(key)? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let ranks = stretch(first, last, set.len());
    Ok(if options.reversed {
        options.reply(set.iter().rev().skip(ranks.start).take(ranks.len()))
    } else {
        options.reply(set.iter().skip(ranks.start).take(ranks.len()))
    })
}

// === impl Options ===

impl Options {
    fn parse(mut words: &[&[u8]], mut options: Self) -> Result<Self, Refusal> {
        const LIMIT_OF_RANKS: Refusal = Refusal::new(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        );
        while let Some((word, rest)) = words.split_first() {
            words = rest;
            match word.to_ascii_lowercase().as_slice() {
                b"withscores" => options.with_scores = true,
                b"limit" => {
                    let [skip, take, rest @ ..] = words else {
                        return Err(Refusal::SYNTAX);
                    };
                    options.limit = Some((integer_argument(skip)?, integer_argument(take)?));
                    words = rest;
                }
                _ => return Err(Refusal::SYNTAX),
            }
        }
        // Redis takes a limit of -1 for none.
        if options.limit.is_some_and(|(_, take)| take != -1) && !options.by_score {
            return Err(LIMIT_OF_RANKS);
        }
        Ok(options)
    }

    /// Skipping a negative number skips all, taking a negative number takes all.
    fn limited<'a>(
        &self,
        members: impl Iterator<Item = (&'a Bytes, f64)>,
    ) -> impl Iterator<Item = (&'a Bytes, f64)> {
        let (skip, take) = self.limit.unwrap_or((0, -1));
        let count = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
        members.skip(count(skip)).take(count(take))
    }

    fn reply<'a>(&self, members: impl Iterator<Item = (&'a Bytes, f64)>) -> Reply {
        let mut items = Vec::new();
        for (member, score) in members {
            items.push(Reply::Bytes(member.clone()));
            if self.with_scores {
                items.push(score_reply(score));
            }
        }
        Reply::Array(items)
    }
}

// === impl Scores ===

impl Scores {
    fn parse(min: &[u8], max: &[u8]) -> Result<Self, Refusal> {
        Ok(Self {
            min: Bound::parse(min)?,
            max: Bound::parse(max)?,
        })
    }

    /// The members within, lowest first.
    fn of<'a>(&self, set: &'a SortedSet) -> impl Iterator<Item = (&'a Bytes, f64)> {
        let above = |score: f64| score > self.min.score || !self.min.exclusive;
        let below =
            |score: f64| score < self.max.score || (!self.max.exclusive && score <= self.max.score);
        set.iter_from(self.min.score)
            .skip_while(move |(_, score)| !above(*score))
            .take_while(move |(_, score)| below(*score))
    }
}

// === impl Bound ===

impl Bound {
    /// Bounds are read less strictly than scores: they may follow spaces, be larger than a double
    /// can be, and nothing is zero.
    fn parse(text: &[u8]) -> Result<Self, Refusal> {
        const INVALID: Refusal = Refusal::new("ERR min or max is not a float");
        let (text, exclusive) = match text {
            [b'(', rest @ ..] => (rest, true),
            _ => (text, false),
        };
        let score = match text {
            [] => Some(0.0),
            _ => str::from_utf8(text.trim_ascii_start())
                .ok()
                .and_then(|text| text.parse::<f64>().ok()),
        };
        let score = score.filter(|score| !score.is_nan()).ok_or(INVALID)?;
        Ok(Self { score, exclusive })
    }
}
