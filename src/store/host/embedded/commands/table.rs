//! All commands by name.

use super::{
    command::{Command, Effect},
    counters, hashes, keys, lists, ranges, sorted_sets,
};

const NAME_MAX: usize = 16;

/// Sorted by name.
pub(super) static COMMANDS: [Command; 39] = {
    use Effect::{Grows, Reads, Writes};
    [
        Command::new("decrby", 3, Grows, counters::decrby),
        Command::new("del", -2, Writes, keys::del),
        Command::new("exists", -2, Reads, keys::exists),
        Command::new("get", 2, Reads, keys::get),
        Command::new("hdel", -3, Writes, hashes::hdel),
        Command::new("hexists", 3, Reads, hashes::hexists),
        Command::new("hget", 3, Reads, hashes::hget),
        Command::new("hgetall", 2, Reads, hashes::hgetall),
        Command::new("hincrby", 4, Grows, counters::hincrby),
        Command::new("hlen", 2, Reads, hashes::hlen),
        Command::new("hmget", -3, Reads, hashes::hmget),
        Command::new("hscan", -3, Reads, hashes::hscan),
        Command::new("hset", -4, Grows, hashes::hset),
        Command::new("incrby", 3, Grows, counters::incrby),
        Command::new("lindex", 3, Reads, lists::lindex),
        Command::new("llen", 2, Reads, lists::llen),
        Command::new("lpop", -2, Writes, lists::lpop),
        Command::new("lpush", -3, Grows, lists::lpush),
        Command::new("lrange", 4, Reads, lists::lrange),
        Command::new("lrem", 4, Writes, lists::lrem),
        Command::new("persist", 2, Writes, keys::persist),
        Command::new("pexpire", -3, Writes, keys::pexpire),
        Command::new("pttl", 2, Reads, keys::pttl),
        Command::new("publish", 3, Reads, keys::publish),
        Command::new("rpush", -3, Grows, lists::rpush),
        Command::new("set", -3, Grows, keys::set),
        Command::new("spublish", 3, Reads, keys::publish),
        Command::new("time", 1, Reads, keys::time),
        Command::new("type", 2, Reads, keys::type_of),
        Command::new("unlink", -2, Writes, keys::del),
        Command::new("zadd", -4, Grows, sorted_sets::zadd),
        Command::new("zcard", 2, Reads, sorted_sets::zcard),
        Command::new("zcount", 4, Reads, ranges::zcount),
        Command::new("zmscore", -3, Reads, sorted_sets::zmscore),
        Command::new("zrange", -4, Reads, ranges::zrange),
        Command::new("zrangebyscore", -4, Reads, ranges::zrangebyscore),
        Command::new("zrem", -3, Writes, sorted_sets::zrem),
        Command::new("zrevrange", -4, Reads, ranges::zrevrange),
        Command::new("zscore", 3, Reads, sorted_sets::zscore),
    ]
};

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
pub(in super::super) fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|command| command.name)
}

/// The command at a place.
pub(in super::super) fn at(place: usize) -> Option<&'static Command> {
    COMMANDS.get(place)
}
