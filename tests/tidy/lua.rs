//! The scripts: their headers, their size, and that the catalogue has them all.

use std::collections::BTreeSet;

use crate::{
    expect_none,
    source::{File, tree},
};

const CATALOGUE: &str = "src/store/script/catalog.rs";
const LINES_MAX: usize = 110;

/// What a header says after the purpose, in this order.
const HEADINGS: [&str; 4] = ["-- KEYS: ", "-- ARGV: ", "-- Returns: ", "-- Publishes: "];

/// The key of a note as `lib/note.lua` makes it, where a script does without the helpers.
const NOTE_KEY: &str = "'lockkeeper_note' .. string.sub(counter, #'redisson_lock_token' + 1)";

#[test]
fn every_script_says_what_it_takes_and_gives() {
    let files = scripts();
    assert!(!files.is_empty(), "there are no scripts");
    let problems: Vec<_> = files.iter().flat_map(header_problems).collect();
    expect_none(&problems);
}

#[test]
fn the_catalogue_has_every_script_and_every_helper() {
    let files = tree();
    let catalogue = files.iter().find(|file| file.path == CATALOGUE).unwrap();
    let below = |folder: &str| -> BTreeSet<String> {
        let inside = files
            .iter()
            .filter_map(|file| file.path.strip_prefix(folder)?.strip_suffix(".lua"));
        inside
            .filter(|name| !name.contains('/'))
            .map(str::to_owned)
            .collect()
    };
    let (named, helpers) = catalogued(&catalogue.text);
    assert_eq!(
        named,
        below("lua/"),
        "scripts in the catalogue, and files in lua/"
    );
    assert_eq!(
        helpers,
        below("lua/lib/"),
        "helpers in the catalogue, and files in lua/lib/"
    );
    expect_none(&missing_from_all(&catalogue.text));
}

fn scripts() -> Vec<File> {
    tree()
        .into_iter()
        .filter(|file| file.extension() == "lua")
        .collect()
}

fn header_problems(file: &File) -> Vec<String> {
    let mut problems = Vec::new();
    let mut problem = |what: &str| problems.push(format!("{}: {what}", file.path));
    if file.text.lines().count() > LINES_MAX {
        problem("is too long");
    }
    let header: Vec<_> = file
        .text
        .lines()
        .take_while(|line| line.starts_with("--"))
        .collect();
    if header
        .first()
        .is_none_or(|purpose| purpose.split_whitespace().count() < 4)
    {
        problem("does not begin with its purpose");
    }
    if file.path.starts_with("lua/lib/") {
        return problems;
    }
    let mut rest = header.iter();
    for heading in HEADINGS {
        if !rest.any(|line| line.starts_with(heading)) {
            problem(&format!("its header has no `{heading}` in its place"));
            break;
        }
    }
    let text = file.text.replace(NOTE_KEY, "");
    if text.contains("redisson_") || text.contains("lockkeeper_") {
        problem("builds the name of a key");
    }
    problems
}

/// The names of the scripts, and of the helpers that they have in front.
fn catalogued(text: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut scripts, mut helpers) = (BTreeSet::new(), BTreeSet::new());
    for call in text.split("script!(").skip(1) {
        let mut names = call
            .split(')')
            .next()
            .unwrap_or_default()
            .split('"')
            .skip(1)
            .step_by(2);
        scripts.extend(names.next().map(str::to_owned));
        helpers.extend(names.map(str::to_owned));
    }
    (scripts, helpers)
}

/// Hosts load and test what is in `ALL`.
fn missing_from_all(text: &str) -> Vec<String> {
    let (statics, all) = text.split_once(" ALL: ").unwrap();
    let names = statics
        .split("pub static ")
        .skip(1)
        .filter_map(|rest| rest.split_once(": Script"));
    let missing = names.filter(|(name, _)| !all.contains(&format!("&{name},")));
    missing
        .map(|(name, _)| format!("{CATALOGUE}: {name} is not in ALL"))
        .collect()
}

#[test]
fn a_bad_header_is_found() {
    let good = "-- Takes a lock away.\n--\n-- KEYS: 1 lock\n-- ARGV: none\n-- Returns: {1}\n-- \
        Publishes: nothing\n\nreturn {1}\n";
    let problems = |text: &str| header_problems(&File::new("lua/x.lua", text));
    assert_eq!(problems(good), Vec::<String>::new());
    for (heading, with) in [
        ("-- KEYS:", "-- Keys:"),
        ("-- Publishes:", "--"),
        ("-- Takes a lock away.", "-- x"),
    ] {
        assert_eq!(problems(&good.replace(heading, with)).len(), 1, "{heading}");
    }
    assert_eq!(
        problems(&format!("{good}local key = 'redisson_x:' .. KEYS[1]\n")).len(),
        1
    );
    assert_eq!(
        problems(&format!("{good}{}", "\n".repeat(LINES_MAX))).len(),
        1
    );
}

#[test]
fn a_script_that_is_not_in_the_catalogue_is_found() {
    let text = "/// A.\npub static A: Script = script!(\"a\", \"lib\");\npub static B: Script = \
        script!(\"b\");\n/// All.\npub static ALL: [&Script; 1] = [\n    &A,\n];\n";
    let (scripts, helpers) = catalogued(text);
    assert!(scripts.iter().eq(["a", "b"]) && helpers.iter().eq(["lib"]));
    assert_eq!(
        missing_from_all(text),
        [format!("{CATALOGUE}: B is not in ALL")]
    );
}

/// Commands whose work grows with what is in a key, which a tenant or another program may have
/// made large; and with which words they have a bound.
const UNBOUNDED: [(&str, &[&str]); 19] = [
    ("hgetall", &[]),
    ("hkeys", &[]),
    ("hvals", &[]),
    ("hrandfield", &[]),
    ("hscan", &["'count'"]),
    ("keys", &[]),
    ("scan", &[]),
    ("lpos", &[]),
    ("lrange", &["- 1", "-most"]),
    ("smembers", &[]),
    ("sort", &[]),
    ("sscan", &["'count'"]),
    ("zrange", &["'limit'", "0, 0"]),
    ("zrangebylex", &["'limit'"]),
    ("zrangebyscore", &["'limit'"]),
    ("zrevrange", &["0, 0"]),
    ("zrevrangebyscore", &["'limit'"]),
    ("zremrangebyscore", &[]),
    ("zremrangebyrank", &[]),
];

/// Commands that free what a key holds at once, however much that is. `DEL` is only for keys that
/// are small whatever a tenant does.
const SMALL: [&str; 8] = [
    "'del', record)",
    "'del', key)",
    "'del', KEYS[1])",
    "'del', lock)",
    "'del', lock, note_key(counter))",
    "'del', newest)",
    "'del', newest, note)",
    "'del', latch, kind)",
];

#[test]
fn every_script_has_a_bound() {
    let problems: Vec<_> = scripts().iter().flat_map(unbounded).collect();
    expect_none(&problems);
}

fn unbounded(file: &File) -> Vec<String> {
    let mut problems = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        let code = line.split("--").next().unwrap_or_default();
        for call in code.split("call('").skip(1) {
            let (command, rest) = call.split_once('\'').unwrap_or((call, ""));
            let bounds = UNBOUNDED.iter().find(|(name, _)| *name == command);
            let has_bound = |bounds: &[&str]| bounds.iter().any(|bound| rest.contains(bound));
            let freed = command == "del" && !SMALL.iter().any(|it| code.contains(it));
            if bounds.is_some_and(|(_, bounds)| !has_bound(bounds)) || freed {
                problems.push(format!(
                    "{}:{}: {command} has no bound",
                    file.path,
                    number + 1
                ));
            }
        }
    }
    problems
}

#[test]
fn a_script_without_a_bound_is_found() {
    let problems = |text: &str| unbounded(&File::new("lua/x.lua", text)).len();
    for bad in [
        "redis.call('hgetall', lock)",
        "redis.pcall('hgetall', lock)",
        "redis.call('hscan', lock, '0')",
        "redis.call('lrange', q.queue, 0, -1)",
        "redis.call('zrange', q.vouched, 0, -1)",
        "redis.call('zrangebyscore', leases, '-inf', now)",
        "redis.call('smembers', lock)",
        "redis.call('keys', 'x')",
        "redis.call('del', lock, readers)",
    ] {
        assert_eq!(problems(bad), 1, "{bad}");
    }
    for good in [
        "redis.call('hscan', lock, '0', 'count', 10)",
        "redis.call('lrange', q.queue, 0, max - 1)",
        "redis.call('zrangebyscore', leases, '-inf', now, 'limit', 0, CHUNK)",
        "redis.call('del', lock)",
        "-- redis.call('hgetall', lock)",
    ] {
        assert_eq!(problems(good), 0, "{good}");
    }
}
