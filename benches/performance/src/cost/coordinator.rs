//! What an operation costs the coordinator.

use std::{io::Write, time::Duration};

use anyhow::Context as _;
use tokio::process::Command;

use super::counted::Counted;
use crate::runner::{Programs, printed};

/// What is counted: its name, and the scenario of `lockkeeper bench`. The first counts for nothing.
const SCENARIOS: [(&str, &str); 7] = [
    ("", "uncontended"),
    ("acquire and release by RPC, 64 callers", "uncontended"),
    (
        "acquire and release as frames, 64 in flight",
        "uncontended --frames",
    ),
    (
        "the same, 256 in flight",
        "uncontended --frames --in-flight 256",
    ),
    ("a hand-over by RPC, 64 waiters", "handover"),
    ("a hand-over as frames, 64 waiters", "handover --frames"),
    (
        "a hand-over of a fair lock as frames, 64 waiters",
        "fair --frames",
    ),
];

/// What `lockkeeper bench` counts of each: an acquire and its release.
const OPERATIONS_OF_EACH: f64 = 2.0;

/// How long each runs. Sessions are opened once in this time.
const SECONDS: &str = "20s";

/// How long `lockkeeper bench` may take for that.
const PATIENCE: Duration = Duration::from_secs(120);

/// Counts each operation, and writes its row.
pub(super) async fn count(out: &mut impl Write) -> anyhow::Result<()> {
    let (programs, _) = Programs::find()?;
    let redis = programs.redis().await?;
    let coordinator = Counted::coordinator(&programs.coordinator, &redis.redis_url()).await?;
    let server = format!("http://127.0.0.1:{}", coordinator.port());
    for (what, words) in SCENARIOS {
        coordinator.reset().await?;
        let mut bench = Command::new(&programs.coordinator);
        bench
            .arg("bench")
            .args(words.split(' '))
            .args(["--server", &server, "--output", "json"])
            .args(["--warm-up", "0s", "--duration", SECONDS]);
        let measured = printed(bench, PATIENCE).await?;
        let operations = measured["operations"].as_f64().context("no operations")?;
        let instructions = coordinator.instructions().await?;
        if !what.is_empty() {
            let thousands = instructions / operations * OPERATIONS_OF_EACH / 1000.0;
            writeln!(out, "| {what} | {thousands:.1} |")?;
        }
    }
    coordinator.end().await?;
    redis.end().await
}
