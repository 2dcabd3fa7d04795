//! Which commands the store's user may run. A script that is refused a command fails at that
//! command, and its error does not name it, so each is tried when the server is reached.

use deadpool_redis::redis::{RedisError, Value, aio::ConnectionLike, cmd, pipe};

use super::endpoint::Probe;

/// The key and the channels that commands name.
const KEY: &str = "{key}";
const CHANNEL: &str = "{channel}";
const ELECTION: &str = "{election}";

/// Every command that scripts or their callers use on keys.
const TRIED: [&[&str]; 40] = [
    &["SET", KEY, "1", "PX", "1000"],
    &["DECRBY", KEY, "1"],
    &["DEL", KEY],
    &["EVALSHA", "0000000000000000000000000000000000000000", "0"],
    &["EVAL", "return 1", "0"],
    &["EXISTS", KEY],
    &["GET", KEY],
    &["HDEL", KEY, "a"],
    &["HEXISTS", KEY, "a"],
    &["HGET", KEY, "a"],
    &["HINCRBY", KEY, "a", "1"],
    &["HLEN", KEY],
    &["HMGET", KEY, "a"],
    &["HSCAN", KEY, "0"],
    &["HSET", KEY, "a", "1"],
    &["INCRBY", KEY, "1"],
    &["LINDEX", KEY, "0"],
    &["LLEN", KEY],
    &["LPOP", KEY],
    &["LPUSH", KEY, "a"],
    &["LRANGE", KEY, "0", "0"],
    &["LREM", KEY, "1", "a"],
    &["PERSIST", KEY],
    &["PEXPIRE", KEY, "1"],
    &["PTTL", KEY],
    &["PUBLISH", CHANNEL, "0"],
    &["PUBLISH", ELECTION, "0"],
    &["RPUSH", KEY, "a"],
    &["SCAN", "0", "COUNT", "1"],
    &["TIME"],
    &["TYPE", KEY],
    &["UNLINK", KEY],
    &["ZADD", KEY, "1", "a"],
    &["ZCARD", KEY],
    &["ZCOUNT", KEY, "0", "1"],
    &["ZMSCORE", KEY, "a"],
    &["ZRANGEBYSCORE", KEY, "0", "1", "LIMIT", "0", "1"],
    &["ZREM", KEY, "a"],
    &["ZREVRANGE", KEY, "0", "0"],
    &["ZSCORE", KEY, "a"],
];

/// What a coordinator needs of a cluster besides. One of the others has no such commands, and needs
/// no right to them.
const TRIED_IN_CLUSTER: [&[&str]; 6] = [
    &["ASKING"],
    &["CLUSTER", "INFO"],
    &["CLUSTER", "SLOTS"],
    &["SPUBLISH", CHANNEL, "0"],
    &["SSUBSCRIBE", CHANNEL],
    &["SUNSUBSCRIBE", CHANNEL],
];

/// The commands that the user may not run, in lower case. Nothing is executed: a transaction
/// refuses such a command before, and is discarded. An error if the server does not answer, or
/// allows no transactions.
pub(super) async fn missing(
    connection: &mut impl ConnectionLike,
    probe: &Probe,
) -> Result<Vec<String>, RedisError> {
    cmd("MULTI").query_async::<()>(connection).await?;
    let mut commands = pipe();
    let tried: Vec<_> = if probe.in_cluster {
        TRIED.iter().chain(&TRIED_IN_CLUSTER).collect()
    } else {
        TRIED.iter().collect()
    };
    for words in &tried {
        commands.cmd(words[0]);
        for word in &words[1..] {
            commands.arg(match *word {
                KEY => &probe.key,
                CHANNEL => &probe.channel,
                ELECTION => &probe.election,
                word => word,
            });
        }
    }
    commands.cmd("DISCARD");
    let answers = connection
        .req_packed_commands(&commands, 0, tried.len() + 1)
        .await?;
    let refused = tried.iter().zip(&answers).filter(
        |(_, answer)| matches!(answer, Value::ServerError(error) if error.code() == "NOPERM"),
    );
    let names = refused.map(|(words, _)| match *words {
        ["CLUSTER", which, ..] => format!("cluster|{}", which.to_ascii_lowercase()),
        words => words[0].to_ascii_lowercase(),
    });
    let mut names: Vec<_> = names.collect();
    names.dedup();
    Ok(names)
}
