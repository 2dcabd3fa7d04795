//! What must not break and what no compiler checks: the arrows between the layers, the form of the
//! scripts, what the documents say, and that every line of the list of promises, and every test in
//! the table of Redisson's, has a test. Each check reads the tree; each matcher has a test that it
//! can fail.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint does not take for tests"
)]

#[path = "tidy/source.rs"]
mod source;

#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/client_tree.rs"]
mod client_tree;
#[path = "tidy/deploy/mod.rs"]
mod deploy;
#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/layers.rs"]
mod layers;
#[path = "tidy/lua.rs"]
mod lua;
#[path = "tidy/mission.rs"]
mod mission;
#[path = "tidy/observability.rs"]
mod observability;
#[path = "tidy/redisson.rs"]
mod redisson;
#[path = "tidy/release.rs"]
mod release;
#[path = "tidy/width.rs"]
mod width;

use source::{File, tree};

/// Parts of paths that exist on one machine only; put together here, so that this file does not
/// contain them.
const PLACES: [&str; 5] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
    concat!("/tmp", "/w/"),
];

/// Fails with every problem at once.
fn expect_none(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn every_source_file_says_what_it_is_for() {
    let silent = |file: &&File| match file.extension() {
        "rs" => {
            let by_hand = !file.is_tests() && !file.path.contains("/generated/");
            by_hand && !file.text.starts_with("//!")
        }
        "lua" => !file.text.starts_with("-- "),
        "py" => !file
            .text
            .lines()
            .take(2)
            .any(|line| line.trim_start_matches('r').starts_with("\"\"\"")),
        _ => false,
    };
    let files = tree();
    let problems = files.iter().filter(silent);
    let problems: Vec<_> = problems
        .map(|file| {
            format!(
                "{}: begins without a comment that says what it is for",
                file.path
            )
        })
        .collect();
    expect_none(&problems);
}

#[test]
fn no_file_names_a_place_on_one_machine() {
    let problems: Vec<_> = tree().iter().flat_map(places).collect();
    expect_none(&problems);
}

fn places(file: &File) -> Vec<String> {
    let lines = file.text.lines().zip(1..);
    let found = lines.filter(|(line, _)| PLACES.iter().any(|place| line.contains(place)));
    found
        .map(|(_, at)| format!("{}:{at}: a path of one machine", file.path))
        .collect()
}

#[test]
fn a_place_on_one_machine_is_found() {
    let text = format!("see /usr/bin/env\nand {}me/notes\n", PLACES[0]);
    assert_eq!(
        places(&File::new("a.md", &text)),
        ["a.md:2: a path of one machine"]
    );
}
