use serde_json::json;

use super::*;
use crate::runner::results::Outcome;

fn round(measured: &[(&str, serde_json::Value)]) -> Round {
    let measured = measured
        .iter()
        .map(|(name, printed)| ((*name).to_owned(), Outcome::Measured(printed.clone())));
    Round(measured.collect())
}

fn ratio(figure: &str, round: &Round) -> Option<f64> {
    let row = ROWS.iter().find(|row| row.figure.contains(figure));
    (row.unwrap().ratio)(round)
}

fn expect(ratio: Option<f64>, expected: f64) {
    assert!((ratio.unwrap() - expected).abs() < 1e-9, "{ratio:?}");
}

#[test]
fn a_goal_is_met_from_one_side_only() {
    assert!(Goal::AtLeast(0.85).is_met(0.85));
    assert!(!Goal::AtLeast(0.85).is_met(0.849));
    assert!(Goal::AtMost(1.1).is_met(1.1));
    assert!(!Goal::AtMost(1.1).is_met(1.101));
    assert!(Goal::None.is_met(0.0));
}

#[test]
fn the_floor_is_both_halves_one_after_the_other() {
    let round = round(&[
        ("rpc-64", json!({ "operations_per_second": 40.0 })),
        ("bare-rpc-64", json!({ "operations_per_second": 100.0 })),
        ("raw-64", json!({ "operations_per_second": 100.0 })),
    ]);
    expect(ratio("RPCs, 64 callers, against the floor", &round), 0.8);
}

#[test]
fn latencies_of_both_halves_add_up() {
    let latency = |p50: f64| json!({ "latency_us": { "try_acquire": { "p50": p50 } } });
    let round = round(&[
        ("rpc-1", latency(120.0)),
        ("bare-rpc-1", latency(60.0)),
        ("raw-1", latency(40.0)),
    ]);
    expect(ratio("one caller, p50", &round), 1.2);
}

#[test]
fn a_session_is_compared_with_two_calls() {
    let round = round(&[
        ("churn", json!({ "per_second": { "sessions": 10.0 } })),
        ("bare-rpc-64", json!({ "operations_per_second": 40.0 })),
    ]);
    expect(ratio("sessions opened", &round), 2.0);
}

#[test]
fn what_was_not_measured_has_no_ratio() {
    let mut round = round(&[("rpc-64", json!({ "per_second": { "pairs": 1.0 } }))]);
    assert_eq!(ratio("as RPCs, against Redisson", &round), None);
    let void = Outcome::Failed("void".to_owned());
    round.0.insert("redisson-64".to_owned(), void);
    assert_eq!(ratio("as RPCs, against Redisson", &round), None);
}
