//! The arguments of `bench`.

use std::{num::NonZeroUsize, time::Duration};

use clap::{Args, ValueEnum};
use lockkeeper_cli::{
    args::{CommonArgs, TEMPLATE, address, duration, period},
    exit,
};
use lockkeeper_client::Address;

/// What to measure.
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper bench uncontended --frames --in-flight 256
  lockkeeper bench handover --output json
  lockkeeper bench uncontended --rate 20000 --duration 30s
  lockkeeper bench waiters --waiters 100000 --connections 8", after_help = exit::BENCH_HELP)]
pub struct BenchArgs {
    /// What to measure, for --duration.
    #[arg(value_enum)]
    pub(crate) scenario: Scenario,
    /// Send operations as frames on one session stream per connection instead of unary RPCs.
    #[arg(long)]
    pub(crate) frames: bool,
    /// HTTP/2 connections; at most one per operation in flight.
    #[arg(long, value_name = "NUMBER", default_value = "4")]
    pub(crate) connections: NonZeroUsize,
    /// Concurrent operations, on all connections together.
    #[arg(long, value_name = "NUMBER", default_value = "64")]
    pub(crate) in_flight: NonZeroUsize,
    /// Operations started per second (churn: sessions), regardless of answers; latency counts from
    /// the time at which each was due [default: start the next one after an answer].
    #[arg(long, value_name = "NUMBER", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// The time before the measurement.
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = period,
        default_value = "2s"
    )]
    pub(crate) warm_up: Duration,
    /// The length of the measurement.
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = period,
        default_value = "10s"
    )]
    pub(crate) duration: Duration,
    /// The lease of sessions, and of grants without one [default: the coordinator's].
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) lease: Option<prost_types::Duration>,
    /// The number of locks (churn: sessions) [default: uncontended: one for each operation in
    /// flight, read-mostly: 8, watch and churn: 10000].
    #[arg(long, value_name = "NUMBER")]
    pub(crate) names: Option<NonZeroUsize>,
    /// The number of waiters, for `waiters`.
    #[arg(long, value_name = "NUMBER", default_value = "1000")]
    pub(crate) waiters: NonZeroUsize,
    /// The number of sessions that hold grants, for `watch` and `resume`.
    #[arg(long, value_name = "NUMBER", default_value = "100")]
    pub(crate) sessions: NonZeroUsize,
    /// The coordinator on which `resume` resumes sessions, with the credentials of flags and
    /// variables [default: that of --server].
    #[arg(long, value_name = "URL", value_parser = address())]
    pub(crate) resume_on: Option<Address>,
    /// Threads of this process [default: half the number of cores, at least one].
    #[arg(long, value_name = "NUMBER")]
    pub(crate) threads: Option<NonZeroUsize>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// Each caller acquires and releases its own locks.
    Uncontended,
    /// One lock is handed over from waiter to waiter.
    Handover,
    /// The same with a fair lock.
    Fair,
    /// A few locks with nine readers to one writer.
    ReadMostly,
    /// Waiters for a lock that is never released.
    Waiters,
    /// Sessions that hold many watched grants.
    Watch,
    /// Sessions that are opened, acquire one lock, and are closed.
    Churn,
    /// Sessions with one grant each, until their coordinator ends or fails; then all are resumed.
    Resume,
}

fn rate(text: &str) -> Result<f64, &'static str> {
    let rate = text.parse::<f64>().ok();
    let rate = rate.filter(|rate| rate.is_finite() && *rate > 0.0);
    rate.ok_or("must be a number greater than 0")
}

// === impl Scenario ===

impl Scenario {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Uncontended => "uncontended",
            Self::Handover => "handover",
            Self::Fair => "fair",
            Self::ReadMostly => "read-mostly",
            Self::Waiters => "waiters",
            Self::Watch => "watch",
            Self::Churn => "churn",
            Self::Resume => "resume",
        }
    }
}
