//! One measurement: starts what it needs, has the driver print one JSON object, and ends what it
//! started.

use std::{process::Stdio, time::Duration};

use anyhow::{Context as _, bail, ensure};
use futures::future::OptionFuture;
use serde_json::{Value, json};
use tokio::{process::Command, time::timeout, try_join};

use super::{
    measurements::{Driver, Measurement, Target, WATCH_SESSIONS},
    process::{Server, Usage},
    results::{Options, rate_of},
    sampler::{Sampler, memory_per_waiter, processor_share, watched},
    servers::{InFolder, Programs},
};

/// Connections of every client over HTTP/2.
const CONNECTIONS: &str = "4";

/// What a driver may take longer than its warm-up and its time, until it counts as hung.
const PATIENCE: Duration = Duration::from_secs(300);

/// Calls of a crowd under way at once until all wait.
const CROWD_IN_FLIGHT: &str = "1024";

/// The part of the time in which servers are looked at: away from its ends, because the driver does
/// not count it from the same moment.
pub(super) const SETTLED: [f64; 2] = [0.2, 0.9];

/// What is measured, and where to find it.
struct Started {
    redis: Option<InFolder>,
    etcd: Option<InFolder>,
    /// The one whose use of the machine counts.
    server: Option<Server>,
    url: String,
}

/// Measures once.
pub(super) async fn measure(
    measurement: &Measurement,
    programs: &Programs,
    options: &Options,
) -> anyhow::Result<Value> {
    let started = start(measurement, programs).await?;
    let measured = match measurement.by {
        Driver::Bench | Driver::Anchor | Driver::Redisson => {
            timed(measurement, programs, options, &started).await
        }
        Driver::Batch => {
            let command = driver(measurement, programs, options, &started)?;
            printed(command, limit(measurement, options, options.seconds)).await
        }
        Driver::Watch => watch(measurement, programs, options, &started).await,
        Driver::Blocked => blocked(measurement, programs, options, &started).await,
    };
    let ended = started.end().await;
    let measured = measured?;
    ended?;
    Ok(measured)
}

async fn start(measurement: &Measurement, programs: &Programs) -> anyhow::Result<Started> {
    let (mut redis, mut etcd) = (None, None);
    if matches!(measurement.on, Target::Coordinator | Target::Redis) {
        redis = Some(programs.store(measurement.store).await?);
    }
    let store = redis
        .as_ref()
        .map_or("embedded:".to_owned(), InFolder::redis_url);
    let server = match measurement.on {
        Target::Coordinator | Target::Embedded => {
            Some(programs.coordinator(&store, measurement.settings).await?)
        }
        Target::Bare => Some(programs.bare().await?),
        Target::Redis => None,
        Target::Etcd => {
            etcd = Some(programs.etcd().await?);
            None
        }
    };
    let url = match (&server, &etcd) {
        (Some(server), _) => server.url(),
        (None, Some(etcd)) => etcd.server.url(),
        (None, None) => store,
    };
    Ok(Started {
        redis,
        etcd,
        server,
        url,
    })
}

/// The command that measures for a time and prints what it saw.
fn driver(
    measurement: &Measurement,
    programs: &Programs,
    options: &Options,
    started: &Started,
) -> anyhow::Result<Command> {
    let words = measurement.words.split(' ');
    let warm_up = measurement.warm_up_seconds(options);
    let [warm_up, seconds] = [warm_up, options.seconds].map(|it| it.to_string());
    Ok(match measurement.by {
        Driver::Redisson => {
            let (agent, java) = programs.redisson.as_ref().context("Redisson is missing")?;
            let classes = format!("{0}/agent.jar:{0}/lib/*", agent.display());
            let mut command = Command::new(java);
            command
                .args(["-cp", &classes, "lockkeeper.interop.Bench", &started.url])
                .args(words)
                .args([&warm_up, &seconds]);
            command
        }
        Driver::Anchor => {
            let to = if started.etcd.is_some() {
                "--server"
            } else {
                "--store"
            };
            let mut command = Command::new(&programs.own);
            command.args(words).args([to, &started.url]).args([
                "--warm-up",
                &warm_up,
                "--duration",
                &seconds,
            ]);
            command
        }
        Driver::Bench | Driver::Batch | Driver::Watch | Driver::Blocked => {
            let mut command = Command::new(&programs.coordinator);
            command
                .arg("bench")
                .args(words)
                .args(["--server", &started.url, "--connections", CONNECTIONS])
                .args(["--output", "json", "--warm-up", &format!("{warm_up}s")]);
            if measurement.by != Driver::Watch {
                command.args(["--duration", &format!("{seconds}s")]);
            }
            command
        }
    })
}

fn limit(measurement: &Measurement, options: &Options, seconds: f64) -> Duration {
    PATIENCE + Duration::from_secs_f64(measurement.warm_up_seconds(options) + seconds)
}

/// Runs a driver to its end, and returns the JSON object that it printed.
pub(crate) async fn printed(mut command: Command, limit: Duration) -> anyhow::Result<Value> {
    let running = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = timeout(limit, running).await.context("it does not end")??;
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().last().unwrap_or("nothing").to_owned();
    if !output.status.success() {
        bail!("{}: {said}", output.status);
    }
    let printed: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("no JSON was printed; it said {said}"))?;
    ensure!(printed["void"] != true, "void: {}", printed["void_because"]);
    Ok(printed)
}

/// Operations for a time: also what one costs the processors of the servers.
async fn timed(
    measurement: &Measurement,
    programs: &Programs,
    options: &Options,
    started: &Started,
) -> anyhow::Result<Value> {
    let warm_up = measurement.warm_up_seconds(options);
    let settled = SETTLED.map(|part| warm_up + part * options.seconds);
    let share = async |of: Option<Usage>| {
        let share = of.map(|usage| processor_share(usage, settled));
        OptionFuture::from(share).await.transpose()
    };
    let command = driver(measurement, programs, options, started)?;
    let limit = limit(measurement, options, options.seconds);
    let (mut done, server, redis) = try_join!(
        printed(command, limit),
        share(started.server_usage()),
        share(started.redis_usage()),
    )?;
    let (rate, _) = rate_of(&done).context("no rate was printed")?;
    for (of, share) in [("server", server), ("redis", redis)] {
        if let Some(share) = share {
            done["processor_us"][of] = json!(1e6 * share / rate);
        }
    }
    Ok(done)
}

/// Renewals of many grants: what they cost while all are held.
async fn watch(
    measurement: &Measurement,
    programs: &Programs,
    options: &Options,
    started: &Started,
) -> anyhow::Result<Value> {
    let server = started.server.as_ref().context("no server")?;
    let redis = started.redis.as_ref().map(InFolder::redis_url);
    let mut sampler = Sampler::new(server.usage(), redis.as_deref()).await?;
    let mut command = driver(measurement, programs, options, started)?;
    command
        .args(["--names", &options.watched_grants.to_string()])
        .args(["--sessions", WATCH_SESSIONS])
        .args(["--duration", &format!("{}s", options.watch_seconds)]);
    let limit = limit(measurement, options, options.watch_seconds);
    let (done, seen) = sampler.until(printed(command, limit)).await?;
    let mut done = done?;
    let watched = watched(&seen, options.watched_grants.try_into()?)?;
    done["watched"] = json!(watched);
    Ok(done)
}

/// Streams that wait: what memory they take while all do.
async fn blocked(
    measurement: &Measurement,
    programs: &Programs,
    options: &Options,
    started: &Started,
) -> anyhow::Result<Value> {
    let server = started.server.as_ref().context("no server")?;
    let mut sampler = Sampler::new(server.usage(), None).await?;
    let before = sampler.look().await?.resident_bytes;
    let mut command = driver(measurement, programs, options, started)?;
    command
        .args(["--waiters", &options.blocked_streams.to_string()])
        .args(["--in-flight", CROWD_IN_FLIGHT]);
    let limit = limit(measurement, options, options.seconds);
    let (done, seen) = sampler.until(printed(command, limit)).await?;
    let mut done = done?;
    let established = done["established_s"].as_f64();
    let established = established.context("they never all waited")?;
    ensure!(
        done["waiters"] == options.blocked_streams,
        "only {} waited",
        done["waiters"]
    );
    let settled = SETTLED.map(|part| established + part * options.seconds);
    let bytes = memory_per_waiter(before, &seen, settled, options.blocked_streams)?;
    done["bytes_per_waiter"] = json!(bytes);
    Ok(done)
}

// === impl Started ===

impl Started {
    /// Of what the driver calls, unless that is Redis.
    fn server_usage(&self) -> Option<Usage> {
        let etcd = self.etcd.as_ref().map(|etcd| &etcd.server);
        self.server.as_ref().or(etcd).map(Server::usage)
    }

    fn redis_usage(&self) -> Option<Usage> {
        self.redis.as_ref().map(|redis| redis.server.usage())
    }

    async fn end(self) -> anyhow::Result<()> {
        if let Some(server) = self.server {
            server.end().await?;
        }
        for store in [self.redis, self.etcd].into_iter().flatten() {
            store.end().await?;
        }
        Ok(())
    }
}
