//! What scripts are given, and what becomes of what they return or raise.

use lockkeeper_store::host::{HostError, Value};

use super::eval;
use crate::support::hosts::HOSTS;

#[tokio::test]
async fn replies_and_errors() {
    let mut failures = Vec::new();
    for host in HOSTS {
        let store = host.start().await;
        let (client, _wakes) = store.connect();
        for (source, expected) in REPLIES {
            store.flush().await;
            let (seen, as_expected) = match eval(&client, source).await {
                Ok(value) => {
                    let seen = shown(&value);
                    let same = seen == *expected;
                    (seen, same)
                }
                Err(HostError::Rejected { code, message }) => {
                    let text = expected.strip_prefix(&format!("!{code} "));
                    let same = text.is_some_and(|text| message.contains(text));
                    (format!("!{code} {message}"), same)
                }
                Err(error) => (error.to_string(), false),
            };
            if !as_expected {
                failures.push(format!("{host:?}: {source}\n  {expected}\n  {seen}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn shown(value: &Value) -> String {
    match value {
        Value::Nil => "nil".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Bytes(bytes) => format!("'{}'", bytes.escape_ascii()),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(shown).collect();
            format!("[{}]", items.join(" "))
        }
    }
}

/// A script, and what `eval` makes of what it returns: `nil`, numbers, strings in quotes, arrays,
/// and errors as `!CODE text`, around which each version of a store says something else.
const REPLIES: &[(&str, &str)] = &[
    // What Lua has and Redis has not.
    ("return nil", "nil"),
    ("return", "nil"),
    ("return false", "nil"),
    ("return true", "1"),
    ("return function() end", "nil"),
    // Numbers are integers, rounded towards zero.
    ("return 3", "3"),
    ("return 3.999", "3"),
    ("return -3.999", "-3"),
    ("return 2^53", "9007199254740992"),
    ("return 1700000000000000 + 1", "1700000000000001"),
    ("return tostring(1700000000000000)", "'1.7e+15'"),
    // Strings are bytes.
    ("return ''", "''"),
    ("return 'text'", "'text'"),
    ("return '3.9'", "'3.9'"),
    ("return '\\0\\255\\r\\n'", "'\\x00\\xff\\r\\n'"),
    ("return ARGV[2]", "'\\xff\\x00\\r\\n'"),
    // Tables are arrays up to their first nil.
    ("return {}", "[]"),
    ("return {1, 'a', {2, {'b'}}}", "[1 'a' [2 ['b']]]"),
    ("return {1, nil, 3}", "[1]"),
    ("return {nil, 2}", "[]"),
    ("return {1, false, true, 2.5}", "[1 nil 1 2]"),
    ("return {1, name = 2}", "[1]"),
    // Statuses are strings.
    ("return {ok = 'FINE'}", "'FINE'"),
    ("return redis.status_reply('FINE')", "'FINE'"),
    ("return redis.call('set', KEYS[1], '1')", "'OK'"),
    ("return redis.call('set', KEYS[1], '1').ok", "'OK'"),
    // Errors that are returned.
    ("return {err = 'CODE text'}", "!CODE text"),
    ("return redis.error_reply('CODE text')", "!CODE text"),
    ("return redis.error_reply('ERR text')", "!ERR text"),
    ("return {1, {err = 'CODE text'}}", "!CODE text"),
    // Errors that are raised.
    (
        "redis.call('rpush', KEYS[1], 'a') return redis.call('get', KEYS[1])",
        "!WRONGTYPE Operation against a key",
    ),
    ("return redis.call('nonsense')", "!ERR Unknown"),
    (
        "return redis.call('get')",
        "!ERR Wrong number of args calling",
    ),
    (
        "return redis.call('pexpire', KEYS[1], 'soon')",
        "!ERR value is not an integer or out of range",
    ),
    ("error('why')", "!ERR user_script:1: why"),
    (
        "return nil .. 'a'",
        "!ERR user_script:1: attempt to concatenate a nil value",
    ),
    (
        "return nonsense",
        "!ERR user_script:1: Script attempted to access nonexistent global variable 'nonsense'",
    ),
    (
        "nonsense = 1",
        "!ERR user_script:1: Attempt to modify a readonly table",
    ),
    ("not Lua", "!ERR Error compiling script"),
    // Errors that are caught.
    ("return redis.pcall('nonsense').err ~= nil", "1"),
    (
        "redis.call('rpush', KEYS[1], 'a') return type(redis.pcall('get', KEYS[1]))",
        "'table'",
    ),
    (
        "redis.call('rpush', KEYS[1], 'a') return string.sub(redis.pcall('get', KEYS[1]).err, 1, \
         9)",
        "'WRONGTYPE'",
    ),
    ("return {pcall(error, 'why', 0)}", "[nil 'why']"),
    // What scripts are given.
    ("return {#KEYS, #ARGV}", "[2 3]"),
    (
        "return {KEYS[1], KEYS[2], ARGV[1], ARGV[3]}",
        "['key' '{key}-2' 'a' '']",
    ),
    ("return {type(KEYS[3]), type(ARGV[4])}", "['nil' 'nil']"),
    ("return type(ARGV[1])", "'string'"),
    ("KEYS[1] = 'mine' return KEYS[1]", "'mine'"),
    // What commands give to scripts.
    ("return tostring(redis.call('get', KEYS[1]))", "'false'"),
    ("return redis.call('get', KEYS[1])", "nil"),
    ("return redis.call('hmget', KEYS[1], 'a', 'b')", "[nil nil]"),
    ("return redis.call('hgetall', KEYS[1])", "[]"),
    (
        "return {redis.call('exists', KEYS[1]), redis.call('pttl', KEYS[1])}",
        "[0 -2]",
    ),
    (
        "redis.call('set', KEYS[1], ARGV[2]) return redis.call('get', KEYS[1])",
        "'\\xff\\x00\\r\\n'",
    ),
    (
        "redis.call('set', KEYS[1], 1700000000000001) return redis.call('get', KEYS[1])",
        "'1700000000000001'",
    ),
    (
        "redis.call('set', KEYS[1], 1.5) return redis.call('get', KEYS[1])",
        "'1.5'",
    ),
    (
        "return {type(redis.call('time')[1]), #redis.call('time')}",
        "['string' 2]",
    ),
    // A busy machine may take a millisecond between the two calls.
    (
        "local before = redis.call('time') redis.call('set', KEYS[1], 1, 'px', 500000) return \
         math.ceil(redis.call('pttl', KEYS[1]) / 1000)",
        "500",
    ),
];
