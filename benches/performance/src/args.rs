//! The command line. Each anchor can be run by itself; it then prints one JSON object in the form of `lockkeeper bench`.

use std::{net::SocketAddr, time::Duration};

use clap::Parser;

/// Measures Lockkeeper against anchors.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// A server of LockService that does nothing but answer. Prints its address and serves until it is killed.
    Bare {
        /// Where.
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
    },
    /// The scripts of an acquire and its release on Redis, without gRPC.
    Raw {
        /// The Redis.
        #[arg(long)]
        store: String,
        #[command(flatten)]
        load: Load,
    },
    /// The same work by a lock library on the same Redis, without a service.
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

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| format!("`{text}` is no number of seconds"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
