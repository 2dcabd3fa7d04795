//! The load generator: drives a coordinator as its clients would, measures, and checks mutual
//! exclusion with its own witness.

mod args;
mod calls;
mod churn;
mod conduct;
mod cycles;
mod frames;
mod plan;
mod progress;
mod report;
mod resume;
mod session;
mod stage;
mod tally;
#[cfg(test)]
mod tests;
mod timeline;
mod waiters;
mod watch;
mod witness;

use std::{num::NonZeroUsize, process::ExitCode};

use futures::future::try_join_all;
use lockkeeper_base::threads;
use lockkeeper_cli::{client::connect, exit, failure::Failure, output::say};

pub use self::args::BenchArgs;
use self::{args::Scenario, conduct::Interrupts, plan::Plan, report::Report};

/// The runtime for a benchmark: load needs threads.
pub fn runtime(args: &BenchArgs) -> tokio::runtime::Builder {
    let threads = args.threads.map(NonZeroUsize::get);
    threads::runtime(threads.unwrap_or_else(|| threads::half_of(threads::cores())))
}

/// Runs a benchmark; returns the process's exit code.
pub async fn execute(args: BenchArgs) -> ExitCode {
    let format = args.common.output;
    lockkeeper_cli::ended(bench(args).await, format)
}

async fn bench(args: BenchArgs) -> Result<u8, Failure> {
    let format = args.common.output;
    let plan = Plan::new(args)?;
    let mut interrupts = Interrupts::listen()?;
    let clients = (0..plan.connections).map(|_| connect(&plan.server));
    let clients = try_join_all(clients).await?;
    let played = match plan.scenario {
        Scenario::Uncontended | Scenario::Handover | Scenario::Fair | Scenario::ReadMostly => {
            cycles::play(plan, clients, &mut interrupts).await?
        }
        Scenario::Waiters => waiters::play(plan, clients, &mut interrupts).await?,
        Scenario::Watch => watch::play(plan, clients, &mut interrupts).await?,
        Scenario::Resume => resume::play(plan, clients, &mut interrupts).await?,
        Scenario::Churn => churn::play(&plan, &clients, &mut interrupts).await?,
    };
    let report = Report::new(&played.stage, played.extra, played.signal.is_some());
    format.data(&report.to_text(), &report.to_json())?;
    for why in report.void() {
        say(&format!("this run is void: {why}"));
    }
    Ok(match played.signal {
        _ if !report.void().is_empty() => exit::VOID,
        Some(signal) => exit::by_signal(signal),
        None => exit::OK,
    })
}
