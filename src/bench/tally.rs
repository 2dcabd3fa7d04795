//! Counts and latencies, of one connection or of all.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use lockkeeper_cli::failure::{Effect, Failure};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// The domain of a coordinator's error reasons.
const DOMAIN: &str = "lockkeeper";

/// The unit in which latencies are recorded, in nanoseconds: 0.1 us.
const UNIT: u64 = 100;

/// Units in a microsecond.
const UNITS_PER_MICROSECOND: f64 = 10.0;

/// How many faults are reported; all are counted.
const FAULTS_REPORTED: usize = 5;

/// The timed events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    TryAcquire,
    Release,
    /// A try and the release that follows it.
    Pair,
    /// From Acquire to the grant.
    Wait,
    ReadWait,
    WriteWait,
    /// From sending a release to receiving the next grant.
    Gap,
    /// From opening a session to the end of its stream.
    Session,
    Describe,
    /// From the break of a session's stream to the answer that the session is resumed.
    Resume,
}

/// Latencies of one kind.
#[derive(Debug)]
pub(super) struct Latencies(Histogram<u64>);

/// Figures in microseconds.
#[derive(Debug)]
pub(super) struct Percentiles {
    pub(super) count: u64,
    pub(super) mean: f64,
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
    pub(super) max: f64,
}

/// Counts and latencies.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Operations answered in the measurement.
    pub(super) operations: u64,
    /// Pairs, hand-overs or sessions completed in the measurement.
    pub(super) rounds: u64,
    /// Grants of each caller of this connection in the measurement.
    pub(super) grants: Vec<u64>,
    /// Legitimate refusals of the coordinator, by reason.
    pub(super) refusals: BTreeMap<String, u64>,
    /// Answers and failures that must not happen.
    pub(super) faults: u64,
    /// The first of them, each once.
    pub(super) reported: Vec<String>,
    latencies: [Latencies; What::ALL.len()],
}

// === impl What ===

impl What {
    pub(super) const ALL: [Self; 10] = [
        Self::TryAcquire,
        Self::Release,
        Self::Pair,
        Self::Wait,
        Self::ReadWait,
        Self::WriteWait,
        Self::Gap,
        Self::Session,
        Self::Describe,
        Self::Resume,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::TryAcquire => "try_acquire",
            Self::Release => "release",
            Self::Pair => "pair",
            Self::Wait => "wait",
            Self::ReadWait => "read_wait",
            Self::WriteWait => "write_wait",
            Self::Gap => "gap",
            Self::Session => "session",
            Self::Describe => "describe",
            Self::Resume => "resume",
        }
    }
}

// === impl Tally ===

impl Tally {
    /// A tally with grants per caller; callers without grants count too.
    pub(super) fn of_callers(count: usize) -> Self {
        Self {
            grants: vec![0; count],
            ..Self::default()
        }
    }

    /// A latency in nanoseconds.
    pub(super) fn time(&mut self, what: What, latency: u64) {
        self.latencies[what as usize].record(latency);
    }

    pub(super) fn refused(&mut self, reason: &str) {
        match self.refusals.get_mut(reason) {
            Some(count) => *count += 1,
            None => drop(self.refusals.insert(reason.to_owned(), 1)),
        }
    }

    pub(super) fn fault(&mut self, text: impl Into<String>) {
        self.faults += 1;
        let text = text.into();
        if self.reported.len() < FAULTS_REPORTED && !self.reported.contains(&text) {
            self.reported.push(text);
        }
    }

    /// A call failed: a refusal if the coordinator may refuse for now, else a fault.
    pub(super) fn failed(&mut self, status: &Status) {
        let may_be_later = matches!(
            status.code(),
            Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded | Code::Aborted
        );
        match status.get_details_error_info() {
            Some(info) if may_be_later && info.domain == DOMAIN => self.refused(&info.reason),
            _ => self.fault(Failure::from_status(status, Effect::Reads).message),
        }
    }

    /// A call failed that is repeated: a fault only if it would fail again.
    pub(super) fn postponed(&mut self, status: &Status) {
        match status.code() {
            Code::NotFound | Code::PermissionDenied | Code::Unauthenticated => self.failed(status),
            _ => self.refused(&Failure::from_status(status, Effect::Reads).reason),
        }
    }

    pub(super) fn errors(&self) -> u64 {
        self.faults + self.refusals.values().sum::<u64>()
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.rounds += other.rounds;
        self.grants.extend_from_slice(&other.grants);
        for (reason, count) in &other.refusals {
            *self.refusals.entry(reason.clone()).or_default() += count;
        }
        for text in &other.reported {
            self.fault(text.as_str());
        }
        self.faults += other.faults - other.reported.len() as u64;
        for (mine, theirs) in self.latencies.iter_mut().zip(&other.latencies) {
            mine.merge(theirs);
        }
    }

    /// All events that were timed at least once.
    pub(super) fn latencies(&self) -> impl Iterator<Item = (What, Percentiles)> {
        let timed = What::ALL.into_iter().zip(&self.latencies);
        timed.filter_map(|(what, latencies)| Some((what, latencies.percentiles()?)))
    }
}

// === impl Latencies ===

impl Default for Latencies {
    fn default() -> Self {
        // Three digits are within what the histogram can do, and it grows by itself.
        Self(Histogram::new(3).expect("a histogram of three digits"))
    }
}

impl Latencies {
    fn record(&mut self, nanos: u64) {
        // It grows by itself.
        self.0.record(nanos / UNIT).expect("a histogram that grows");
    }

    fn merge(&mut self, other: &Self) {
        // It grows by itself.
        self.0.add(&other.0).expect("a histogram that grows");
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "latencies are far below 2^52 units"
    )]
    fn percentiles(&self) -> Option<Percentiles> {
        let micros = |units: u64| units as f64 / UNITS_PER_MICROSECOND;
        let at = |quantile| micros(self.0.value_at_quantile(quantile));
        (!self.0.is_empty()).then(|| Percentiles {
            count: self.0.len(),
            mean: self.0.mean() / UNITS_PER_MICROSECOND,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: micros(self.0.max()),
        })
    }
}
