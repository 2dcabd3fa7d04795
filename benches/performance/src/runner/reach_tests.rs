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
        ("native-frames-64", json!({ "operations_per_second": 40.0 })),
        ("frames-64", json!({ "operations_per_second": 20.0 })),
        ("bare-frames-64", json!({ "operations_per_second": 100.0 })),
        ("rslock-64", json!({ "operations_per_second": 100.0 })),
    ]);
    expect(
        ratio("frames with native commands, 64 in flight", &round),
        0.8,
    );
    expect(ratio("frames by scripts, 64 in flight", &round), 0.4);
}

#[test]
fn latencies_of_both_halves_add_up() {
    let latency = |what: &str, p50: f64| json!({ "latency_us": { what: { "p50": p50 } } });
    let round = round(&[
        ("rpc-1", latency("try_acquire", 120.0)),
        ("bare-rpc-1", latency("try_acquire", 60.0)),
        ("rslock-1", latency("acquire", 40.0)),
    ]);
    expect(ratio("one caller, p50", &round), 1.2);
}

#[test]
fn what_a_pair_costs_redis_is_compared_with_what_one_of_rslock_does() {
    let redis = |us: f64| json!({ "processor_us": { "server": 9.0, "redis": us } });
    let round = round(&[
        ("native-frames-256", redis(3.3)),
        ("frames-256", redis(9.0)),
        ("rslock-256", redis(3.0)),
    ]);
    expect(ratio("processor time of Redis", &round), 1.1);
}

#[test]
fn handovers_with_native_commands_have_the_goals() {
    let rate = |per_second: f64| json!({ "per_second": { "handovers": per_second } });
    let round = round(&[
        ("native-handover-frames-64", rate(60.0)),
        ("handover-frames-64", rate(50.0)),
        ("etcd-hot-64", rate(2.0)),
        ("redisson-hot-64", rate(10.0)),
    ]);
    let reached = |needed| {
        let with_goal = |row: &&Row| row.needs == Some(needed) && row.goal != Goal::None;
        let row = ROWS.iter().find(with_goal).unwrap();
        (row.goal, (row.ratio)(&round))
    };
    assert_eq!(reached("etcd"), (Goal::AtLeast(20.0), Some(30.0)));
    assert_eq!(reached("redisson"), (Goal::AtLeast(5.0), Some(6.0)));
    expect(ratio("hand-overs as frames by scripts", &round), 25.0);
}

#[test]
fn a_row_of_another_store_compares_on_that_store() {
    let rate = |per_second: f64| json!({ "per_second": { "pairs": per_second } });
    let round = round(&[
        ("native-frames-256", rate(1.0)),
        ("rslock-256", rate(1.0)),
        ("native-frames-256-valkey-9", rate(6.0)),
        ("rslock-256-valkey-9", rate(8.0)),
    ]);
    expect(ratio("on Valkey 9", &round), 0.75);
    assert_eq!(ratio("on Redis 8", &round), None);
}

#[test]
fn what_is_for_information_says_so() {
    for row in ROWS {
        let informs = row.figure.starts_with("for information: ");
        assert_eq!(informs, row.goal == Goal::None, "{}", row.figure);
    }
}

#[test]
fn one_command_for_a_hundred_renewals_is_enough() {
    let goal = |figure: &str| {
        ROWS.iter()
            .find(|row| row.figure.contains(figure))
            .unwrap()
            .goal
    };
    assert!(goal("commands of Redis for a renewal").is_met(0.010));
    assert!(!goal("commands of Redis for a renewal").is_met(0.011));
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
