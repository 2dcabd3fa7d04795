//! `deploy/redis/`: servers that keep what they granted, and that nobody reaches by accident. That
//! real servers take the files is seen wherever tests start them.

use super::text;
use crate::expect_none;

const FILES: [&str; 3] = ["single", "sentinel-master", "cluster"];

/// What every server needs, and why is said beside it in the files.
const EXPECTED: [(&str, &str); 5] = [
    ("bind", "127.0.0.1 -::1"),
    ("protected-mode", "yes"),
    ("maxmemory-policy", "noeviction"),
    ("appendonly", "yes"),
    ("timeout", "0"),
];

#[test]
fn servers_keep_locks_and_let_nobody_in_by_accident() {
    let problems = FILES.iter().flat_map(|name| {
        let problems = problems(&text(&format!("deploy/redis/{name}.conf")));
        problems
            .into_iter()
            .map(move |it| format!("{name}.conf: {it}"))
    });
    expect_none(&problems.collect::<Vec<_>>());
}

#[test]
fn masters_with_two_replicas_stop_when_those_are_gone() {
    let text = text("deploy/redis/sentinel-master.conf");
    let value = |key| value(&text, key).and_then(|it| it.parse::<u32>().ok());
    assert!(value("min-replicas-to-write") >= Some(1));
    assert!(value("min-replicas-max-lag") <= Some(10));
}

fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
}

fn problems(text: &str) -> Vec<String> {
    let wrong = EXPECTED
        .iter()
        .filter(|(key, expected)| value(text, key) != Some(expected));
    wrong
        .map(|(key, expected)| format!("{key} is not {expected}"))
        .collect()
}

#[test]
fn a_server_that_may_forget_is_found() {
    let text = "bind 127.0.0.1 -::1\nprotected-mode yes\n# appendonly yes\nmaxmemory-policy \
        allkeys-lru\ntimeout 0\n";
    assert_eq!(
        problems(text),
        [
            "maxmemory-policy is not noeviction",
            "appendonly is not yes"
        ]
    );
}
