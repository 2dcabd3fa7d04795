use bytes::Bytes;

use super::tests::{machine, text, value};
use crate::host::{Call, Script, Value, words};

#[tokio::test(start_paused = true)]
async fn however_a_command_is_called_it_is_the_same() {
    for (source, expected) in [
        ("return redis.call('SET', 'a', 'b').ok", "OK"),
        (
            "redis.call('set', 'a', 12) return redis.call('GET', 'a')",
            "12",
        ),
        (
            "redis.call('set', 'a', -0.5) return redis.call('get', 'a')",
            "-0.5",
        ),
        (
            "redis.call('set', 'a', 2^53 + 2) return redis.call('get', 'a')",
            "9007199254740994",
        ),
        (
            "redis.call('set', 'a', 'b', 'px', 5) return tostring(redis.call('pttl', 'a'))",
            "5",
        ),
        (
            "redis.call('set', 'a', '\\255') return tostring(redis.call('get', 'a') == '\\255')",
            "true",
        ),
        (
            "redis.call('hset', 'h', 'f', '1') \
             return #redis.call('hmget', 'h', 'f', 'g', 'f') .. ''",
            "3",
        ),
        (
            "redis.call('rpush', 'l', 1, 2, 3, 4, 5, 6, 7, 8) \
             return redis.call('lrange', 'l', 0, -1)[8]",
            "8",
        ),
        ("return tostring(#redis.call('lrange', 'none', 0, -1))", "0"),
        (
            "return redis.pcall('hget', 'h').err",
            "ERR Wrong number of args calling Redis command from script",
        ),
        (
            "return redis.pcall('del', 'a', nil).err",
            "ERR Lua redis lib command arguments must be strings or integers",
        ),
        (
            "return redis.pcall('del', nil, 'a').err",
            "ERR Lua redis lib command arguments must be strings or integers",
        ),
        (
            "return redis.pcall('del', true).err",
            "ERR Lua redis lib command arguments must be strings or integers",
        ),
        (
            "return redis.pcall(1).err",
            "ERR Unknown Redis command called from script",
        ),
        (
            "redis.call('rpush', 'l', 1) return redis.pcall('get', 'l').err",
            "WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
    ] {
        assert_eq!(value(source), text(expected), "{source}");
    }
}

#[tokio::test(start_paused = true)]
async fn keys_and_arguments_are_apart_however_many_they_are() {
    static COUNT: Script = Script::new(
        "count",
        "return {#KEYS, #ARGV, KEYS[#KEYS] or '', ARGV[#ARGV] or ''}",
    );
    let mut vm = machine();
    for (keys, args) in [
        (0, 0),
        (0, 3),
        (2, 0),
        (3, 7),
        (7, 32),
        (8, 1),
        (1, 33),
        (300, 600),
    ] {
        for first in [&b"first"[..], b"\xff"] {
            let words = |count: usize, last| {
                let words = (1..count).map(|_| Bytes::from_static(first));
                words
                    .chain((count > 0).then_some(Bytes::from_static(last)))
                    .collect()
            };
            let call = Call {
                script: &COUNT,
                keys: words(keys, b"key"),
                args: words(args, b"arg"),
            };
            let counts = [keys, args].map(|count| Value::Int(i64::try_from(count).unwrap()));
            let lasts = [(keys, "key"), (args, "arg")];
            let lasts = lasts.map(|(count, last)| text(if count > 0 { last } else { "" }));
            let expected = Value::Array(counts.into_iter().chain(lasts).collect());
            assert_eq!(
                vm.eval(&call),
                Ok(expected),
                "{keys} keys, {args} arguments"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_may_be_long() {
    let long = "local reply = {} for i = 1, 20000 do reply[i] = i end return reply";
    let items = (1..=20_000).map(Value::Int).collect();
    assert_eq!(value(long), Value::Array(items));
}

#[tokio::test(start_paused = true)]
async fn helpers_are_made_once_and_count_as_lines() {
    static SCRIPT: Script = Script::with_helpers(
        "test",
        "local made = redis.call('incrby', 'made', 1)\nlocal function twice(n) return 2 * n end\n",
        "if ARGV[1] then error('x') end return {made, twice(2)} -- end",
    );
    let mut vm = machine();
    let call = |args: &[&'static str]| Call {
        script: &SCRIPT,
        keys: words![],
        args: args.iter().collect(),
    };
    for _ in 0..2 {
        let reply = vm.eval(&call(&[]));
        assert_eq!(reply, Ok(Value::Array(vec![Value::Int(1), Value::Int(4)])));
    }
    let error = vm.eval(&call(&["fail"])).unwrap_err().to_string();
    assert!(error.contains("user_script:3: x"), "{error}");
}
