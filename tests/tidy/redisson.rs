//! The table of Redisson's tests, an appendix of docs/redisson.md: every test of ours that it names
//! exists, and none of those written for it is left out.

use std::collections::BTreeSet;

use crate::{
    expect_none,
    mission::is_test,
    source::{File, Rust, tree},
};

const PAGE: &str = "docs/redisson/tests.md";

/// What stands over the tables.
const HEADING: &str = "\n## Redisson's tests, and ours\n";

/// One line of a table.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    theirs: String,
    /// As `cargo test --test it` takes them; `process::` and `interop::` stand before those of
    /// other tiers.
    ours: Vec<String>,
    remark: String,
}

#[test]
fn every_test_in_the_table_of_redissons_tests_exists() {
    let files = tree();
    let tests = tests(&files);
    let rows = table(&files);
    assert!(rows.len() > 100, "only {} rows", rows.len());
    let problems = rows.iter().flat_map(|row| {
        let missing = row.ours.iter().filter(|name| !tests.contains(*name));
        missing.map(|name| format!("{PAGE}: {}: there is no test {name}", row.theirs))
    });
    expect_none(&problems.collect::<Vec<_>>());
}

#[test]
fn every_row_of_the_table_says_what_it_means() {
    let rows = table(&tree());
    let problems = rows.iter().filter(|row| {
        row.remark.is_empty() || (row.ours.is_empty() && row.remark.starts_with("same"))
    });
    let problems: Vec<_> = problems
        .map(|row| format!("{PAGE}: {}: neither a test nor a reason", row.theirs))
        .collect();
    expect_none(&problems);
}

#[test]
fn every_test_written_for_the_table_stands_in_it() {
    let files = tree();
    let named: BTreeSet<_> = table(&files).into_iter().flat_map(|row| row.ours).collect();
    let written = tests(&files);
    let left_out = written
        .iter()
        .filter(|name| name.starts_with("redisson::") && !named.contains(*name));
    let problems: Vec<_> = left_out
        .map(|name| format!("{PAGE}: {name} is left out"))
        .collect();
    expect_none(&problems);
}

fn table(files: &[File]) -> Vec<Row> {
    let document = files.iter().find(|file| file.path == PAGE);
    rows(&document.unwrap().text)
}

/// The rows of the tables below the heading.
fn rows(text: &str) -> Vec<Row> {
    let below = text.split(HEADING).nth(1).unwrap_or_default();
    let lines = below.lines().filter_map(|line| line.strip_prefix("| "));
    let rows = lines.map(|line| {
        let mut cells = line.trim_end_matches('|').split('|').map(str::trim);
        let mut cell = || cells.next().unwrap_or_default().to_owned();
        (cell(), cell(), cell())
    });
    let named = |cell: &str| {
        cell.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    };
    rows.filter(|(_, ours, _)| ours != "Ours")
        .map(|(theirs, ours, remark)| Row {
            ours: named(&ours),
            theirs,
            remark,
        })
        .collect()
}

/// The paths of the test functions of the tiers.
fn tests(files: &[File]) -> BTreeSet<String> {
    let tiers = [
        ("tests/it/", ""),
        ("tests/process/", "process::"),
        ("tests/interop/", "interop::"),
    ];
    let mut found = BTreeSet::new();
    for (folder, tier) in tiers {
        for file in files {
            let Some(module) = file
                .path
                .strip_prefix(folder)
                .and_then(|path| path.strip_suffix(".rs"))
            else {
                continue;
            };
            let module = module.trim_end_matches("/mod").replace('/', "::");
            let names = test_functions(&Rust::parse(&file.text).code);
            found.extend(names.iter().map(|name| format!("{tier}{module}::{name}")));
        }
    }
    found
}

fn test_functions(code: &str) -> Vec<String> {
    let functions = code
        .match_indices("fn ")
        .filter(|(at, _)| is_test(&code[..*at]));
    functions
        .map(|(at, _)| {
            code[at + 3..]
                .split('(')
                .next()
                .unwrap_or_default()
                .to_owned()
        })
        .collect()
}

#[test]
fn rows_and_tests_are_read() {
    let text = "| `a` | b | c |\n## Redisson's tests, and ours\n| Theirs | Ours | |\n\
        |---|---|---|\n| `testX`, `testY` | `redisson::lock::x`, `process::y::z` | same |\n| \
        `testZ` | | none |\n";
    let read = rows(text);
    assert_eq!(read.len(), 2);
    assert_eq!(read[0].ours, ["redisson::lock::x", "process::y::z"]);
    assert_eq!((read[1].ours.len(), read[1].remark.as_str()), (0, "none"));
    let files = [
        File::new("tests/it/a/mod.rs", "#[test]\nfn b() {}\nfn helper() {}\n"),
        File::new("tests/process/c.rs", "#[tokio::test]\nasync fn d() {}\n"),
        File::new("src/e.rs", "#[test]\nfn f() {}\n"),
    ];
    assert!(tests(&files).iter().eq(["a::b", "process::c::d"]));
}
