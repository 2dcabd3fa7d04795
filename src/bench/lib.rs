//! The load generator: drives a coordinator as its clients would, measures, and watches with its
//! own eyes that a lock stays one.

mod args;
mod calls;
mod churn;
mod conduct;
mod frames;
mod plan;
mod progress;
mod report;
mod session;
mod stage;
mod tally;
#[cfg(test)]
mod tests;
mod timeline;
mod waiters;
mod watch;
mod witness;

use std::{num::NonZeroUsize, process::ExitCode, sync::Arc};

use futures::future::try_join_all;
use lockkeeper_base::threads;
use lockkeeper_cli::{
    client::{Client, connect},
    exit,
    failure::Failure,
    output::say,
};
use serde_json::Value;

use self::{
    args::Scenario,
    conduct::{Interrupts, conduct},
    plan::Plan,
    progress::Progress,
    report::Report,
    session::{Session, not_opened},
    stage::Stage,
};

pub use self::args::BenchArgs;

/// What a scenario leaves.
struct Played {
    stage: Arc<Stage>,
    /// The signal that ended it before its time.
    signal: Option<i32>,
    /// Figures that only it has.
    extra: Vec<(&'static str, Value)>,
}

/// The runtime for a benchmark: what makes load needs threads.
pub fn runtime(args: &BenchArgs) -> tokio::runtime::Builder {
    let threads = args.threads.map(NonZeroUsize::get);
    threads::runtime(threads.unwrap_or_else(|| threads::half_of(threads::cores())))
}

/// Runs a benchmark; returns the process's exit code.
pub async fn execute(args: BenchArgs) -> ExitCode {
    lockkeeper_cli::ended(bench(args).await)
}

async fn bench(args: BenchArgs) -> Result<u8, Failure> {
    let format = args.common.output;
    let plan = Plan::new(args)?;
    let mut interrupts = Interrupts::listen()?;
    let clients = (0..plan.connections).map(|_| connect(&plan.server));
    let clients = try_join_all(clients).await?;
    let played = match plan.scenario {
        Scenario::Uncontended | Scenario::Handover | Scenario::Fair | Scenario::ReadMostly => {
            cycles(plan, clients, &mut interrupts).await?
        }
        Scenario::Waiters => waiters::play(plan, clients, &mut interrupts).await?,
        Scenario::Watch => watch::play(plan, clients, &mut interrupts).await?,
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

/// Locks that are taken and given back, again and again.
async fn cycles(
    plan: Plan,
    mut clients: Vec<Client>,
    interrupts: &mut Interrupts,
) -> Result<Played, Failure> {
    let (stage, tasks) = if plan.frames {
        let lease = plan.lease;
        let sessions = clients.iter_mut().map(|it| Session::open(it, lease));
        let sessions = try_join_all(sessions).await.map_err(not_opened)?;
        let stage = Arc::new(Stage::new(plan));
        let tasks = frames::start(&stage, sessions);
        (stage, tasks)
    } else {
        let stage = Arc::new(Stage::new(plan));
        let tasks = calls::start(&stage, &clients);
        (stage, tasks)
    };
    let progress = Progress::show(&stage);
    let signal = conduct(&stage, tasks, interrupts).await?;
    drop(progress);
    Ok(Played::new(stage, signal))
}

// === impl Played ===

impl Played {
    fn new(stage: Arc<Stage>, signal: Option<i32>) -> Self {
        Self {
            stage,
            signal,
            extra: Vec::new(),
        }
    }
}
