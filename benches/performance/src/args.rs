//! The command line. Each anchor can be run by itself; it then prints one JSON object in the form
//! of `lockkeeper bench`.

use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::{Parser, builder::PossibleValuesParser};
use lockkeeper_base::threads;

use crate::runner;

/// Measures Lockkeeper against anchors.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Threads of this process; by default as many as there are cores for `bare`, as tokio has
    /// them, and half as many for a client, as `lockkeeper bench` has them.
    #[arg(long, global = true)]
    pub(crate) threads: Option<NonZeroUsize>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Measures everything in turn and writes docs/performance.md.
    Run(RunArgs),
    /// Writes docs/performance.md again from the results of the last run.
    Report {
        /// The tree.
        #[arg(long, default_value = ".")]
        root: PathBuf,
    },
    /// Measures what one coordinator carries, and prints a table.
    Sizing(SizingArgs),
    /// Counts the instructions that Redis and the coordinator execute for each operation, and
    /// prints two tables.
    Cost,
    /// A server of `LockService` that does nothing but answer. Prints its address and serves until
    /// it is killed.
    Bare {
        /// Where.
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
    },
    /// Lock and unlock by a lock library on Redis, without a service.
    Rslock {
        /// The Redis.
        #[arg(long)]
        store: String,
        #[command(flatten)]
        load: Load,
    },
    /// Lock and Unlock of etcd's v3lock.
    Etcd {
        /// The etcd.
        #[arg(long)]
        server: String,
        /// HTTP/2 connections that the callers share.
        #[arg(long, default_value_t = 4)]
        connections: usize,
        /// All callers want the same lock.
        #[arg(long)]
        hot: bool,
        #[command(flatten)]
        load: Load,
    },
}

/// What `run` is to do.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// Rounds; in each everything is measured once.
    #[arg(long, env = "BENCH_ROUNDS", default_value = "5")]
    pub(crate) rounds: NonZeroUsize,
    /// Seconds of each measurement.
    #[arg(long, env = "BENCH_SECONDS", default_value = "5", value_parser = positive)]
    pub(crate) seconds: f64,
    /// Only these measurements, named as in the results, with commas between them.
    #[arg(
        long,
        env = "BENCH_ONLY",
        value_delimiter = ',',
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(runner::names())
    )]
    pub(crate) only: Vec<String>,
    /// Grants that are watched at once.
    #[arg(long, default_value_t = 100_000)]
    pub(crate) watched_grants: usize,
    /// Calls that wait at once.
    #[arg(long, default_value_t = 100_000)]
    pub(crate) blocked_streams: usize,
    /// The tree, where results and document go.
    #[arg(long, default_value = ".")]
    pub(crate) root: PathBuf,
}

/// How much `sizing` puts on one coordinator.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SizingArgs {
    /// Grants that are watched at once.
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) grants: usize,
    /// Sessions that hold them.
    #[arg(long, default_value_t = 1000)]
    pub(crate) grant_sessions: usize,
    /// Calls that wait at once.
    #[arg(long, default_value_t = 300_000)]
    pub(crate) waiters: usize,
    /// Sessions that lose their coordinator.
    #[arg(long, default_value_t = 100_000)]
    pub(crate) sessions: usize,
}

/// How much and how long.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Load {
    /// Callers, each with one operation under way.
    #[arg(long, default_value_t = 64)]
    pub(crate) in_flight: usize,
    /// Seconds before anything counts.
    #[arg(long, default_value = "2", value_parser = seconds)]
    pub(crate) warm_up: Duration,
    /// Seconds that count.
    #[arg(long, default_value = "10", value_parser = seconds)]
    pub(crate) duration: Duration,
}

// === impl Command ===

impl Command {
    /// By default.
    pub(crate) fn threads(&self) -> usize {
        let cores = threads::cores();
        match self {
            Self::Run(_)
            | Self::Sizing(_)
            | Self::Report { .. }
            | Self::Cost
            | Self::Bare { .. } => cores,
            Self::Rslock { .. } | Self::Etcd { .. } => threads::half_of(cores),
        }
    }
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| format!("`{text}` is no number of seconds"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn positive(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    let number = number.filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| format!("`{text}` is no number greater than 0"))
}
