//! The documents: their links lead somewhere, and what they list is what the source has.

use std::collections::BTreeSet;

use crate::{
    expect_none,
    source::{File, exists, text, tree},
};

/// Folders whose files documents name in code type.
const FOLDERS: [&str; 7] = [
    "src/", "lua/", "proto/", "tests/", "docs/", "deploy/", "scripts/",
];

#[test]
fn links_lead_somewhere() {
    let documents = documents();
    let problems = documents.iter().flat_map(|file| {
        let broken = links(&file.text)
            .into_iter()
            .filter(|link| !leads_somewhere(file, link, &documents));
        broken
            .map(|link| format!("{}: nothing at {link}", file.path))
            .collect::<Vec<_>>()
    });
    expect_none(&problems.collect::<Vec<_>>());
}

#[test]
fn files_that_documents_name_exist() {
    let documents = documents();
    let problems = documents.iter().flat_map(|file| {
        let missing = named_files(&file.text)
            .into_iter()
            .filter(|path| !exists(path));
        missing
            .map(|path| format!("{}: names {path}, which does not exist", file.path))
            .collect::<Vec<_>>()
    });
    expect_none(&problems.collect::<Vec<_>>());
}

#[test]
fn the_walk_of_an_acquire_is_as_short_as_it_says() {
    let document = text("ARCHITECTURE.md");
    let steps: Vec<(&str, &str)> = document.lines().filter_map(step).collect();
    let missing = steps.iter().filter(|(path, function)| {
        let source = text(path);
        ["(", "<"]
            .iter()
            .all(|it| !source.contains(&format!("fn {function}{it}")))
    });
    let problems: Vec<_> = missing
        .map(|(path, function)| format!("{path}: has no function {function}"))
        .collect();
    expect_none(&problems);
    assert!((3..=8).contains(&steps.len()), "{steps:?}");
}

/// A line of the walk: a number, a file, and a function in it.
fn step(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once(". `")?;
    let (path, rest) = rest.split_once("`: `")?;
    path.starts_with("src/")
        .then_some((path, rest.split_once('`')?.0))
}

#[test]
fn tests_that_documents_name_exist() {
    let sources = tree().into_iter().filter(|file| file.extension() == "rs");
    let sources: String = sources.map(|file| file.text).collect();
    let problems = documents().into_iter().flat_map(|file| {
        let missing = named_tests(&file.text)
            .into_iter()
            .filter(|name| !sources.contains(&format!("fn {name}(")));
        missing
            .map(|name| format!("{}: there is no test {name}", file.path))
            .collect::<Vec<_>>()
    });
    expect_none(&problems.collect::<Vec<_>>());
}

#[test]
fn every_setting_is_documented_with_its_default() {
    let example = text("deploy/config.example.toml");
    let problems = undocumented_settings(&example, &text("docs/configuration.md"));
    expect_none(&problems);
}

#[test]
fn every_exit_code_is_documented() {
    let codes = exit_codes(&text("src/cli/exit.rs"));
    assert!(codes.len() > 5, "{codes:?}");
    let document = text("docs/cli.md");
    let missing = codes
        .iter()
        .filter(|code| !document.contains(&format!("| {code} |")));
    expect_none(
        &missing
            .map(|code| format!("docs/cli.md: exit code {code} is missing"))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn every_reason_is_documented() {
    let reasons = reasons(&File::new(
        "src/server/grpc/status.rs",
        &text("src/server/grpc/status.rs"),
    ));
    assert!(reasons.len() > 5, "{reasons:?}");
    let page = "docs/guarantees/errors.md";
    let document = text(page);
    let missing = reasons
        .iter()
        .filter(|reason| !document.contains(&format!("`{reason}`")));
    expect_none(
        &missing
            .map(|reason| format!("{page}: {reason} is missing"))
            .collect::<Vec<_>>(),
    );
}

/// Commands that the coordinator sends itself.
const SENT: [&str; 21] = [
    "restore",
    "exec",
    "hello",
    "client|setname",
    "ping",
    "info",
    "role",
    "select",
    "scan",
    "script|load",
    "config|get",
    "evalsha",
    "eval",
    "publish",
    "subscribe",
    "unsubscribe",
    "wait",
    "unwatch",
    "set",
    "multi",
    "discard",
];

#[test]
fn the_documented_permissions_are_what_the_scripts_need() {
    let document = text("docs/configuration/store.md");
    let from = document.find("ACL SETUSER").expect("it shows one");
    let shown = document[from..].split("```").next().unwrap_or_default();
    let shown = shown.split_whitespace();
    let shown: BTreeSet<&str> = shown.filter_map(|word| word.strip_prefix('+')).collect();
    let scripts = tree().into_iter();
    let scripts: String = scripts
        .filter(|file| file.extension() == "lua")
        .map(|file| file.text)
        .collect();
    let called = scripts.split("redis.call('").skip(1);
    let called = called.filter_map(|rest| rest.split('\'').next());
    let needed: BTreeSet<&str> = called.chain(SENT).collect();
    assert_eq!(shown, needed);
    // And each of those that scripts call is looked at when the server is reached.
    let tried = text("src/store/host/redis/rights.rs").to_ascii_lowercase();
    let untried = needed.iter().filter(|it| !SENT.contains(it));
    let untried: Vec<_> = untried
        .filter(|command| !tried.contains(&format!("&[\"{command}\"")))
        .collect();
    assert!(untried.is_empty(), "{untried:?} are not tried");
}

fn documents() -> Vec<File> {
    tree()
        .into_iter()
        .filter(|file| file.extension() == "md")
        .collect()
}

/// A document without its blocks of code.
fn prose(text: &str) -> String {
    let mut in_code = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Targets of links, without those to other hosts.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let targets = prose
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', ' ', '\n']).next());
    targets
        .filter(|it| !it.contains("://") && !it.starts_with("mailto:"))
        .map(str::to_owned)
        .collect()
}

fn leads_somewhere(file: &File, link: &str, documents: &[File]) -> bool {
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let path = if path.is_empty() {
        file.path.clone()
    } else {
        resolve(&file.path, path)
    };
    let has_heading = || {
        let target = documents.iter().find(|document| document.path == path);
        target.is_some_and(|target| headings(&target.text).contains(heading))
    };
    exists(&path) && (heading.is_empty() || has_heading())
}

/// A path from the root, for one that is relative to a file.
fn resolve(file: &str, path: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Headings as links name them.
fn headings(text: &str) -> BTreeSet<String> {
    let prose = prose(text);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let slug = |heading: &str| -> String {
        let kept = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = kept
            .chars()
            .filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
        kept.map(|letter| if letter == ' ' { '-' } else { letter })
            .collect()
    };
    headings.map(slug).collect()
}

/// What stands in code type.
fn code_words(text: &str) -> Vec<String> {
    let prose = prose(text);
    let lines = prose
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    lines.map(str::to_owned).collect()
}

/// Files of the tree in code type, without patterns.
fn named_files(text: &str) -> Vec<String> {
    let words = code_words(text).into_iter();
    let is_file = |word: &String| {
        FOLDERS.iter().any(|folder| word.starts_with(folder))
            && !word.contains(['*', '<', '{', ' ', ':'])
    };
    words.filter(is_file).collect()
}

/// Names of tests in code type: long identifiers, which nothing else is.
fn named_tests(text: &str) -> Vec<String> {
    let is_test = |word: &String| {
        let identifier = word
            .chars()
            .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_');
        identifier && word.matches('_').count() >= 5
    };
    code_words(text).into_iter().filter(is_test).collect()
}

fn undocumented_settings(example: &str, document: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut section = "";
    for line in example.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if let Some((key, value)) = line.split_once(" = ").filter(|_| !line.starts_with('#'))
        {
            let (key, value) = (format!("`{section}.{key}`"), value.trim_matches('"'));
            let row = document
                .lines()
                .find(|row| row.starts_with(&format!("| {key} |")));
            if !row.is_some_and(|row| value.is_empty() || row.contains(&format!("| `{value}` |"))) {
                problems.push(format!(
                    "docs/configuration.md: no row for {key} with the default {value}"
                ));
            }
        }
    }
    problems
}

fn exit_codes(source: &str) -> BTreeSet<u8> {
    let values = source
        .lines()
        .filter_map(|line| line.strip_prefix("pub const ")?.split_once(": u8 = "));
    values
        .map(|(_, value)| value.trim_end_matches(';').parse().unwrap())
        .collect()
}

/// Texts in capitals.
fn reasons(file: &File) -> BTreeSet<String> {
    let literals = file.shipped().literals.into_iter();
    let is_reason = |text: &String| {
        text.len() > 3
            && text
                .chars()
                .all(|letter| letter.is_ascii_uppercase() || letter == '_')
            && !text.ends_with('_')
    };
    literals.filter(is_reason).collect()
}

#[test]
fn a_broken_link_is_found() {
    let text = "# The Top\n[a](b.md#x-y) `c` [d](https://e/f) [g](#the-top)\n```\n[h](i)\n```\n";
    let file = File::new("docs/a.md", text);
    assert_eq!(links(text), ["b.md#x-y", "#the-top"]);
    assert_eq!(resolve("docs/a.md", "../lua/b.md"), "lua/b.md");
    assert!(leads_somewhere(
        &File::new("README.md", ""),
        "Cargo.toml",
        &[]
    ));
    assert!(!leads_somewhere(&file, "Cargo.toml", &[]));
    assert!(!leads_somewhere(
        &File::new("README.md", ""),
        "README.md#nowhere",
        &[file]
    ));
    assert!(headings("## What `x` is, and why").contains("what-x-is-and-why"));
}

#[test]
fn a_file_and_a_test_that_do_not_exist_are_found() {
    let text =
        "See `src/nothing.rs`, `lua/*.lua` and `lost_locks_are_told_of_in_time`, not `request_id`.";
    assert_eq!(named_files(text), ["src/nothing.rs"]);
    assert_eq!(named_tests(text), ["lost_locks_are_told_of_in_time"]);
    assert!(!exists("src/nothing.rs"));
}

#[test]
fn an_undocumented_setting_code_or_reason_is_found() {
    let example = "[a]\n# b = 1\nc = \"1s\"\nd = 2\n";
    let document = "| `a.c` | `1s` | x |\n| `a.d` | `3` | x |\n";
    assert_eq!(undocumented_settings(example, document).len(), 1);
    assert!(
        exit_codes("pub const A: u8 = 64;\nconst B: u8 = 1;\n")
            .iter()
            .eq([&64])
    );
    let source = File::new(
        "a.rs",
        "plain(\"NOT_OWNER\", \"state\", \"INVALID_\"); // \"NO\"\n",
    );
    assert!(reasons(&source).iter().eq(["NOT_OWNER"]));
}
