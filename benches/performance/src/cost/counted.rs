//! Servers under callgrind.

use std::{ffi::OsStr, fs, path::Path};

use anyhow::{Context as _, ensure};
use tempfile::TempDir;
use tokio::process::Command;

use crate::runner::{Server, free_port, in_path};

/// What the files begin with that callgrind writes, one for each time that it is asked.
const COUNTS: &str = "counts";

/// The line of such a file with the sum of its counts.
const SUM: &str = "totals: ";

/// A server whose instructions are counted.
#[derive(Debug)]
pub(super) struct Counted {
    server: Server,
    folder: TempDir,
}

// === impl Counted ===

impl Counted {
    /// A Redis that writes nothing to a disk.
    pub(super) async fn redis() -> anyhow::Result<Self> {
        let redis = in_path("redis-server").context("redis-server is missing")?;
        let port = free_port().await?;
        let arguments = ["--save", "", "--appendonly", "no", "--bind", "127.0.0.1"];
        // As little as possible of what it does besides.
        let quiet = ["--hz", "1", "--dynamic-hz", "no", "--port"];
        let port_word = port.to_string();
        let arguments = arguments.into_iter().chain(quiet).chain([&*port_word]);
        Self::start("redis-server under valgrind", &redis, port, arguments).await
    }

    /// A coordinator on the store, whose one thread does nothing while it has nothing to do.
    pub(super) async fn coordinator(program: &Path, store: &str) -> anyhow::Result<Self> {
        let port = free_port().await?;
        let listen = format!("127.0.0.1:{port}");
        let serve = ["serve", "--listen", &listen, "--store", store];
        let settings = ["server.worker_threads=1", "server.busy_poll=0s"];
        let settings = settings.iter().flat_map(|setting| ["--set", setting]);
        let arguments = serve.into_iter().chain(settings);
        let name = "the coordinator under valgrind";
        Self::start(name, program, port, arguments).await
    }

    async fn start<'a>(
        name: &'static str,
        program: &Path,
        port: u16,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> anyhow::Result<Self> {
        let valgrind = in_path("valgrind")
            .context("valgrind is missing: scripts/install-bench-tools says how")?;
        let folder = TempDir::new()?;
        let counts = folder.path().join(COUNTS);
        let mut command = Command::new(valgrind);
        command
            .args(["--tool=callgrind", "--quiet"])
            .arg(format!("--callgrind-out-file={}", counts.display()))
            .arg(program)
            .args(arguments.into_iter().map(OsStr::new))
            .current_dir(folder.path());
        let server = Server::start(name, port, &mut command).await?;
        Ok(Self { server, folder })
    }

    /// The port of 127.0.0.1 that it listens on.
    pub(super) fn port(&self) -> u16 {
        self.server.port()
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
