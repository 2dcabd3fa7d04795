//! What the exposition shows of what has happened.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use lockkeeper_base::metrics::Registrar;
use lockkeeper_store::script::{CallError, Mode, Ownership, StoreClock};
use prometheus_client::{encoding::text::encode, registry::Registry};
use tokio::time::Instant;

use super::{
    families::{Metrics, SessionTally},
    labels::{Heard, Kind, OperationName, Source},
};
use crate::{
    error::{Error, Limit},
    summary::{Counts, Subject, Summary},
    types::{LockName, LostReason, WaitEnd, tests::limits},
};

const SECOND: Duration = Duration::from_secs(1);

fn name(name: &str) -> LockName {
    LockName::parse(name, &limits()).unwrap()
}

/// What is not zero, without buckets; of histograms, the count and the sum.
fn shown(metrics: &Metrics) -> BTreeMap<String, f64> {
    let mut registry = Registry::default();
    metrics.register(&mut Registrar::new(&mut registry));
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.filter_map(|line| {
        let (sample, value) = line.split_once(' ')?;
        let sample = sample.strip_prefix("lockkeeper_")?;
        Some((sample.to_owned(), value.parse::<f64>().ok()?))
    });
    samples
        .filter(|(sample, value)| *value != 0.0 && !sample.contains("_bucket"))
        .collect()
}

#[track_caller]
fn assert_shown(metrics: &Metrics, expected: &[(&str, f64)]) {
    let expected = expected
        .iter()
        .map(|(sample, value)| ((*sample).to_owned(), *value));
    assert_eq!(shown(metrics), expected.collect());
}

/// Of new metrics, after one operation has ended a second after it began.
#[track_caller]
fn assert_ended(
    operation: Option<OperationName>,
    counts: Counts<'_>,
    ended: Result<Summary, &Error>,
    expected: &[(&str, f64)],
) {
    let metrics = Metrics::new(&["a".to_owned()]);
    let (name, begun) = (name("ab"), Instant::now() - SECOND);
    metrics.ended(operation, Subject::of(&name).counts(counts), ended, begun);
    let mut shown = shown(&metrics);
    shown.retain(|sample, _| !sample.contains("_seconds"));
    let expected = expected
        .iter()
        .map(|(sample, value)| ((*sample).to_owned(), *value));
    assert_eq!(shown, expected.collect());
}

#[tokio::test(start_paused = true)]
async fn an_operation_takes_time_by_its_name_or_by_how_its_wait_ended() {
    let metrics = Metrics::new(&[]);
    let begun = Instant::now();
    tokio::time::advance(SECOND).await;
    let answered = Ok(Summary::Answered);
    metrics.ended(
        Some(OperationName::Describe),
        Subject::default(),
        answered,
        begun,
    );
    let timed_out = Ok(Summary::NotGranted(WaitEnd::TimedOut));
    metrics.ended(None, Subject::default(), timed_out, begun);
    assert_shown(
        &metrics,
        &[
            (r#"operation_seconds_count{operation="describe"}"#, 1.0),
            (r#"operation_seconds_sum{operation="describe"}"#, 1.0),
            (r#"wait_seconds_count{result="timed_out"}"#, 1.0),
            (r#"wait_seconds_sum{result="timed_out"}"#, 1.0),
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn acquires_are_counted_by_how_they_ended() {
    tokio::time::advance(SECOND * 10).await;
    let failed = Error::SessionNotFound;
    let rows: [(Result<Summary, &Error>, &str); 6] = [
        (Ok(Summary::Granted(Some(1))), "granted"),
        (Ok(Summary::Busy), "busy"),
        (Ok(Summary::NotGranted(WaitEnd::TimedOut)), "timed_out"),
        (Ok(Summary::NotGranted(WaitEnd::Cancelled)), "cancelled"),
        (Ok(Summary::NotGranted(WaitEnd::Deadlock)), "deadlock"),
        (Err(&failed), "failed"),
    ];
    for (ended, result) in rows {
        let by_mode = format!(r#"grants_total{{mode="fair",result="{result}"}}"#);
        let by_prefix = format!(r#"prefix_grants_total{{prefix="a",result="{result}"}}"#);
        let expected = [(by_mode.as_str(), 1.0), (by_prefix.as_str(), 1.0)];
        assert_ended(None, Counts::Grant(Kind::Fair), ended, &expected);
    }
}

#[tokio::test(start_paused = true)]
async fn releases_are_counted_one_by_one() {
    tokio::time::advance(SECOND * 10).await;
    let released = |not_held| Ok(Summary::Released { not_held });
    let (not_owner, failed) = (Error::NotOwner(Ownership::Expired), Error::Draining);
    let given = |result: &str| format!(r#"releases_total{{result="{result}"}}"#);
    let [given, not_held, no_outcome] = ["released", "not_owner", "failed"].map(given);
    let rows: [(_, &[(&str, f64)]); 4] = [
        (released(0), &[(&given, 3.0)]),
        (released(1), &[(&given, 2.0), (&not_held, 1.0)]),
        (Err(&not_owner), &[(&not_held, 3.0)]),
        (Err(&failed), &[(&no_outcome, 3.0)]),
    ];
    for (ended, expected) in rows {
        let operation = Some(OperationName::ReleaseAll);
        assert_ended(operation, Counts::Releases(3), ended, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn renewals_are_counted_by_who_asked_and_how_they_ended() {
    tokio::time::advance(SECOND * 10).await;
    let (not_owner, failed) = (Error::NotOwner(Ownership::Expired), Error::Draining);
    let rows: [(Result<Summary, &Error>, &str); 3] = [
        (Ok(Summary::Renewed(Some(1))), "renewed"),
        (Err(&not_owner), "not_owner"),
        (Err(&failed), "failed"),
    ];
    for (ended, result) in rows {
        let sample = format!(r#"renewals_total{{by="client",result="{result}"}}"#);
        let operation = Some(OperationName::Renew);
        assert_ended(operation, Counts::Renewal, ended, &[(&sample, 1.0)]);
    }
    let metrics = Metrics::new(&[]);
    metrics.renewed::<(), ()>(None);
    for _ in 0..2 {
        metrics.renewed::<_, ()>(Some(&Ok(())));
    }
    for _ in 0..3 {
        metrics.renewed::<(), _>(Some(&Err(())));
    }
    assert_shown(
        &metrics,
        &[
            (r#"renewals_total{by="watchdog",result="failed"}"#, 1.0),
            (r#"renewals_total{by="watchdog",result="renewed"}"#, 2.0),
            (r#"renewals_total{by="watchdog",result="not_owner"}"#, 3.0),
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn refusals_are_counted_by_their_limit_and_counters_out_of_range_alone() {
    tokio::time::advance(SECOND * 10).await;
    let all = [
        Limit::WaitersPerLock,
        Limit::Waiters,
        Limit::WaitsPerSession,
        Limit::Sessions,
        Limit::GrantsPerSession,
        Limit::Watchers,
        Limit::HoldersPerLock,
        Limit::PermitsPerName,
        Limit::Yields,
    ];
    for limit in all {
        let sample = format!(r#"limit_refusals_total{{limit="{}"}}"#, limit.name());
        let refused = Error::LimitReached(limit);
        assert_ended(None, Counts::Nothing, Err(&refused), &[(&sample, 1.0)]);
    }
    let out_of_range = CallError::CounterOutOfRange;
    let of_several = Error::StoreOf(name("a"), out_of_range.clone());
    for refused in [Error::Store(out_of_range), of_several] {
        let expected = [("fencing_counters_refused_total", 1.0)];
        assert_ended(None, Counts::Nothing, Err(&refused), &expected);
    }
    let full = Error::Store(CallError::OutOfMemory);
    assert_ended(None, Counts::Nothing, Err(&full), &[]);
}

#[tokio::test(start_paused = true)]
async fn only_refusals_of_names_that_others_hold_make_a_name_contended() {
    let metrics = Metrics::new(&[]);
    let (a, begun) = (name("a"), Instant::now());
    let subject = || Subject::of(&a).counts(Counts::Grant(Kind::Exclusive));
    for ended in [
        Summary::Granted(None),
        Summary::NotGranted(WaitEnd::Cancelled),
    ] {
        metrics.ended(None, subject(), Ok(ended), begun);
    }
    assert!(metrics.contention.all().is_empty());
    for ended in [Summary::Busy, Summary::NotGranted(WaitEnd::TimedOut)] {
        metrics.ended(None, subject(), Ok(ended), begun);
    }
    assert_eq!(metrics.contention.all()[0].refusal_count, 2);
}

#[tokio::test(start_paused = true)]
async fn waits_and_losses_are_counted_also_by_the_beginning_of_the_name() {
    let metrics = Metrics::new(&["a".to_owned()]);
    metrics.wait_began(&name("ab"));
    metrics.wait_ended(&name("ab"), SECOND * 2);
    metrics.wait_began(&name("b"));
    metrics.wait_began(&name("c"));
    metrics.lost(&name("ab"), &LostReason::TakenOver);
    let preempted = LostReason::ForceReleased {
        reason: Arc::from("why"),
        closed_until: None,
        preempted: true,
    };
    metrics.lost(&name("b"), &preempted);
    assert_shown(
        &metrics,
        &[
            (r#"prefix_waits_total{prefix="a"}"#, 1.0),
            (r#"prefix_waited_seconds_total{prefix="a"}"#, 2.0),
            (r#"prefix_waits_total{prefix="other"}"#, 2.0),
            (r#"leases_lost_total{reason="taken_over"}"#, 1.0),
            (
                r#"prefix_leases_lost_total{prefix="a",reason="taken_over"}"#,
                1.0,
            ),
            (r#"leases_lost_total{reason="preempted"}"#, 1.0),
            (
                r#"prefix_leases_lost_total{prefix="other",reason="preempted"}"#,
                1.0,
            ),
        ],
    );
    let waited = metrics.contention.all();
    assert_eq!(
        (&waited[0].name, waited[0].waited),
        (&name("ab"), SECOND * 2)
    );
}

#[tokio::test(start_paused = true)]
async fn durations_are_observed_from_their_beginning() {
    let metrics = Metrics::new(&[]);
    let begun = Instant::now();
    tokio::time::advance(SECOND * 3).await;
    metrics.handed_over(Heard::Local, begun);
    metrics.hold_ended(&name("a"), "ci", begun);
    metrics.renewal_sent(begun, begun + SECOND * 2);
    metrics.margin(SECOND * 4);
    metrics.woken(Source::LeaseEnd);
    metrics.orphan_reclaimed();
    metrics.clock_stepped(true);
    metrics.clock_stepped(false);
    metrics.clock_stepped(false);
    assert_shown(
        &metrics,
        &[
            (r#"handover_seconds_count{source="local"}"#, 1.0),
            (r#"handover_seconds_sum{source="local"}"#, 3.0),
            ("hold_seconds_count", 1.0),
            ("hold_seconds_sum", 3.0),
            ("renewal_lag_seconds_count", 1.0),
            ("renewal_lag_seconds_sum", 2.0),
            ("lease_margin_seconds_count", 1.0),
            ("lease_margin_seconds_sum", 4.0),
            (r#"wakeups_total{source="lease_end"}"#, 1.0),
            ("orphan_grants_reclaimed_total", 1.0),
            (r#"store_clock_steps_total{direction="forward"}"#, 1.0),
            (r#"store_clock_steps_total{direction="back"}"#, 2.0),
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_there_now_is_shown_when_it_is_refreshed() {
    let metrics = Metrics::new(&[]);
    let tally = SessionTally {
        live: 3,
        detached: 2,
        grants: 7,
        at_risk: 1,
    };
    metrics.refresh(tally, 5, true);
    metrics.waits_seen(2, 1, 4);
    metrics.waits_seen(1, 2, 6);
    let expected = [
        ("sessions", 3.0),
        ("sessions_detached", 2.0),
        ("holds", 7.0),
        ("waiters", 5.0),
        ("draining", 1.0),
        ("deadlocks", 1.0),
        ("deadlocks_found_total", 3.0),
        ("waiting_owners_left_out", 6.0),
    ];
    assert_shown(&metrics, &expected);
    metrics.refresh(SessionTally::default(), 0, false);
    metrics.waits_seen(0, 0, 0);
    assert_shown(&metrics, &[("deadlocks_found_total", 3.0)]);
}

#[tokio::test]
#[allow(
    clippy::disallowed_methods,
    reason = "the store's clock is compared with it"
)]
async fn the_skew_is_by_how_much_the_clock_of_the_store_is_ahead() {
    let now = std::time::SystemTime::now();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = i64::try_from(now.as_micros()).unwrap();
    for ahead in [60, -60] {
        let metrics = Metrics::new(&[]);
        let micros = now + i64::from(ahead) * 1_000_000;
        metrics.clock_seen(&StoreClock {
            partition: 0,
            micros,
            answered_at: Instant::now(),
        });
        let skew = shown(&metrics)["store_clock_skew_seconds"];
        assert!((skew - f64::from(ahead)).abs() < 20.0, "{skew}");
    }
}

#[test]
fn each_mode_is_a_kind_of_its_own() {
    let kinds = [Mode::Exclusive, Mode::Fair, Mode::Read, Mode::Write].map(Kind::from);
    assert_eq!(
        kinds,
        [Kind::Exclusive, Kind::Fair, Kind::Read, Kind::Write]
    );
}
