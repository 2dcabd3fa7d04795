//! A process that this run has started: it is ended by its own handle, and what it uses is read
//! where the kernel tells it.

use std::{fs, process::Stdio, time::Duration};

use anyhow::{Context as _, bail, ensure};
use nix::unistd::{SysconfVar, sysconf};
use tokio::{
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    time::{Instant, sleep},
};

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// Between two looks at something that should happen.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// The second field of `/proc/<pid>/statm`.
const STATM_RESIDENT_PAGES: usize = 1;

/// A server in a process of its own, which ends with this.
#[derive(Debug)]
pub(crate) struct Server {
    name: &'static str,
    child: Child,
    pid: u32,
    port: u16,
}

/// Where to read what a process uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pid: u32,
}

// === impl Server ===

impl Server {
    /// Starts it and waits until it listens on the port.
    pub(crate) async fn start(
        name: &'static str,
        port: u16,
        command: &mut Command,
    ) -> anyhow::Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        let child = child.with_context(|| format!("{name} cannot be started"))?;
        let pid = child.id().context("it has ended already")?;
        let mut server = Self {
            name,
            child,
            pid,
            port,
        };
        server.listens().await?;
        Ok(server)
    }

    async fn listens(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended at once: {status}", self.name);
            }
            ensure!(Instant::now() < deadline, "{} does not listen", self.name);
            sleep(LOOK_INTERVAL).await;
        }
        Ok(())
    }

    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// For clients over HTTP/2.
    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What it uses.
    pub(super) fn usage(&self) -> Usage {
        Usage::of(self.pid)
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Ends it, and fails if it had ended before.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!(
                "{} ended while it was measured: {status}; process {}",
                self.name,
                self.pid
            );
        }
        Ok(self.child.kill().await?)
    }
}

/// A port that nobody listens on.
pub(crate) async fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    Ok(listener.local_addr()?.port())
}

// === impl Usage ===

impl Usage {
    pub(super) fn of(pid: u32) -> Self {
        Self { pid }
    }

    /// Seconds of processor time of the threads that it has. The times of the whole process, in
    /// `stat`, are too coarse for a measurement of a second.
    pub(super) fn processor_seconds(self) -> anyhow::Result<f64> {
        let mut nanoseconds = 0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.pid))? {
            // A thread that ends meanwhile takes its file along.
            if let Ok(schedstat) = fs::read_to_string(thread?.path().join("schedstat")) {
                nanoseconds += nanoseconds_run(&schedstat).context("no time in schedstat")?;
            }
        }
        ensure!(nanoseconds > 0, "the kernel tells no times of threads");
        Ok(float(nanoseconds) / 1e9)
    }

    /// Bytes of its memory that are in the machine's.
    pub(super) fn resident_bytes(self) -> anyhow::Result<f64> {
        let statm = fs::read_to_string(format!("/proc/{}/statm", self.pid))?;
        let pages = resident_pages(&statm).context("the kernel tells no sizes")?;
        let page = sysconf(SysconfVar::PAGE_SIZE)?.context("no page size")?;
        Ok(float(pages) * float(page.try_into()?))
    }
}

/// The first field of `/proc/<pid>/task/<tid>/schedstat`.
fn nanoseconds_run(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().next()?.parse().ok()
}

fn resident_pages(statm: &str) -> Option<u64> {
    let mut fields = statm.split_whitespace();
    fields.nth(STATM_RESIDENT_PAGES)?.parse().ok()
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_a_thread_ran_is_the_first_one() {
        assert_eq!(nanoseconds_run("3476635 19374013 106\n"), Some(3_476_635));
        assert_eq!(nanoseconds_run(""), None);
    }

    #[test]
    fn the_resident_size_is_the_second_one() {
        assert_eq!(resident_pages("1000 77 3 4 0 5 0"), Some(77));
        assert_eq!(resident_pages(""), None);
    }

    #[test]
    fn this_process_uses_something() {
        let own = Usage::of(std::process::id());
        assert!(own.resident_bytes().unwrap() > 100_000.0);
        assert!(own.processor_seconds().unwrap() > 0.0);
    }
}
