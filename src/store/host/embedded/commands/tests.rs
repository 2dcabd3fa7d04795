//! One line per case, as an operator would type it, and what Redis 7.0 prints for it.

use std::collections::BTreeSet;

use super::{
    super::{
        engine::Engine,
        reply::{Refusal, Reply},
    },
    table::{COMMANDS, find},
};
use crate::host::embedded::clock::Clock;

/// Runs lines of the form `command => printed reply`; double quotes hold words with spaces, or with
/// nothing.
fn transcript(text: &str) {
    let mut engine = Engine::new(Clock::starting_at(1_000_000_500));
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (command, expected) = line.split_once(" => ").unwrap();
        assert_eq!(printed(&run(&mut engine, command)), expected, "{command}");
    }
}

fn run(engine: &mut Engine, command: &str) -> Result<Reply, Refusal> {
    let quoted = command.split('"').enumerate();
    let words = quoted.flat_map(|(place, part)| match place % 2 {
        0 => part.split_ascii_whitespace().collect(),
        _ => vec![part],
    });
    super::run(engine, &words.map(str::as_bytes).collect::<Vec<_>>())
}

fn printed(reply: &Result<Reply, Refusal>) -> String {
    match reply {
        Err(Refusal(text)) => format!("({text})"),
        Ok(Reply::Nil) => "nil".to_owned(),
        Ok(Reply::Int(number)) => number.to_string(),
        Ok(Reply::Status(status)) => (*status).to_owned(),
        Ok(Reply::Bytes(bytes)) => format!("'{}'", String::from_utf8_lossy(bytes)),
        Ok(Reply::Array(items)) => {
            let items: Vec<_> = items
                .iter()
                .map(|item| printed(&Ok(item.clone())))
                .collect();
            format!("[{}]", items.join(" "))
        }
    }
}

fn field(number: i32) -> String {
    format!("f{number}")
}

/// The fields that a scan returns, each of which is removed and added again meanwhile.
fn scanned(engine: &mut Engine, count: usize) -> BTreeSet<String> {
    let (mut found, mut cursor) = (BTreeSet::new(), "0".to_owned());
    loop {
        let page = run(engine, &format!("hscan h {cursor} count {count}")).unwrap();
        let Reply::Array(parts) = page else {
            panic!("{page:?}")
        };
        let [Reply::Bytes(next), Reply::Array(words)] = parts.as_slice() else {
            panic!("{parts:?}")
        };
        assert!(words.len() <= 2 * count, "{words:?}");
        for pair in words.chunks(2) {
            let [Reply::Bytes(name), _] = pair else {
                panic!("{pair:?}")
            };
            let name = String::from_utf8_lossy(name).into_owned();
            for command in ["hdel h", "hset h"] {
                let value = if command == "hset h" { " 1" } else { "" };
                run(engine, &format!("{command} {name}{value}")).unwrap();
            }
            assert!(found.insert(name), "none twice");
        }
        cursor = String::from_utf8_lossy(next).into_owned();
        if cursor == "0" {
            return found;
        }
    }
}

#[test]
fn the_table_is_sorted_and_found_in_any_case() {
    assert!(COMMANDS.is_sorted_by_key(|command| command.name));
    for command in &COMMANDS {
        let upper = command.name.to_ascii_uppercase();
        assert_eq!(
            find(upper.as_bytes()).map(|found| found.name),
            Some(command.name)
        );
    }
    assert!(find(b"").is_none());
    assert!(find(b"a name longer than any command has").is_none());
}

#[tokio::test(start_paused = true)]
async fn strings_and_keys() {
    transcript(
        r#"
        time => ['1000' '500']
        get a => nil
        set a "" => OK
        get a => ''
        set a 1 nx => nil
        set b 1 xx => nil
        set b 1 NX => OK
        set b 2 xx => OK
        set b 3 nx xx => (ERR syntax error)
        type b => string
        type c => none
        exists a b c a => 3
        unlink a c => 1
        exists a => 0
        hset h f v => 1
        get h => (WRONGTYPE Operation against a key holding the wrong kind of value)
        set h 1 => OK
        publish channel x => 0
        spublish channel x => 0
        "#,
    );
}

#[tokio::test(start_paused = true)]
async fn times_to_live() {
    transcript(
        r"
        pttl a => -2
        set a 1 => OK
        pttl a => -1
        persist a => 0
        set a 1 px 100 => OK
        pttl a => 100
        set a 1 keepttl => OK
        pttl a => 100
        set a 1 ex 2 => OK
        pttl a => 2000
        set a 1 px 0 => (ERR invalid expire time in 'set' command)
        set a 1 px x => (ERR value is not an integer or out of range)
        set a 1 px => (ERR syntax error)
        set a 1 px 1 ex 1 => (ERR syntax error)
        set a 1 px 1 px 7 => OK
        pttl a => 7
        set a 1 px 1 keepttl => (ERR syntax error)
        persist a => 1
        pttl a => -1
        pexpire a 50 gt => 0
        pexpire a 50 xx => 0
        pexpire a 50 lt => 1
        pexpire a 60 lt => 0
        pexpire a 60 nx => 0
        pexpire a 60 gt => 1
        pexpire a 1 gt lt => (ERR GT and LT options at the same time are not compatible)
        pexpire a 1 nx xx => (ERR NX and XX, GT or LT options at the same time are not compatible)
        pexpire a 1 foo => (ERR Unsupported option foo)
        pexpire a 9223372036854775807 => (ERR invalid expire time in 'pexpire' command)
        pexpire b 10 => 0
        pexpire a 0 => 1
        exists a => 0
        ",
    );
}

#[tokio::test(start_paused = true)]
async fn counters() {
    transcript(
        r#"
        incrby n 1 => 1
        incrby n 41 => 42
        decrby n 1 => 41
        decrby n 1 => 40
        pexpire n 100 => 1
        incrby n 1 => 41
        pttl n => 100
        incrby n x => (ERR value is not an integer or out of range)
        set n 9223372036854775807 => OK
        incrby n 1 => (ERR increment or decrement would overflow)
        decrby n -9223372036854775808 => (ERR decrement would overflow)
        set n " 1" => OK
        incrby n 1 => (ERR value is not an integer or out of range)
        hincrby h f 5 => 5
        hincrby h f -7 => -2
        hincrby h f x => (ERR value is not an integer or out of range)
        hset h f x => 0
        hincrby h f 1 => (ERR hash value is not an integer)
        incrby h 1 => (WRONGTYPE Operation against a key holding the wrong kind of value)
        hincrby n f 1 => (WRONGTYPE Operation against a key holding the wrong kind of value)
        "#,
    );
}

#[tokio::test(start_paused = true)]
async fn hashes() {
    transcript(
        r"
        hgetall h => []
        hset h b 1 a 2 b 3 => 2
        hset h b => (ERR wrong number of arguments for 'hset' command)
        hset h b 1 c => (ERR wrong number of arguments for 'hset' command)
        hgetall h => ['b' '3' 'a' '2']
        hscan h 0 => ['0' ['b' '3' 'a' '2']]
        hscan h 0 count 1 => ['0' ['b' '3' 'a' '2']]
        hscan none 0 count 1 => ['0' []]
        hscan h x => (ERR invalid cursor)
        hscan h 0 count 0 => (ERR syntax error)
        hget h a => '2'
        hget h x => nil
        hmget h a x b => ['2' nil '3']
        hmget none a => [nil]
        hexists h a => 1
        hexists h x => 0
        hlen h => 2
        hdel h a x => 1
        hdel h b => 1
        exists h => 0
        hdel h b => 0
        ",
    );
}

#[tokio::test(start_paused = true)]
async fn a_large_hash_stays_a_hash() {
    let mut engine = Engine::new(Clock::starting_at(0));
    for number in 0..300 {
        assert_eq!(
            printed(&run(&mut engine, &format!("hset h f{number} {number}"))),
            "1"
        );
    }
    assert_eq!(printed(&run(&mut engine, "hlen h")), "300");
    assert_eq!(printed(&run(&mut engine, "hget h f299")), "'299'");
    assert_eq!(printed(&run(&mut engine, "hset h f299 x")), "0");
    assert_eq!(scanned(&mut engine, 7), (0..300).map(field).collect());
    for number in 0..300 {
        assert_eq!(
            printed(&run(&mut engine, &format!("hdel h f{number}"))),
            "1"
        );
    }
    assert_eq!(printed(&run(&mut engine, "exists h")), "0");
}

#[tokio::test(start_paused = true)]
async fn lists() {
    transcript(
        r"
        rpush l b c => 2
        lpush l a z => 4
        lrange l 0 -1 => ['z' 'a' 'b' 'c']
        lrange l -2 100 => ['b' 'c']
        lrange l 3 2 => []
        lrange l 0 x => (ERR value is not an integer or out of range)
        lindex l 0 => 'z'
        lindex l -1 => 'c'
        lindex l 4 => nil
        lindex l -5 => nil
        llen l => 4
        lpop l => 'z'
        lpop l 0 => []
        lpop l -1 => (ERR value is out of range, must be positive)
        lpop l 1 1 => (ERR wrong number of arguments for 'lpop' command)
        lpop l 9 => ['a' 'b' 'c']
        exists l => 0
        lpop l => nil
        lpop l 1 => nil
        rpush l a b a b a => 5
        lrem l -1 a => 1
        lrange l 0 -1 => ['a' 'b' 'a' 'b']
        lrem l 1 a => 1
        lrange l 0 -1 => ['b' 'a' 'b']
        lrem l 0 b => 2
        lrem l 0 x => 0
        lrem l 0 a => 1
        exists l => 0
        ",
    );
}

#[tokio::test(start_paused = true)]
async fn sorted_sets() {
    transcript(
        r"
        zadd z 2 b 1 a 2 aa => 3
        zrange z 0 -1 withscores => ['a' '1' 'aa' '2' 'b' '2']
        zrevrange z 0 1 => ['b' 'aa']
        zrange z 0 1 foo => (ERR syntax error)
        zrangebyscore z -inf (2 => ['a']
        zrangebyscore z 2 3 withscores limit 0 1 => ['aa' '2']
        zrangebyscore z x 1 => (ERR min or max is not a float)
        zcard z => 3
        zcount z -inf (2 => 1
        zcount z 1 2 => 3
        zcount none 1 2 => 0
        zmscore z a x b => ['1' nil '2']
        zmscore none a => [nil]
        zscore z a => '1'
        zscore z x => nil
        zadd z 1.1 a => 0
        zscore z a => '1.1000000000000001'
        zadd z xx 5 a 6 new => 0
        zscore z new => nil
        zadd z gt 4 a => 0
        zscore z a => '5'
        zadd z 4 a => 0
        zadd z xx gt 6 a => 0
        zscore z a => '6'
        zadd z x a => (ERR value is not a valid float)
        zadd z 1 => (ERR wrong number of arguments for 'zadd' command)
        zadd z 1 a 2 => (ERR syntax error)
        zadd z inf a => 0
        zadd none xx 1 a => 0
        exists none => 0
        zrem z a aa x => 2
        zrem z b => 1
        exists z => 0
        ",
    );
}
