use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::runner::results::{Options, Outcome, Round};

fn results(rounds: &[&[(&str, Value)]]) -> Results {
    let rounds = rounds.iter().map(|round| {
        let measured = round
            .iter()
            .map(|(name, printed)| ((*name).to_owned(), Outcome::Measured(printed.clone())));
        Round(measured.collect())
    });
    Results {
        machine: Machine {
            processor: "Some CPU".to_owned(),
            versions: BTreeMap::from([("Redis".to_owned(), "7.0".to_owned())]),
            ..Machine::default()
        },
        options: Options {
            rounds: 2,
            seconds: 5.0,
            warm_up_seconds: 2.0,
            watched_grants: 100_000,
            watch_seconds: 15.0,
            blocked_streams: 100_000,
        },
        missing: BTreeMap::new(),
        rounds: rounds.collect(),
    }
}

fn operations(per_second: f64) -> Value {
    json!({ "operations_per_second": per_second, "per_second": { "pairs": per_second / 2.0 } })
}

fn line<'a>(text: &'a str, beginning: &str) -> &'a str {
    let mut lines = text.lines();
    let found = lines.find(|line| line.starts_with(beginning));
    found.unwrap_or_else(|| panic!("no line begins with {beginning} in\n{text}"))
}

#[test]
fn a_row_has_the_median_of_the_ratios_of_the_rounds_and_not_the_ratio_of_medians() {
    let text = write(&results(&[
        &[
            ("embedded-64", operations(80.0)),
            ("bare-rpc-64", operations(100.0)),
        ],
        &[
            ("embedded-64", operations(90.0)),
            ("bare-rpc-64", operations(100.0)),
        ],
        &[
            ("embedded-64", operations(9.5)),
            ("bare-rpc-64", operations(10.0)),
        ],
    ]));
    let row = line(&text, "| `TryAcquire`, embedded store");
    assert!(
        row.contains("| 0.900 (0.800 to 0.950) | at least 0.85 | yes |"),
        "{row}"
    );
}

#[test]
fn a_goal_that_was_missed_is_told() {
    let text = write(&results(&[&[
        ("native-frames-256", operations(60.0)),
        ("rslock-256", operations(100.0)),
    ]]));
    let row = line(&text, "| pairs as frames with native commands");
    assert!(
        row.contains("| 0.600 (0.600 to 0.600) | at least 0.7 | **no** |"),
        "{row}"
    );
}

#[test]
fn what_is_missing_is_named_where_its_figure_would_stand() {
    let mut results = results(&[&[("handover-64", operations(1.0))]]);
    let why = "etcd-server is not installed".to_owned();
    results.missing.insert("etcd".to_owned(), why);
    let text = write(&results);
    let row = line(
        &text,
        "| hand-overs of one lock, 64 waiters, frames with native commands, against etcd",
    );
    assert!(
        row.contains("| not measured | at least 20 | etcd is missing |"),
        "{row}"
    );
    assert!(text.contains("Not measured: **etcd**, because etcd-server is not installed."));
}

#[test]
fn a_round_that_failed_is_told_and_does_not_count() {
    let measured: &[(&str, Value)] = &[
        ("embedded-64", operations(90.0)),
        ("bare-rpc-64", operations(100.0)),
    ];
    let mut results = results(&[measured, measured]);
    let void = Outcome::Failed("void: two held it".to_owned());
    results.rounds[1].0.insert("embedded-64".to_owned(), void);
    let text = write(&results);
    let row = line(&text, "| `TryAcquire`, embedded store");
    assert!(
        row.contains("0.900 (0.900 to 0.900), 1 of 2 rounds"),
        "{row}"
    );
    assert!(text.contains("Failed: round 2, embedded-64: void: two held it"));
}

#[test]
fn machine_and_settings_are_told() {
    let text = write(&results(&[&[]]));
    assert!(text.contains("Some CPU"));
    assert!(text.contains("- Redis: 7.0"));
    assert!(text.contains("- `limits.connection_streams_max` = 100000, while streams are blocked"));
    assert!(text.contains("- `store.native_commands` = true, with native commands"));
}

#[test]
fn processor_time_stands_behind_the_latencies_and_is_empty_where_there_is_none() {
    let with = |processor_us: Value| {
        let mut printed = operations(100.0);
        printed["processor_us"] = processor_us;
        printed
    };
    let text = write(&results(&[&[
        ("frames-256", with(json!({ "server": 12.34, "redis": 5.0 }))),
        ("rslock-256", with(json!({ "redis": 3.0 }))),
        ("bare-frames-256", with(json!({ "server": 1.25 }))),
        ("churn", json!({ "per_second": { "sessions": 1.0 } })),
    ]]));
    let ends = |beginning, end| {
        let row = line(&text, beginning);
        assert!(row.ends_with(end), "{row}");
    };
    ends(
        "| what | on |",
        "| coordinator or server, µs each | Redis, µs each |",
    );
    ends(
        "| `TryAcquire` and `Release`, frames, 256",
        "| 12.3 | 5.0 |",
    );
    ends("| rslock, lock and unlock, 256", "|  | 3.0 |");
    ends("| the bare server, frames, 256", "| 1.2 |  |");
    ends("| 10,000 sessions", "|  |  |");
}

#[test]
fn a_table_has_as_many_cells_in_each_row() {
    let text = write(&results(&[&[("frames-256", operations(1.0))]]));
    let lines: Vec<&str> = text.lines().collect();
    let cells = |line: &str| line.matches('|').count();
    for (at, line) in lines.iter().enumerate().skip(1) {
        if line.starts_with('|') && lines[at - 1].starts_with('|') {
            assert_eq!(cells(line), cells(lines[at - 1]), "{line}");
        }
    }
}

#[test]
fn what_is_kept_beside_the_code_is_what_the_document_in_the_tree_has() {
    let checked_in = include_str!("../../../../docs/performance.md");
    assert!(
        checked_in.contains(INSTRUCTIONS),
        "docs/performance.md was edited, or instructions.md was: make them the same again"
    );
}

#[test]
fn a_line_of_progress_has_rate_and_latency() {
    let printed = json!({
        "operations_per_second": 41_234.0,
        "latency_us": { "try_acquire": { "p50": 1400.0, "p99": 9000.0 } },
    });
    assert_eq!(
        figures(&printed),
        "41,234 operations; try_acquire p50 1.4 ms, p99 9.0 ms"
    );
}
