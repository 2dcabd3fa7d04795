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

/// Fields of `/proc/<pid>/stat`, counted from the one behind the program's name.
const STAT_USER_TICKS: usize = 11;
const STAT_SYSTEM_TICKS: usize = 12;

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
        Usage { pid: self.pid }
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
    /// Seconds of processor time since it started, of all its threads.
    pub(super) fn processor_seconds(self) -> anyhow::Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid))?;
        let ticks = processor_ticks(&stat).context("the kernel tells no times")?;
        let per_second = sysconf(SysconfVar::CLK_TCK)?.context("no clock ticks")?;
        Ok(float(ticks) / float(per_second.try_into()?))
    }

    /// Bytes of its memory that are in the machine's.
    pub(super) fn resident_bytes(self) -> anyhow::Result<f64> {
        let statm = fs::read_to_string(format!("/proc/{}/statm", self.pid))?;
        let pages = resident_pages(&statm).context("the kernel tells no sizes")?;
        let page = sysconf(SysconfVar::PAGE_SIZE)?.context("no page size")?;
        Ok(float(pages) * float(page.try_into()?))
    }
}

/// The name of the program, which may contain anything, is in parentheses.
fn processor_ticks(stat: &str) -> Option<u64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    let user: u64 = fields.get(STAT_USER_TICKS)?.parse().ok()?;
    let system: u64 = fields.get(STAT_SYSTEM_TICKS)?.parse().ok()?;
    Some(user + system)
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
    fn the_times_stand_behind_a_name_with_anything_in_it() {
        let stat = "42 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 9 0 100";
        assert_eq!(processor_ticks(stat), Some(300));
        assert_eq!(processor_ticks("42 (a) S 1"), None);
    }

    #[test]
    fn the_resident_size_is_the_second_one() {
        assert_eq!(resident_pages("1000 77 3 4 0 5 0"), Some(77));
        assert_eq!(resident_pages(""), None);
    }

    #[test]
    fn this_process_uses_something() {
        let own = Usage {
            pid: std::process::id(),
        };
        assert!(own.resident_bytes().unwrap() > 100_000.0);
        assert!(own.processor_seconds().unwrap() >= 0.0);
    }
}
