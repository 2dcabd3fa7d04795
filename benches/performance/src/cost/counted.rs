//! A Redis under callgrind.

use std::fs;

use anyhow::{Context as _, ensure};
use tempfile::TempDir;
use tokio::process::Command;

use crate::runner::{Server, free_port, in_path};

/// What the files begin with that callgrind writes, one for each time that it is asked.
const COUNTS: &str = "counts";

/// The line of such a file with the sum of its counts.
const SUM: &str = "totals: ";

/// A Redis whose instructions are counted. It writes nothing to a disk.
#[derive(Debug)]
pub(super) struct CountedRedis {
    server: Server,
    folder: TempDir,
}

// === impl CountedRedis ===

impl CountedRedis {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let missing = "valgrind or redis-server is missing: scripts/install-bench-tools says how";
        let [valgrind, redis] = ["valgrind", "redis-server"].map(in_path);
        let (valgrind, redis) = valgrind.zip(redis).context(missing)?;
        let folder = TempDir::new()?;
        let port = free_port().await?;
        let counts = folder.path().join(COUNTS);
        let mut command = Command::new(valgrind);
        command
            .args(["--tool=callgrind", "--quiet"])
            .arg(format!("--callgrind-out-file={}", counts.display()))
            .arg(redis)
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--save", "", "--appendonly", "no"])
            // As little as possible of what it does besides.
            .args(["--hz", "1", "--dynamic-hz", "no"])
            .current_dir(folder.path());
        let server = Server::start("redis-server under valgrind", port, &mut command).await?;
        Ok(Self { server, folder })
    }

    /// For clients of Redis.
    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.server.port())
    }

    /// Counts from 0 again.
    pub(super) async fn reset(&self) -> anyhow::Result<()> {
        self.ask("zero").await
    }

    /// Instructions since the last reset.
    pub(super) async fn instructions(&self) -> anyhow::Result<f64> {
        self.ask("dump").await?;
        let mut files = Vec::new();
        for entry in fs::read_dir(self.folder.path())? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // The first file has no number and is written at the end.
            if let Some(number) = name
                .strip_prefix(COUNTS)
                .and_then(|it| it.strip_prefix('.'))
            {
                files.push((number.parse::<u32>()?, path));
            }
        }
        let (_, newest) = files.into_iter().max().context("callgrind wrote nothing")?;
        let counts = fs::read_to_string(newest)?;
        let sum = counts.lines().find_map(|line| line.strip_prefix(SUM));
        Ok(sum.context("no sum of the counts")?.trim().parse()?)
    }

    /// Has callgrind do something, and returns when it is done.
    async fn ask(&self, what: &str) -> anyhow::Result<()> {
        let pid = format!("--pid={}", self.server.pid());
        let asked = Command::new("vgdb").args([&pid, what]).output().await?;
        let said = String::from_utf8_lossy(&asked.stderr);
        ensure!(asked.status.success(), "vgdb {what}: {said}");
        Ok(())
    }

    /// Ends it.
    pub(super) async fn end(self) -> anyhow::Result<()> {
        self.server.end().await
    }
}
