//! Measures Lockkeeper against what it cannot be faster than, and against its peers. `make bench`
//! runs it; docs/performance.md is what it writes.
//!
//! One program with parts that it starts as processes of their own, so that each has a scheduler
//! and memory of its own:
//! - [`runner`]: the run as a whole, and the document;
//! - [`anchors`]: what is compared with, one subcommand each;
//! - [`cost`]: what an operation costs Redis and the coordinator, for `make cost`;
//! - [`load`]: callers in a closed loop, and what is counted of them.

mod anchors;
mod args;
mod cost;
mod load;
mod runner;

use std::{
    io::{self, Write as _},
    num::NonZeroUsize,
    process::ExitCode,
};

use anyhow::Context as _;
use clap::Parser as _;

use args::{Args, Command};
use lockkeeper_base::threads;

fn main() -> ExitCode {
    let Args { threads, command } = Args::parse();
    let threads = threads.map_or_else(|| command.threads(), NonZeroUsize::get);
    let ended = threads::runtime(threads)
        .enable_all()
        .build()
        .context("no runtime")
        .and_then(|runtime| runtime.block_on(run(command)));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to be told if the terminal is gone.
            let _ = writeln!(io::stderr(), "{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> anyhow::Result<()> {
    let measured = match command {
        Command::Run(args) => return runner::run(&args).await,
        Command::Report { root } => return runner::report(&root),
        Command::Sizing(args) => return runner::size(&args).await,
        Command::Cost => return cost::run().await,
        Command::Bare { listen } => return anchors::bare::serve(listen).await,
        Command::Rslock { store, load } => anchors::rslock::run(&store, &load).await?,
        Command::Etcd {
            server,
            connections,
            hot,
            load,
        } => anchors::etcd::run(&server, connections, hot, &load).await?,
    };
    Ok(writeln!(
        io::stdout(),
        "{}",
        serde_json::to_string(&measured)?
    )?)
}
