//! What a run has measured, as it is kept in a file: the document can be made from it again.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is counted in a second, the most telling first, and how it is called.
pub(super) const RATES: [(&str, &str); 4] = [
    ("/per_second/handovers", "hand-overs"),
    ("/per_second/sessions", "sessions"),
    ("/operations_per_second", "operations"),
    ("/watched/renewals", "renewals in all"),
];

/// A whole run.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Results {
    pub(super) machine: Machine,
    pub(super) options: Options,
    /// What could not be measured, and why, by the name of what was missing.
    pub(super) missing: BTreeMap<String, String>,
    pub(super) rounds: Vec<Round>,
}

/// Where it was measured, for people.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Machine {
    pub(super) when: String,
    pub(super) commit: String,
    pub(super) processor: String,
    pub(super) cores: usize,
    pub(super) memory: String,
    pub(super) kernel: String,
    /// Programs and their versions.
    pub(super) versions: BTreeMap<String, String>,
}

/// How it was measured.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct Options {
    pub(super) rounds: usize,
    pub(super) seconds: f64,
    pub(super) warm_up_seconds: f64,
    pub(super) watched_grants: usize,
    pub(super) watch_seconds: f64,
    pub(super) blocked_streams: usize,
}

/// What each measurement of one round printed, by its name. A measurement that failed has its
/// reason.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Round(pub(super) BTreeMap<String, Outcome>);

/// What came of one measurement.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Measured(Value),
    Failed(String),
}

/// The most telling rate of what a measurement printed, and what is counted.
pub(super) fn rate_of(printed: &Value) -> Option<(f64, &'static str)> {
    let mut rates = RATES.into_iter();
    rates.find_map(|(pointer, unit)| Some((printed.pointer(pointer)?.as_f64()?, unit)))
}

// === impl Results ===

impl Results {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("there are no results at {}", path.display()))?;
        Ok(serde_json::from_str(&text)?)
    }

    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let text = serde_json::to_string_pretty(self)?;
        fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
    }

    /// Measurements that failed, with the round counted from 1.
    pub(super) fn failures(&self) -> Vec<String> {
        let rounds = self.rounds.iter().zip(1..);
        let failures = rounds.flat_map(|(round, number)| {
            let failed = round
                .0
                .iter()
                .filter_map(move |(name, outcome)| match outcome {
                    Outcome::Measured(_) => None,
                    Outcome::Failed(why) => Some(format!("round {number}, {name}: {why}")),
                });
            failed.collect::<Vec<_>>()
        });
        failures.collect()
    }
}

// === impl Round ===

impl Round {
    /// A number by its JSON pointer in what a measurement printed.
    pub(super) fn number(&self, measurement: &str, pointer: &str) -> Option<f64> {
        match self.0.get(measurement)? {
            Outcome::Measured(printed) => printed.pointer(pointer)?.as_f64(),
            Outcome::Failed(_) => None,
        }
    }
}
