//! What one coordinator carries, for `make sizing`: many watched grants, many waiters, and many
//! sessions that all come to it at once because their coordinator was killed.

use std::{
    io::{self, Write as _},
    process::{Output, Stdio},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    process::{ChildStderr, Command},
    time::{Instant, sleep, timeout},
};

use super::{
    format::{latency, rate, ratio},
    measure::{SETTLED, printed},
    process::{Server, Usage, float},
    sampler::{Sampler, memory_per_waiter, watched},
    servers::Programs,
};
use crate::args::SizingArgs;

/// Above the defaults of this machine's memory, so that what gives way is not a limit.
const SETTINGS: &[(&str, &str)] = &[
    (
        "session.secret",
        "a secret that both coordinators of a run have",
    ),
    ("limits.sessions_max", "1000000"),
    ("limits.connection_streams_max", "1000000"),
    ("limits.waiters_max", "1000000"),
    ("limits.waiters_per_lock_max", "1000000"),
];

const CONNECTIONS: &str = "8";

/// Calls under way until everything is held or waits.
const IN_FLIGHT: &str = "512";

/// How long waiters wait.
const HELD_SECONDS: f64 = 20.0;

/// How long grants are held, and from when on their cost counts: each is renewed three times.
const WATCHED_SECONDS: f64 = 40.0;
const SETTLED_AFTER: f64 = 10.0;

/// How long the resumed sessions are looked at after their coordinator was killed, so that each
/// grant is renewed at least twice.
const RESUMED_SECONDS: u32 = 45;

/// What the callers with other sessions do meanwhile.
const OTHERS: &str = "uncontended --frames --in-flight 8 --connections 1 --threads 1 --warm-up 0s \
                      --duration 20s";

/// What a coordinator does before its memory is what it has at the start: one that has served nobody
/// has read little of its program.
const FIRST: &str = "uncontended --frames --in-flight 1 --connections 1 --threads 1 --warm-up 0s \
                     --duration 1s";

/// How long any of it may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// By when the memory should be back, and to how many times of what it was.
const BACK_AFTER: Duration = Duration::from_secs(60);
const BACK_BELOW: f64 = 1.5;

/// Measures everything and prints a table.
pub(super) async fn size(args: &SizingArgs) -> anyhow::Result<()> {
    let (programs, _missing) = Programs::find()?;
    let mut table = Table::begin()?;
    grants(&programs, args, &mut table).await?;
    waiters(&programs, args, &mut table).await?;
    failover(&programs, args, &mut table).await
}

/// The lines as they come.
struct Table(io::Stdout);

impl Table {
    fn begin() -> anyhow::Result<Self> {
        let mut table = Self(io::stdout());
        writeln!(table.0, "| what | figure | value |\n|---|---|---|")?;
        Ok(table)
    }

    fn row(&mut self, what: &str, figure: &str, value: &str) -> anyhow::Result<()> {
        Ok(writeln!(self.0, "| {what} | {figure} | {value} |")?)
    }
}

fn bench(programs: &Programs, server: &Server, words: &str) -> Command {
    let mut command = Command::new(&programs.coordinator);
    command.arg("bench").args(words.split_whitespace()).args([
        "--server",
        &server.url(),
        "--output",
        "json",
    ]);
    command
}

/// The resident memory of a coordinator that has served one caller.
async fn at_start(programs: &Programs, server: &Server) -> anyhow::Result<f64> {
    printed(bench(programs, server, FIRST), PATIENCE).await?;
    server.usage().resident_bytes()
}

fn number(printed: &Value, pointer: &str) -> anyhow::Result<f64> {
    let number = printed.pointer(pointer).and_then(Value::as_f64);
    number.with_context(|| format!("no {pointer} was printed"))
}

async fn grants(programs: &Programs, args: &SizingArgs, table: &mut Table) -> anyhow::Result<()> {
    let redis = programs.redis().await?;
    let server = programs.coordinator(&redis.redis_url(), SETTINGS).await?;
    let before = at_start(programs, &server).await?;
    let mut sampler = Sampler::new(server.usage(), Some(&redis.redis_url())).await?;
    let SizingArgs {
        grants,
        grant_sessions,
        ..
    } = args;
    let words = format!(
        "watch --names {grants} --sessions {grant_sessions} --connections {CONNECTIONS} \
         --in-flight {IN_FLIGHT} --duration {WATCHED_SECONDS}s"
    );
    let running = printed(bench(programs, &server, &words), PATIENCE);
    let (done, mut seen) = sampler.until(running).await?;
    let done = done?;
    let established = number(&done, "/established_s")?;
    let settled = established + SETTLED_AFTER;
    let until_end = [settled, established + WATCHED_SECONDS];
    let bytes = memory_per_waiter(before, &seen, until_end, *grants)?;
    seen.retain(|it| it.at >= settled);
    let costs = watched(&seen, (*grants).try_into()?)?;
    let what = format!("{grants} watched grants in {grant_sessions} sessions");
    table.row(&what, "all held after", &format!("{established:.1} s"))?;
    table.row(&what, "memory of each", &format!("{} bytes", rate(bytes)))?;
    table.row(&what, "share of a core", &ratio(costs.processor_share))?;
    let commands = ratio(costs.commands_per_renewal);
    table.row(&what, "commands of Redis for a renewal", &commands)?;
    let least = ratio(number(&done, "/least_remaining_lease")?);
    table.row(&what, "least of a lease that was left", &least)?;
    back(&what, table, server.usage(), before).await?;
    server.end().await?;
    redis.end().await
}

async fn waiters(programs: &Programs, args: &SizingArgs, table: &mut Table) -> anyhow::Result<()> {
    let redis = programs.redis().await?;
    let server = programs.coordinator(&redis.redis_url(), SETTINGS).await?;
    let before = at_start(programs, &server).await?;
    let mut sampler = Sampler::new(server.usage(), None).await?;
    let waiters = args.waiters;
    let words = format!(
        "waiters --waiters {waiters} --connections {CONNECTIONS} --in-flight {IN_FLIGHT} \
         --duration {HELD_SECONDS}s"
    );
    let running = printed(bench(programs, &server, &words), PATIENCE);
    let (done, seen) = sampler.until(running).await?;
    let established = number(&done?, "/established_s")?;
    let waiting = SETTLED.map(|part| established + part * HELD_SECONDS);
    let bytes = memory_per_waiter(before, &seen, waiting, waiters)?;
    let what = format!("{waiters} blocked `Acquire` streams");
    table.row(&what, "all waiting after", &format!("{established:.1} s"))?;
    table.row(&what, "memory of each", &format!("{} bytes", rate(bytes)))?;
    back(&what, table, server.usage(), before).await?;
    server.end().await?;
    redis.end().await
}

/// A coordinator with many sessions is killed, and all go on at another one.
async fn failover(programs: &Programs, args: &SizingArgs, table: &mut Table) -> anyhow::Result<()> {
    let redis = programs.redis().await?;
    let first = programs.coordinator(&redis.redis_url(), SETTINGS).await?;
    let second = programs.coordinator(&redis.redis_url(), SETTINGS).await?;
    let before = at_start(programs, &second).await?;
    let (sessions, resume_on) = (args.sessions, second.url());
    let words = format!(
        "resume --sessions {sessions} --connections {CONNECTIONS} --in-flight {IN_FLIGHT} \
         --duration {RESUMED_SECONDS}s --resume-on {resume_on}"
    );
    let mut resuming = bench(programs, &first, &words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let said = resuming.stderr.take().context("no standard error")?;
    let mut said = BufReader::new(said);
    timeout(PATIENCE, until_held(&mut said)).await??;
    let at_rest = first.usage().resident_bytes()?;
    let used = second.usage().processor_seconds()?;
    first.end().await?;
    let others = printed(bench(programs, &second, OTHERS), PATIENCE);
    let (others, output) = tokio::join!(others, timeout(PATIENCE, resuming.wait_with_output()));
    let resumed = figures(&output??, said).await?;
    let used = second.usage().processor_seconds()? - used;
    let what = format!("{sessions} sessions with a grant each, whose coordinator is killed");
    let each = (at_rest - before) / float(sessions as u64);
    table.row(&what, "memory of each", &format!("{} bytes", rate(each)))?;
    let took = number(&resumed, "/resumed_s")?;
    table.row(&what, "all resumed after", &format!("{took:.1} s"))?;
    table.row(
        &what,
        "grants lost",
        &resumed["witness"]["lost"].to_string(),
    )?;
    table.row(&what, "attempts refused", &resumed["errors"].to_string())?;
    let figure = format!("processor time in {RESUMED_SECONDS} s, of each");
    let each = latency(1e6 * used / float(sessions as u64));
    table.row(&what, &figure, &each)?;
    let others = others?;
    for quantile in ["p50", "p99", "max"] {
        let at = number(&others, &format!("/latency_us/try_acquire/{quantile}"))?;
        let figure = format!("`TryAcquire` of other sessions meanwhile, {quantile}");
        table.row(&what, &figure, &latency(at))?;
    }
    back(&what, table, second.usage(), before).await?;
    second.end().await?;
    redis.end().await
}

/// Reads what a run says until all of its sessions hold their locks.
async fn until_held(said: &mut BufReader<ChildStderr>) -> anyhow::Result<()> {
    let mut line = String::new();
    while !line.contains("all sessions hold their locks") {
        line.clear();
        ensure!(said.read_line(&mut line).await? > 0, "the run has ended");
    }
    Ok(())
}

async fn figures(output: &Output, mut said: BufReader<ChildStderr>) -> anyhow::Result<Value> {
    let mut text = String::new();
    said.read_to_string(&mut text).await?;
    let printed = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "{}: {text}{printed}",
        output.status
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// What the process has kept once everything has ended.
async fn back(what: &str, table: &mut Table, usage: Usage, before: f64) -> anyhow::Result<()> {
    let ended_at = Instant::now();
    let mut size = usage.resident_bytes()? / before;
    while size >= BACK_BELOW && ended_at.elapsed() < BACK_AFTER {
        sleep(Duration::from_secs(1)).await;
        size = usage.resident_bytes()? / before;
    }
    let after = ended_at.elapsed().as_secs();
    let value = format!("{} after {after} s", ratio(size));
    table.row(
        what,
        "memory after the end, against that at the start",
        &value,
    )
}
