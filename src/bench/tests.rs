use std::{collections::HashSet, time::Duration};

use clap::Parser as _;
use lockkeeper_api::pb::{Grant, LockMode};
use serde_json::Value;

use super::{
    plan::{Caller, Plan, Target},
    report::Report,
    stage::Stage,
    tally::{Tally, What},
    timeline::{Next, Pace, Timeline},
    witness::{Seen, Witness},
};

const MS: u64 = 1_000_000;

fn plan(arguments: &str) -> Plan {
    let arguments = ["bench"].into_iter().chain(arguments.split(' '));
    Plan::new(Words::try_parse_from(arguments).unwrap().bench).unwrap()
}

#[derive(clap::Parser)]
struct Words {
    #[command(flatten)]
    bench: crate::BenchArgs,
}

/// What can begin now.
fn due(pace: &Pace, timeline: &Timeline, now: u64) -> Vec<u64> {
    let next = || match pace.try_next(timeline, now) {
        Next::Due(at) => Some(at),
        Next::NotYet | Next::Over => None,
    };
    std::iter::from_fn(next).collect()
}

// === the clock ===

#[tokio::test(start_paused = true)]
async fn at_a_fixed_rate_latency_counts_from_when_an_operation_was_due() {
    let timeline = Timeline::new(Duration::ZERO, Duration::from_secs(1));
    let pace = Pace::new(Some(1000.0));
    pace.release(9 * MS);
    let begun = due(&pace, &timeline, 9 * MS);
    assert_eq!(begun, (0..10).map(|n| n * MS).collect::<Vec<_>>());
    // Everything was delayed until now. Each operation that was due meanwhile counts the delay, not
    // only the one that was under way.
    let mut tally = Tally::default();
    for due in begun {
        tally.time(What::Pair, 10 * MS - due);
    }
    let (what, figures) = tally.latencies().next().unwrap();
    assert_eq!((what, figures.count), (What::Pair, 10));
    assert!((figures.max - 10_000.0).abs() < 10.0, "{figures:?}");
    assert!((figures.mean - 5_500.0).abs() < 10.0, "{figures:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_begins_before_it_is_due_or_is_held_back_by_rounding() {
    let timeline = Timeline::new(Duration::ZERO, Duration::from_secs(100));
    for rate in [0.5, 3.0, 7.0, 999.9, 30_000.0, 1_234_567.0] {
        let pace = Pace::new(Some(rate));
        for now in [0, 1, MS, 33 * MS, 33 * MS + 1, 333_333_333] {
            let next = pace.release(now);
            let begun = due(&pace, &timeline, now);
            assert!(begun.iter().all(|at| *at <= now), "{rate} {now} {begun:?}");
            assert!(next > now, "{rate} {now} {next}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_due_and_not_begun_is_counted_to_the_end() {
    let stage = Stage::new(plan(
        "uncontended --rate 2000 --warm-up 10ms --duration 10ms",
    ));
    stage.pace.release(19 * MS + MS / 2);
    // All of the warm-up and three more begin.
    for _ in 0..13 {
        assert!(matches!(
            stage.pace.try_next(&stage.timeline, 0),
            Next::Due(_)
        ));
    }
    assert_eq!(stage.backlog(), 7);
    stage.count_backlog();
    let total = stage.total();
    let figures: Vec<_> = total.latencies().collect();
    assert_eq!(figures.len(), 2, "of the try and of the pair");
    for (_, figures) in figures {
        assert_eq!(figures.count, 7);
        assert!((figures.max - 7_000.0).abs() < 10.0, "{figures:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_counts_by_its_answer_or_by_when_it_was_due() {
    let timeline = Timeline::new(Duration::from_millis(10), Duration::from_millis(10));
    let (closed, open) = (Pace::new(None), Pace::new(Some(1.0)));
    assert!(closed.counts(&timeline, 9 * MS, 11 * MS));
    assert!(!open.counts(&timeline, 9 * MS, 11 * MS));
    assert!(!closed.counts(&timeline, 19 * MS, 21 * MS));
    assert!(open.counts(&timeline, 19 * MS, 21 * MS));
}

#[test]
fn the_pacemaker_lets_everything_begin_until_the_end_and_nothing_after_it() {
    let timeline = Timeline::new(Duration::ZERO, Duration::from_millis(20));
    let pace = Pace::new(Some(10_000.0));
    pace.beat(&timeline);
    assert_eq!(pace.backlog().len(), 200);
    assert_eq!(pace.try_next(&timeline, 0), Next::Over);
}

// === the witness ===

/// What is seen of a history: who enters and leaves, with the tokens of the grants.
fn seen(history: &[(char, LockMode, u64)]) -> (u64, u64) {
    let (witness, seen) = (Witness::default(), Seen::default());
    for (step, mode, token) in history {
        match step {
            '+' => witness.enter(*mode, *token, &seen),
            _ => witness.leave(*mode, 1),
        }
    }
    let (overlaps, regressions) = (
        seen.overlaps.into_inner(),
        seen.token_regressions.into_inner(),
    );
    (overlaps, regressions)
}

#[test]
fn a_right_history_is_taken_for_one() {
    let (w, r) = (LockMode::Write, LockMode::Read);
    let history = [
        ('+', w, 7),
        ('-', w, 0),
        ('+', r, 7),
        ('+', r, 7),
        ('-', r, 0),
        ('-', r, 0),
        ('+', w, 8),
    ];
    assert_eq!(seen(&history), (0, 0));
}

#[test]
fn a_wrong_history_is_noticed() {
    let (x, w, r) = (LockMode::Exclusive, LockMode::Write, LockMode::Read);
    for (history, expected) in [
        // Two hold it at once.
        (vec![('+', x, 1), ('+', x, 2)], (1, 0)),
        (vec![('+', w, 1), ('+', r, 1)], (1, 0)),
        (vec![('+', r, 0), ('+', r, 0), ('+', w, 1)], (1, 0)),
        // A token comes twice, or a smaller one after it, or none.
        (vec![('+', x, 5), ('-', x, 0), ('+', x, 5)], (0, 1)),
        (
            vec![
                ('+', x, 5),
                ('-', x, 0),
                ('+', x, 4),
                ('-', x, 0),
                ('+', x, 6),
            ],
            (0, 1),
        ),
        (vec![('+', w, 0)], (0, 1)),
    ] {
        assert_eq!(seen(&history), expected, "{history:?}");
    }
}

// === callers ===

#[test]
fn callers_have_names_of_their_own_and_together_all() {
    let plan = plan("uncontended --in-flight 3 --names 8");
    let mut all = HashSet::new();
    for number in 0..3 {
        let mut caller = Caller::new(number);
        let own: HashSet<_> = (0..20).map(|_| caller.next(&plan).lock).collect();
        assert!(own.is_disjoint(&all), "{number}");
        all.extend(own);
    }
    assert_eq!(all, (0..8).collect());
}

#[test]
fn of_ten_callers_that_read_mostly_one_writes() {
    let plan = plan("read-mostly --names 4");
    let mut caller = Caller::new(5);
    let turns: Vec<Target> = (0..10_000).map(|_| caller.next(&plan)).collect();
    let writes = turns
        .iter()
        .filter(|target| target.mode == LockMode::Write)
        .count();
    assert!((900..1100).contains(&writes), "{writes}");
    let written: HashSet<_> = turns
        .iter()
        .filter(|target| target.mode == LockMode::Write)
        .map(|target| target.lock)
        .collect();
    assert_eq!(written.len(), 4, "each lock has writers");
}

#[test]
fn shares_are_all_there_is() {
    let plan = plan("uncontended --in-flight 10 --connections 4");
    let shares: Vec<_> = (0..4)
        .map(|connection| plan.share(10, connection))
        .collect();
    assert_eq!(shares, [3, 3, 2, 2]);
    assert_eq!(self::plan("handover --in-flight 2").connections, 2);
}

// === the report ===

/// A caller takes a lock and gives it back, 12 and 14 ms after the start; another connection has a
/// refusal.
fn played(arguments: &str) -> Stage {
    let stage = Stage::new(plan(arguments));
    let target = Target {
        lock: 0,
        mode: LockMode::Exclusive,
    };
    let grant = Grant {
        hold_count: 1,
        fencing_token: 5,
        ..Grant::default()
    };
    {
        let mut tally = stage.tally(0);
        let mut taken = stage.granted(&mut tally, 0, target, &grant, (11 * MS, 12 * MS));
        stage.leave(&mut taken);
        stage.released(&mut tally, &taken, true, 14 * MS);
    }
    stage.tally(1).refused("WAITERS_MAX");
    stage
}

fn report(stage: &Stage) -> Value {
    Report::new(stage, vec![("more", 1.into())], false).to_json()
}

#[tokio::test(start_paused = true)]
async fn a_report_has_every_figure() {
    let json = report(&played(
        "uncontended --warm-up 10ms --duration 10ms --connections 2",
    ));
    assert_eq!(json["scenario"], "uncontended");
    assert_eq!(json["transport"], "rpc");
    assert_eq!(json["server"], "http://127.0.0.1:7625");
    assert_eq!(
        (&json["connections"], &json["in_flight"]),
        (&2.into(), &64.into())
    );
    assert_eq!(
        (&json["rate"], &json["backlog"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!((&json["void"], &json["errors"]), (&false.into(), &1.into()));
    assert_eq!(
        (&json["operations"], &json["duration_s"]),
        (&2.into(), &0.01.into())
    );
    assert_eq!(json["operations_per_second"], 200.0);
    assert_eq!(json["per_second"]["pairs"], 100.0);
    assert_eq!(json["refusals"]["WAITERS_MAX"], 1);
    assert_eq!(json["witness"]["grants"], 1);
    assert_eq!(json["more"], 1);
    let latencies = json["latency_us"].as_object().unwrap();
    let names: Vec<_> = latencies.keys().map(String::as_str).collect();
    assert_eq!(names, ["pair", "release", "try_acquire"]);
    for figures in latencies.values() {
        assert_eq!(figures["count"], 1);
        for figure in ["mean", "p50", "p90", "p99", "p999", "max"] {
            assert!(figures[figure].is_f64(), "{figures}");
        }
    }
    let max = latencies["try_acquire"]["max"].as_f64().unwrap();
    assert!((max - 1000.0).abs() < 1.0, "{max}");
    let handover = report(&played(
        "handover --warm-up 10ms --duration 10ms --connections 2",
    ));
    assert_eq!(handover["per_second"]["handovers"], 100.0);
    assert_eq!(handover["grants_per_waiter"]["fewest"], 0);
    assert_eq!(handover["grants_per_waiter"]["most"], 1);
}

#[tokio::test(start_paused = true)]
async fn the_figures_of_a_void_run_are_not_told() {
    let stage = played("uncontended --warm-up 10ms --duration 10ms --connections 2");
    stage.locks[0]
        .witness
        .enter(LockMode::Exclusive, 5, &stage.seen);
    let report = Report::new(&stage, Vec::new(), false);
    assert_eq!(report.void().len(), 1);
    let json = report.to_json();
    assert_eq!(json["void"], true);
    assert_eq!(json["witness"]["token_regressions"], 1);
    for figure in [
        "operations",
        "operations_per_second",
        "latency_us",
        "per_second",
    ] {
        assert_eq!(json[figure], Value::Null, "{figure}");
    }
    assert!(!report.to_text().contains("per_second"));
}

#[tokio::test(start_paused = true)]
async fn a_run_in_which_nothing_was_answered_is_void() {
    let stage = Stage::new(plan("handover"));
    assert_eq!(Report::new(&stage, Vec::new(), false).void().len(), 1);
    assert_eq!(Report::new(&stage, Vec::new(), true).void().len(), 0);
}
