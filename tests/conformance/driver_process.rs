//! A driver as a process, see `clients/conformance.md`.

use std::{
    ffi::OsString,
    process::Stdio,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use lockkeeper_base::tasks::spawn_detached;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, Command},
    sync::mpsc,
    time::{Instant, timeout_at},
};

/// How long anything that should happen may take before a scenario fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// A running driver; it is killed with this value.
pub(crate) struct Driver {
    process: Child,
    input: Option<ChildStdin>,
    lines: mpsc::UnboundedReceiver<Seen>,
    seen: Vec<Seen>,
    ids: AtomicU64,
}

/// A line, and when it was read.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) at: Instant,
    pub(crate) event: Value,
}

/// The error that answers a command.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

// === impl Driver ===

impl Driver {
    /// Starts one and waits until it reads commands.
    pub(crate) async fn start(command: &[OsString]) -> Result<Self> {
        let (program, arguments) = command.split_first().context("no command")?;
        let mut process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} cannot be started", program.display()))?;
        let output = process.stdout.take().context("it has an output")?;
        let (sender, lines) = mpsc::unbounded_channel();
        spawn_detached("driver", async move {
            let mut output = BufReader::new(output).lines();
            while let Ok(Some(line)) = output.next_line().await {
                let at = Instant::now();
                let event = serde_json::from_str(&line).unwrap_or_else(|_| json!(line));
                if sender.send(Seen { at, event }).is_err() {
                    return;
                }
            }
        });
        let mut driver = Self {
            input: process.stdin.take(),
            process,
            lines,
            seen: Vec::new(),
            ids: AtomicU64::new(1),
        };
        driver.find("ready", |it| it["event"] == "ready").await?;
        Ok(driver)
    }

    /// The resident memory of its process, in bytes.
    pub(crate) fn memory(&self) -> Result<u64> {
        let process = self.process.id().context("it has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
        let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|it| it.trim().strip_suffix(" kB"));
        Ok(1024 * kilobytes.context("no resident memory")?.parse::<u64>()?)
    }

    /// Sends a command and returns its id.
    pub(crate) async fn send(&mut self, mut command: Value) -> Result<u64> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        command["id"] = json!(id);
        let input = self.input.as_mut().context("its input is closed")?;
        input.write_all(format!("{command}\n").as_bytes()).await?;
        input.flush().await?;
        Ok(id)
    }

    /// Runs a command that has to succeed.
    pub(crate) async fn run(&mut self, command: Value) -> Result<Value> {
        let id = self.send(command).await?;
        self.ok(id).await
    }

    /// The result of a command that has to succeed.
    pub(crate) async fn ok(&mut self, id: u64) -> Result<Value> {
        let answer = self.answer(id).await?;
        ensure!(answer["ok"].is_object(), "command {id} failed: {answer}");
        Ok(answer["ok"].clone())
    }

    /// The failure of a command that has to fail.
    pub(crate) async fn failure(&mut self, id: u64) -> Result<Failure> {
        let answer = self.answer(id).await?;
        let error = &answer["error"];
        ensure!(error.is_object(), "command {id} did not fail: {answer}");
        let text = |field: &str| error[field].as_str().unwrap_or_default().to_owned();
        Ok(Failure {
            kind: text("kind"),
            reason: text("reason"),
            message: text("message"),
        })
    }

    /// The failure of a command, which has to be of this kind.
    pub(crate) async fn fails(&mut self, id: u64, kind: &str) -> Result<Failure> {
        let failure = self.failure(id).await?;
        ensure!(failure.kind == kind, "{kind} expected: {failure:?}");
        Ok(failure)
    }

    /// The result of a command that may fail.
    pub(crate) async fn result(&mut self, id: u64) -> Result<Result<Value, Failure>> {
        Ok(match self.ok(id).await {
            Ok(ok) => Ok(ok),
            Err(_) => Err(self.failure(id).await?),
        })
    }

    async fn answer(&mut self, id: u64) -> Result<Value> {
        let what = format!("an answer to command {id}");
        let seen = self.find(&what, |it| it["id"] == json!(id)).await?;
        Ok(seen.event)
    }

    /// Whether a command is answered already.
    pub(crate) fn is_answered(&mut self, id: u64) -> bool {
        self.drain();
        self.seen.iter().any(|it| it.event["id"] == json!(id))
    }

    /// The loss of a guard.
    pub(crate) async fn lost(&mut self, guard: &str) -> Result<Seen> {
        let what = format!("the loss of {guard}");
        self.find(&what, |it| it["event"] == "lost" && it["guard"] == guard)
            .await
    }

    /// How often a guard was reported lost so far.
    pub(crate) fn losses(&mut self, guard: &str) -> usize {
        self.drain();
        let lost = |it: &&Seen| it.event["event"] == "lost" && it.event["guard"] == guard;
        self.seen.iter().filter(lost).count()
    }

    /// The first request to yield a lock, now or later.
    pub(crate) async fn asked(&mut self, name: &str) -> Result<Seen> {
        let what = format!("the request to yield {name}");
        self.find(&what, |it| is_request(it, name)).await
    }

    /// How often the program was asked to yield a lock so far.
    pub(crate) fn requests(&mut self, name: &str) -> usize {
        self.drain();
        let asked = self.seen.iter().filter(|it| is_request(&it.event, name));
        asked.count()
    }

    /// The first events of a feed, now or later: what happened, and the figures of it.
    pub(crate) async fn told(&mut self, feed: &str, count: usize) -> Result<Vec<String>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let told = self.all_told(feed);
            if told.len() >= count {
                return Ok(told);
            }
            match timeout_at(deadline, self.lines.recv()).await {
                Ok(Some(seen)) => self.seen.push(seen),
                Ok(None) => bail!("the driver has ended, after {told:?}"),
                Err(_) => bail!("{feed} was told no more than {told:?}: {:?}", self.tail()),
            }
        }
    }

    /// What a feed was told so far.
    pub(crate) fn all_told(&mut self, feed: &str) -> Vec<String> {
        self.drain();
        let told = self.seen.iter().map(|it| &it.event);
        let told = told.filter(|it| it["event"] == "told" && it["feed"] == feed);
        told.map(|it| {
            let figures = ["what", "revision", "value", "fencing_token"];
            let figures = figures.into_iter().filter_map(|name| it[name].as_str());
            figures.collect::<Vec<_>>().join(" ")
        })
        .collect()
    }

    /// A state of the session, now or later.
    pub(crate) async fn state(&mut self, state: &str) -> Result<Seen> {
        let what = format!("the session's state {state}");
        self.find(&what, |it| it["event"] == "session" && it["state"] == state)
            .await
    }

    /// The first line that fits, now or later.
    async fn find(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Result<Seen> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.drain();
            if let Some(seen) = self.seen.iter().find(|it| fits(&it.event)) {
                return Ok(seen.clone());
            }
            match timeout_at(deadline, self.lines.recv()).await {
                Ok(Some(seen)) => self.seen.push(seen),
                Ok(None) => bail!("the driver has ended instead of {what}: {:?}", self.tail()),
                Err(_) => bail!("{what} did not come: {:?}", self.tail()),
            }
        }
    }

    fn drain(&mut self) {
        while let Ok(seen) = self.lines.try_recv() {
            self.seen.push(seen);
        }
    }

    fn tail(&self) -> Vec<String> {
        let last = self.seen.iter().rev().take(5).rev();
        last.map(|it| it.event.to_string()).collect()
    }

    /// Kills it.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        self.process.kill().await?;
        Ok(())
    }

    /// Closes its input, after which it has to end by itself.
    pub(crate) async fn end(&mut self) -> Result<()> {
        self.input = None;
        let ended = tokio::time::timeout(PATIENCE, self.process.wait()).await;
        let status = ended.map_err(|_| anyhow!("the driver does not end"))??;
        ensure!(status.success(), "the driver ended with {status}");
        Ok(())
    }
}

fn is_request(event: &Value, name: &str) -> bool {
    event["event"] == "yield_requested" && event["name"] == name
}
