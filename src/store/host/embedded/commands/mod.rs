//! The commands: those that the scripts use, and what is near them. The table is the whole of what
//! the store can do.

#![expect(
    clippy::unnecessary_wraps,
    reason = "the table holds functions of one type"
)]

mod counters;
mod hashes;
mod keys;
mod lists;
mod ranges;
mod sorted_sets;

use super::{
    engine::Engine,
    reply::{Refusal, Reply},
};

/// A command.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) name: &'static str,
    /// Words, the name included; negative: at least so many.
    arity: i8,
    effect: Effect,
    /// Gets the words after the name.
    pub(super) run: fn(&mut Engine, &[&[u8]]) -> Result<Reply, Refusal>,
}

/// What a command does to the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Changes none.
    Reads,
    /// Changes some and needs no memory for it.
    Writes,
    /// May need memory: refused when there is none.
    Grows,
}

/// Finds a command by its name in any case.
pub(super) fn find(name: &[u8]) -> Option<&'static Command> {
    let mut lower = [0; NAME_MAX];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let place = COMMANDS
        .binary_search_by(|command| command.name.as_bytes().cmp(lower))
        .ok()?;
    COMMANDS.get(place)
}

/// The names of all commands, in the order of their places.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|command| command.name)
}

/// The command at a place.
pub(super) fn at(place: usize) -> Option<&'static Command> {
    COMMANDS.get(place)
}

const NAME_MAX: usize = 16;

const fn command(
    name: &'static str,
    arity: i8,
    effect: Effect,
    run: fn(&mut Engine, &[&[u8]]) -> Result<Reply, Refusal>,
) -> Command {
    Command {
        name,
        arity,
        effect,
        run,
    }
}

/// Sorted by name.
static COMMANDS: [Command; 40] = {
    use Effect::{Grows, Reads, Writes};
    [
        command("decr", 2, Grows, counters::decr),
        command("decrby", 3, Grows, counters::decrby),
        command("del", -2, Writes, keys::del),
        command("exists", -2, Reads, keys::exists),
        command("get", 2, Reads, keys::get),
        command("hdel", -3, Writes, hashes::hdel),
        command("hexists", 3, Reads, hashes::hexists),
        command("hget", 3, Reads, hashes::hget),
        command("hgetall", 2, Reads, hashes::hgetall),
        command("hincrby", 4, Grows, counters::hincrby),
        command("hlen", 2, Reads, hashes::hlen),
        command("hmget", -3, Reads, hashes::hmget),
        command("hset", -4, Grows, hashes::hset),
        command("incr", 2, Grows, counters::incr),
        command("incrby", 3, Grows, counters::incrby),
        command("lindex", 3, Reads, lists::lindex),
        command("llen", 2, Reads, lists::llen),
        command("lpop", -2, Writes, lists::lpop),
        command("lpush", -3, Grows, lists::lpush),
        command("lrange", 4, Reads, lists::lrange),
        command("lrem", 4, Writes, lists::lrem),
        command("persist", 2, Writes, keys::persist),
        command("pexpire", -3, Writes, keys::pexpire),
        command("ping", -1, Reads, keys::ping),
        command("pttl", 2, Reads, keys::pttl),
        command("publish", 3, Reads, keys::publish),
        command("rpush", -3, Grows, lists::rpush),
        command("set", -3, Grows, keys::set),
        command("spublish", 3, Reads, keys::publish),
        command("time", 1, Reads, keys::time),
        command("type", 2, Reads, keys::type_of),
        command("zadd", -4, Grows, sorted_sets::zadd),
        command("zcard", 2, Reads, sorted_sets::zcard),
        command("zcount", 4, Reads, ranges::zcount),
        command("zincrby", 4, Grows, sorted_sets::zincrby),
        command("zrange", -4, Reads, ranges::zrange),
        command("zrangebyscore", -4, Reads, ranges::zrangebyscore),
        command("zrem", -3, Writes, sorted_sets::zrem),
        command("zrevrange", -4, Reads, ranges::zrevrange),
        command("zscore", 3, Reads, sorted_sets::zscore),
    ]
};

/// The stretch of `len` items that two Redis indices enclose; negative ones count from the end.
fn stretch(first: i64, last: i64, len: usize) -> std::ops::Range<usize> {
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

// === impl Command ===

impl Command {
    /// Whether it can have so many words, its name included.
    pub(super) fn takes(&self, words: usize) -> bool {
        let arity = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 {
            words >= arity
        } else {
            words == arity
        }
    }

    pub(super) fn writes(&self) -> bool {
        self.effect != Effect::Reads
    }

    pub(super) fn needs_memory(&self) -> bool {
        self.effect == Effect::Grows
    }
}

#[cfg(test)]
mod tests;
