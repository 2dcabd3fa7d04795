//! The report of a run.

use std::{collections::BTreeMap, fmt::Write as _, sync::atomic::Ordering, time::Duration};

use super::args::Scenario;
use serde_json::{Map, Value, json};

use super::{plan::Plan, stage::Stage, tally::Tally};

/// The report of a run.
pub(super) struct Report {
    header: Map<String, Value>,
    witness: Map<String, Value>,
    refusals: BTreeMap<String, u64>,
    errors: u64,
    measured: Duration,
    backlog: Option<usize>,
    total: Tally,
    scenario: Scenario,
    extra: Vec<(&'static str, Value)>,
    void: Vec<String>,
}

// === impl Report ===

impl Report {
    /// `extra` are figures of this scenario only.
    pub(super) fn new(stage: &Stage, extra: Vec<(&'static str, Value)>, interrupted: bool) -> Self {
        let total = stage.total();
        let seen = &stage.seen;
        let mut witness = Map::new();
        for (name, count) in [
            ("grants", &seen.grants),
            ("overlaps", &seen.overlaps),
            ("token_regressions", &seen.token_regressions),
            ("lost", &seen.lost),
        ] {
            witness.insert(name.to_owned(), count.load(Ordering::Relaxed).into());
        }
        let mut void = total.reported.clone();
        if !seen.is_clean() {
            void.insert(0, "the witness saw what a lock must not do".to_owned());
        } else if void.is_empty()
            && total.operations == 0
            && stage.plan.scenario != Scenario::Waiters
            && !interrupted
        {
            void.push("nothing was answered in the measurement".to_owned());
        }
        Self {
            header: header(&stage.plan, interrupted),
            witness,
            refusals: total.refusals.clone(),
            errors: total.errors(),
            measured: stage.measured(),
            backlog: stage.plan.rate.map(|_| stage.backlog()),
            scenario: stage.plan.scenario,
            total,
            extra,
            void,
        }
    }

    /// Why the run is void; empty if it is valid.
    pub(super) fn void(&self) -> &[String] {
        &self.void
    }

    /// One object; without figures if the run is void.
    pub(super) fn to_json(&self) -> Value {
        let mut fields = self.header.clone();
        fields.insert("void".to_owned(), (!self.void.is_empty()).into());
        fields.insert("witness".to_owned(), self.witness.clone().into());
        fields.insert("errors".to_owned(), self.errors.into());
        fields.insert("refusals".to_owned(), json!(self.refusals));
        if !self.void.is_empty() {
            fields.insert("void_because".to_owned(), json!(self.void));
            return fields.into();
        }
        fields.insert("duration_s".to_owned(), round(self.measured.as_secs_f64()));
        fields.insert("operations".to_owned(), self.total.operations.into());
        let per_second = self.per_second(self.total.operations);
        fields.insert("operations_per_second".to_owned(), round(per_second));
        if let Some(rounds) = rounds(self.scenario) {
            let per_second = round(self.per_second(self.total.rounds));
            fields.insert("per_second".to_owned(), json!({ rounds: per_second }));
        }
        fields.insert("latency_us".to_owned(), self.latencies());
        fields.insert("backlog".to_owned(), json!(self.backlog));
        if let Some((fewest, most)) = self.grants_per_waiter() {
            fields.insert(
                "grants_per_waiter".to_owned(),
                json!({ "fewest": fewest, "most": most }),
            );
        }
        for (name, value) in &self.extra {
            fields.insert((*name).to_owned(), value.clone());
        }
        fields.into()
    }

    /// Lines for people; without figures if the run is void.
    pub(super) fn to_text(&self) -> String {
        let fields = self.to_json();
        let mut text = String::new();
        for name in [
            "scenario",
            "transport",
            "connections",
            "in_flight",
            "rate",
            "duration_s",
        ] {
            if !fields[name].is_null() {
                let _ = write!(text, "{name}={} ", plain(&fields[name]));
            }
        }
        let _ = write!(text, "errors={}", self.errors);
        for (reason, count) in &self.refusals {
            let _ = write!(text, "\n  refused {reason}: {count}");
        }
        let _ = write!(text, "\nwitness {}", pairs(&self.witness));
        if !self.void.is_empty() {
            return text;
        }
        let _ = write!(
            text,
            "\noperations_per_second={}",
            fields["operations_per_second"]
        );
        if let Some(per_second) = fields["per_second"].as_object() {
            let _ = write!(text, "  per second: {}", pairs(per_second));
        }
        for name in self.extra.iter().map(|(name, _)| *name).chain(["backlog"]) {
            if !fields[name].is_null() {
                let _ = write!(text, "\n{name}={}", plain(&fields[name]));
            }
        }
        if let Some(grants) = fields["grants_per_waiter"].as_object() {
            let _ = write!(text, "\ngrants per waiter: {}", pairs(grants));
        }
        if self.total.latencies().next().is_none() {
            return text;
        }
        let _ = write!(
            text,
            "\n{:<14}{:>10}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}",
            "latency in us", "count", "mean", "p50", "p90", "p99", "p99.9", "max"
        );
        for (what, at) in self.total.latencies() {
            let _ = write!(
                text,
                "\n{:<14}{:>10}{:>11.1}{:>11.1}{:>11.1}{:>11.1}{:>11.1}{:>11.1}",
                what.name(),
                at.count,
                at.mean,
                at.p50,
                at.p90,
                at.p99,
                at.p999,
                at.max
            );
        }
        text
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn per_second(&self, count: u64) -> f64 {
        let seconds = self.measured.as_secs_f64();
        if seconds > 0.0 {
            count as f64 / seconds
        } else {
            0.0
        }
    }

    fn latencies(&self) -> Value {
        let latencies = self.total.latencies().map(|(what, at)| {
            let figures = json!({
                "count": at.count, "mean": round(at.mean), "p50": at.p50, "p90": at.p90,
                "p99": at.p99, "p999": at.p999, "max": at.max,
            });
            (what.name().to_owned(), figures)
        });
        Value::Object(latencies.collect())
    }

    fn grants_per_waiter(&self) -> Option<(u64, u64)> {
        let grants = &self.total.grants;
        Some((*grants.iter().min()?, *grants.iter().max()?))
    }
}

/// What is counted per second besides operations.
fn rounds(scenario: Scenario) -> Option<&'static str> {
    match scenario {
        Scenario::Uncontended | Scenario::ReadMostly => Some("pairs"),
        Scenario::Handover | Scenario::Fair => Some("handovers"),
        Scenario::Churn => Some("sessions"),
        Scenario::Waiters | Scenario::Watch | Scenario::Resume => None,
    }
}

fn header(plan: &Plan, interrupted: bool) -> Map<String, Value> {
    let fields = json!({
        "scenario": plan.scenario.name(),
        "transport": if plan.frames { "frames" } else { "rpc" },
        "server": plan.server.address().map(|it| it.to_string()).unwrap_or_default(),
        "connections": plan.connections,
        "in_flight": plan.in_flight,
        "rate": plan.rate,
        "names": plan.names,
        "interrupted": interrupted,
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// To a thousandth.
fn round(number: f64) -> Value {
    json!((number * 1000.0).round() / 1000.0)
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "none".to_owned(),
        other => other.to_string(),
    }
}

fn pairs(fields: &Map<String, Value>) -> String {
    let pairs = fields
        .iter()
        .map(|(name, value)| format!("{name}={}", plain(value)));
    pairs.collect::<Vec<_>>().join(" ")
}
