//! The page and the code say the same.

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use super::{grants, operations, stream};
use crate::machine::{
    operations::{FRAME_BYTES_MAX, RETRY_PAUSE},
    state::CLOSE_TIMEOUT,
    stream::{
        BACKOFF_MAX, BACKOFF_MIN, FIRST_PAUSE, LEAVE_TIMEOUT, OPEN_TIMEOUT, RESUME_TIMEOUT, State,
    },
};

fn page() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(root.join("../../clients/session-machine.md")).unwrap()
}

#[test]
fn the_machine_has_no_input_and_output_of_its_own() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("machine");
    let files = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    for path in files.filter(|path| path.extension().is_some_and(|it| it == "rs")) {
        let code = fs::read_to_string(&path).unwrap();
        let code = code.replace("use tokio::time::Instant;", "");
        for word in ["tokio", "Instant::now", "async ", "rand::rng"] {
            assert!(!code.contains(word), "{}: {word}", path.display());
        }
    }
}

/// The cells of the first table below a heading, without its head.
fn table(page: &str, heading: &str) -> Vec<Vec<String>> {
    let below = page.split_once(&format!("{heading}\n")).unwrap().1;
    let lines = below.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    let cells = |row: &str| {
        row.trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    rows.map(cells).collect()
}

/// Compares the rows of a table, named by their first cells, with those that tests drive.
fn compare(heading: &str, named_by: usize, driven: &[&str]) {
    let rows = table(&page(), heading);
    let rows: BTreeSet<_> = rows.iter().map(|row| row[..named_by].join(" | ")).collect();
    let driven: BTreeSet<_> = driven.iter().map(|row| (*row).to_owned()).collect();
    let untested: Vec<_> = rows.difference(&driven).collect();
    assert!(
        untested.is_empty(),
        "{heading}: no test drives {untested:?}"
    );
    let unknown: Vec<_> = driven.difference(&rows).collect();
    assert!(unknown.is_empty(), "{heading}: the page lacks {unknown:?}");
}

#[test]
fn every_row_has_a_test_and_every_test_a_row() {
    compare("### The stream", 2, stream::ROWS);
    compare("### Operations", 1, operations::ROWS);
    compare("### Grants", 1, grants::ROWS);
}

#[test]
fn the_states_are_those_of_the_page() {
    // A new state has to be named here.
    let name = |state: &State| match state {
        State::Up { .. } => "`Up`",
        State::Down { .. } => "`Down`",
        State::Opening { .. } => "`Opening`",
        State::Ended { .. } => "`Ended`",
    };
    let now = tokio::time::Instant::now();
    let states = [
        State::Up {
            heard_at: now,
            is_pinged: false,
            leave_at: None,
            is_closing: false,
        },
        State::Down { retry_at: now },
        State::Opening {
            sent_at: now,
            deadline: now,
        },
        State::Ended { why: String::new() },
    ];
    let rows = table(&page(), "## State");
    let rows: Vec<_> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(rows, states.iter().map(name).collect::<Vec<_>>());
}

#[test]
fn the_constants_are_those_of_the_page() {
    let words = |time: Duration| match time.subsec_millis() {
        0 => format!("{} s", time.as_secs()),
        millis => format!("{millis} ms"),
    };
    let known = [
        ("`OPEN_TIMEOUT`", vec![OPEN_TIMEOUT]),
        ("`RESUME_TIMEOUT`", vec![RESUME_TIMEOUT]),
        ("`FIRST_PAUSE`", vec![FIRST_PAUSE]),
        ("`BACKOFF`", vec![BACKOFF_MIN, BACKOFF_MAX]),
        ("`LEAVE_TIMEOUT`", vec![LEAVE_TIMEOUT]),
        ("`RETRY_PAUSE`", vec![RETRY_PAUSE]),
        ("`CLOSE_TIMEOUT`", vec![CLOSE_TIMEOUT]),
    ];
    let rows = table(&page(), "## Constants");
    // `lease` and two intervals come from the coordinator; `FRAME_MAX` is no time.
    assert_eq!(rows.len(), known.len() + 3 + 1);
    let frame = rows.iter().find(|row| row[0] == "`FRAME_MAX`").unwrap();
    assert!(frame[1].starts_with("1 MiB") && FRAME_BYTES_MAX == 1 << 20);
    for (name, times) in known {
        let row = rows.iter().find(|row| row[0] == name);
        let value = &row.unwrap_or_else(|| panic!("the page lacks {name}"))[1];
        for time in times.into_iter().map(words) {
            assert!(value.contains(&time), "{name} is {value}, not {time}");
        }
    }
}
