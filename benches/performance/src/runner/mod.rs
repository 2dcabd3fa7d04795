//! The run as a whole: rounds in which everything is measured in turn, a file with what came of it,
//! and the document made from that.
//!
//! - [`measurements`]: what is measured, [`measure`] how one is, on [`servers`] that are each a
//!   [`process`], seen by [`sampler`];
//! - [`results`]: what is kept; [`statistics`]: what several rounds came to;
//! - [`sizing`]: what one coordinator carries;
//! - [`reach`]: the ratios and their goals; [`document`]: what people read, in its [`format`], with
//!   the [`machine`].

mod document;
mod format;
mod machine;
mod measure;
mod measurements;
mod process;
mod reach;
mod results;
mod sampler;
mod servers;
mod sizing;
mod statistics;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use tokio::signal::unix::{SignalKind, signal};

use self::{
    measure::measure,
    measurements::{ALL, Measurement},
    results::{Options, Outcome, Results, Round},
};
pub(crate) use self::{
    measure::printed,
    process::{Server, free_port},
    servers::{Programs, in_path},
};
use crate::args::{RunArgs, SizingArgs};

/// Where results go, seen from the root of the tree.
const RESULTS: &str = "target/bench/results.json";

const DOCUMENT: &str = "docs/performance.md";

/// Renewals come once in a third of a lease: each grant has one or more in this time.
const WATCH_SECONDS_MIN: f64 = 12.0;

/// Measures everything, and writes the document. Ends all that it has started if it is told to
/// stop.
pub(crate) async fn run(args: &RunArgs) -> anyhow::Result<()> {
    unless_stopped(Box::pin(rounds(args))).await?;
    report(&args.root)
}

/// Measures what one coordinator carries, and prints a table. Ends all that it has started if it is
/// told to stop.
pub(crate) async fn size(args: &SizingArgs) -> anyhow::Result<()> {
    unless_stopped(Box::pin(sizing::size(args))).await
}

async fn unless_stopped(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        done = work => done,
        _ = terminate.recv() => bail!("stopped by a signal"),
        _ = tokio::signal::ctrl_c() => bail!("stopped by a signal"),
    }
}

/// Writes the document from the results that there are.
pub(crate) fn report(root: &Path) -> anyhow::Result<()> {
    let results = Results::read(&root.join(RESULTS))?;
    let document = root.join(DOCUMENT);
    fs::write(&document, document::write(&results))
        .with_context(|| format!("{} cannot be written", document.display()))?;
    tell(&format!("wrote {}", document.display()));
    let failures = results.failures();
    for failure in &failures {
        tell(&format!("FAILED {failure}"));
    }
    anyhow::ensure!(failures.is_empty(), "some measurements failed");
    Ok(())
}

async fn rounds(args: &RunArgs) -> anyhow::Result<()> {
    let (programs, missing) = Programs::find()?;
    for (name, why) in &missing {
        tell(&format!("MISSING {name}: {why}"));
    }
    let options = Options {
        rounds: args.rounds.get(),
        seconds: args.seconds,
        warm_up_seconds: (args.seconds / 2.0).clamp(0.5, 2.0),
        watched_grants: args.watched_grants,
        watch_seconds: (3.0 * args.seconds).max(WATCH_SECONDS_MIN),
        blocked_streams: args.blocked_streams,
    };
    let mut results = Results {
        machine: machine::look(&programs),
        options,
        missing: missing.into_iter().collect(),
        rounds: Vec::new(),
    };
    let file: PathBuf = args.root.join(RESULTS);
    for number in 1..=options.rounds {
        let mut round = Round(BTreeMap::new());
        for measurement in chosen(args, &results) {
            let outcome = match measure(measurement, &programs, &options).await {
                Ok(printed) => Outcome::Measured(printed),
                Err(error) => Outcome::Failed(format!("{error:#}")),
            };
            let told = told(&outcome);
            tell(&format!(
                "round {number}/{} {:20} {told}",
                options.rounds, measurement.name
            ));
            round.0.insert(measurement.name.to_owned(), outcome);
        }
        results.rounds.push(round);
        // After each round, so that a long run that is stopped has not been for nothing.
        results.write(&file)?;
    }
    tell(&format!("wrote {}", file.display()));
    Ok(())
}

/// What measurements are called.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|it| it.name)
}

/// Those for which everything is installed, and that were asked for.
fn chosen(args: &RunArgs, results: &Results) -> Vec<&'static Measurement> {
    let is_there = |it: &&Measurement| {
        it.needs()
            .is_none_or(|needed| !results.missing.contains_key(needed))
    };
    let is_wanted =
        |it: &&Measurement| args.only.is_empty() || args.only.iter().any(|name| name == it.name);
    ALL.iter().filter(is_there).filter(is_wanted).collect()
}

/// One line for who waits.
fn told(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Failed(why) => format!("FAILED: {why}"),
        Outcome::Measured(printed) => document::figures(printed),
    }
}

fn tell(line: &str) {
    // Nobody is left to be told if the terminal is gone.
    let _ = writeln!(io::stderr(), "{line}");
}
