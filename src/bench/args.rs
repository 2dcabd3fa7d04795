//! The words of `bench`.

use std::{num::NonZeroUsize, time::Duration};

use clap::{Args, ValueEnum};
use lockkeeper_cli::{
    args::{CommonArgs, TEMPLATE, duration},
    exit,
};

/// What to measure.
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper bench uncontended --frames --in-flight 256
  lockkeeper bench handover --output json
  lockkeeper bench uncontended --rate 20000 --duration 30s
  lockkeeper bench waiters --waiters 100000 --connections 8", after_help = exit::BENCH_HELP)]
pub struct BenchArgs {
    /// What to do, for as long as --duration says.
    #[arg(value_enum)]
    pub(crate) scenario: Scenario,
    /// Send operations as frames on one session's stream for each connection, and not as an RPC
    /// each.
    #[arg(long)]
    pub(crate) frames: bool,
    /// HTTP/2 connections; never more than operations in flight.
    #[arg(long, value_name = "NUMBER", default_value = "4")]
    pub(crate) connections: NonZeroUsize,
    /// Operations under way at once, on all connections together.
    #[arg(long, value_name = "NUMBER", default_value = "64")]
    pub(crate) in_flight: NonZeroUsize,
    /// Operations begun in a second (of churn: sessions), whether or not earlier ones were
    /// answered; latency counts from when one was due [default: the next as soon as one was
    /// answered].
    #[arg(long, value_name = "NUMBER", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// What happens before the measurement.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "2s")]
    pub(crate) warm_up: Duration,
    /// The measurement.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "10s")]
    pub(crate) duration: Duration,
    /// The lease of sessions, and of grants without one [default: the coordinator's].
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) lease: Option<prost_types::Duration>,
    /// Names of locks; of churn: sessions [default: uncontended: one for each operation in flight,
    /// read-mostly: 8, watch and churn: 10000].
    #[arg(long, value_name = "NUMBER")]
    pub(crate) names: Option<NonZeroUsize>,
    /// Calls that wait, of waiters.
    #[arg(long, value_name = "NUMBER", default_value = "1000")]
    pub(crate) waiters: NonZeroUsize,
    /// Sessions that hold grants, of watch.
    #[arg(long, value_name = "NUMBER", default_value = "100")]
    pub(crate) sessions: NonZeroUsize,
    /// Threads of this process [default: half as many as there are cores, at least one].
    #[arg(long, value_name = "NUMBER")]
    pub(crate) threads: Option<NonZeroUsize>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// Each caller takes locks of its own and gives them back.
    Uncontended,
    /// One lock goes from one waiter to the next.
    Handover,
    /// The same with a fair lock.
    Fair,
    /// A few locks, nine readers to one writer.
    ReadMostly,
    /// Calls that wait for a lock that is held all the time.
    Waiters,
    /// Sessions that hold many watched grants.
    Watch,
    /// Sessions that are opened, take one lock, and are closed.
    Churn,
}

fn rate(text: &str) -> Result<f64, &'static str> {
    let rate = text.parse::<f64>().ok();
    let rate = rate.filter(|rate| rate.is_finite() && *rate > 0.0);
    rate.ok_or("must be a number greater than 0")
}

// === impl Scenario ===

impl Scenario {
    /// As the command line has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Uncontended => "uncontended",
            Self::Handover => "handover",
            Self::Fair => "fair",
            Self::ReadMostly => "read-mostly",
            Self::Waiters => "waiters",
            Self::Watch => "watch",
            Self::Churn => "churn",
        }
    }
}
