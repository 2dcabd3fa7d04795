//! All languages contend for one lock, and Redisson does if its agent is built, while coordinators
//! are killed and frozen. What all of them saw is one history, and one checker judges it.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    path::Path,
    time::Duration,
};

use anyhow::{Error, Result, anyhow, ensure};
use deadpool_redis::redis::from_redis_value;
use lockkeeper_testkit::{
    checker::{Bounds, check},
    coordinator::{Coordinator, Settings},
    heartbeat,
    history::{At, Event, History},
    line::Line,
    redis_server::RedisServer,
    redisson,
};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    driver_process::{Driver, PATIENCE},
    real::scene::{LEASE, SECRET, connect_to},
    trial::{Language, Unsafe},
};

const NAME: &str = "contended";

/// Contenders of each language, each with a process of its own.
const EACH: usize = 2;

const HOLD: Duration = Duration::from_millis(2);

/// Who contends.
struct Contenders {
    drivers: Vec<(Driver, u64)>,
    redisson: Option<redisson::Contenders>,
    names: BTreeSet<String>,
}

/// Contention for `CONTENTION_SECONDS` (10) at three coordinators, one of which at a time is killed
/// or frozen.
pub(crate) async fn contend(languages: &[Language]) -> Result<()> {
    let seconds = env::var("CONTENTION_SECONDS").map_or(Ok(10), |it| it.parse())?;
    let time = Duration::from_secs(seconds);
    let redis = RedisServer::start().await;
    let settings = Settings::on(&redis.url())
        .with("session.secret", SECRET)
        .with_age_max(time + 8 * PATIENCE);
    let mut coordinators = Vec::new();
    for _ in 0..3 {
        coordinators.push(Coordinator::start(&settings).await);
    }
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("history");
    let (begun, history) = (Instant::now(), History::begin());
    let mut contenders = Contenders::start(languages, &coordinators, time, &file).await?;
    contenders.start_redisson(&redis, time, &file)?;
    let names = contenders.names.clone();
    strike(&mut coordinators, begun + time).await;
    let stopped = begun.elapsed();
    contenders.end().await?;
    let bounds = Bounds {
        lease: LEASE,
        busy: 1,
        fault: At::ZERO,
        healed: At::ZERO,
        stopped,
        end: history.now(),
        lateness: heartbeat::lateness(begun, Instant::now()),
    };
    let text = std::fs::read_to_string(&file)?;
    history.add(&text, 0, 0).map_err(Error::msg)?;
    judge(&text, &names, &history.take(), &bounds)?;
    nothing_left(&redis).await
}

/// Kills and freezes the coordinators in turn, until the time is over. All are up in the end.
async fn strike(coordinators: &mut [Coordinator], until: Instant) {
    let pause = LEASE / 2;
    let strike = LEASE + Duration::from_secs(1);
    for number in 0.. {
        sleep(pause).await;
        if Instant::now() + strike >= until {
            break;
        }
        let victim = number % coordinators.len();
        // Each is killed in one round and frozen in the next.
        if (number + number / coordinators.len()).is_multiple_of(2) {
            coordinators[victim].kill();
            sleep(pause).await;
            coordinators[victim].restart_on_same_address().await;
        } else {
            coordinators[victim].stop();
            sleep(strike).await;
            coordinators[victim].cont();
        }
    }
    sleep(until.saturating_duration_since(Instant::now())).await;
}

#[expect(clippy::print_stdout, reason = "what the kit is for")]
fn judge(text: &str, names: &BTreeSet<String>, events: &[Event], bounds: &Bounds) -> Result<()> {
    let found = check(events, bounds);
    let mut grants: BTreeMap<String, usize> = names.iter().map(|it| (it.clone(), 0)).collect();
    for line in text.lines() {
        let line: Line = serde_json::from_str(line)?;
        if line.what == "granted" {
            *grants.entry(line.client).or_default() += 1;
        }
    }
    println!(
        "contention for {:?}: grants={} failed={} lost={} violations={} late={} tokens={} \
         stuck={} silent={} outage={:?}, grants of each: {grants:?}",
        bounds.end,
        found.grants,
        found.failed,
        found.lost,
        found.violations.len(),
        found.late_notices,
        found.tokens.len() + found.twins.len(),
        found.stuck.len(),
        found.silent.len() + found.unaware.len(),
        found.outage,
    );
    let always = [
        &found.violations,
        &found.tokens,
        &found.twins,
        &found.unaware,
    ];
    let always: Vec<_> = always.into_iter().flatten().take(20).collect();
    if !always.is_empty() {
        return Err(anyhow!("{always:#?}").context(Unsafe));
    }
    let in_time = found.stuck.iter().chain(&found.silent);
    let in_time: Vec<_> = in_time.take(20).collect();
    ensure!(in_time.is_empty(), "{in_time:#?}");
    let idle: Vec<_> = grants.iter().filter(|(_, grants)| **grants == 0).collect();
    ensure!(idle.is_empty(), "never had the lock: {idle:?}");
    Ok(())
}

/// The lock, its waiters and its leases have gone. The counter of its tokens and the answers to
/// requests stay for a while.
async fn nothing_left(redis: &RedisServer) -> Result<()> {
    let keys: Vec<String> = from_redis_value(redis.command(&["KEYS", "*"]).await)?;
    for key in &keys {
        let kind = key.split(':').next().unwrap_or_default();
        let records = [
            "redisson_lock_token",
            "lockkeeper_request",
            "lockkeeper_ended",
        ];
        let stays = records.contains(&kind);
        let left: i64 = from_redis_value(redis.command(&["PTTL", key]).await)?;
        // It may have expired since it was listed.
        let is_gone = left == -2;
        ensure!(
            is_gone || (stays && left > 0),
            "{key} is left, for {left} ms"
        );
    }
    Ok(())
}

// === impl Contenders ===

impl Contenders {
    /// Starts those of our clients. Each tries the coordinators in another order.
    async fn start(
        languages: &[Language],
        coordinators: &[Coordinator],
        time: Duration,
        history: &Path,
    ) -> Result<Self> {
        let mut urls: Vec<_> = coordinators.iter().map(Coordinator::url).collect();
        let mut drivers = Vec::new();
        let mut names = BTreeSet::new();
        for language in languages {
            for number in 1..=EACH {
                let mut driver = language.with_history(history).driver().await?;
                driver.run(connect_to(&urls)).await?;
                urls.rotate_left(1);
                let client = format!("{}-{number}", language.name);
                let contend = json!({
                    "do": "contend", "name": NAME, "seconds": time.as_secs(),
                    "hold_ms": HOLD.as_millis(), "client": client,
                });
                let id = driver.send(contend).await?;
                drivers.push((driver, id));
                names.insert(client);
            }
        }
        Ok(Self {
            drivers,
            redisson: None,
            names,
        })
    }

    /// Starts those of the real Redisson, if they are built.
    fn start_redisson(
        &mut self,
        redis: &RedisServer,
        time: Duration,
        history: &Path,
    ) -> Result<()> {
        if let Some(folder) = redisson::built() {
            let (store, times) = (redisson::single(redis), [time, HOLD]);
            let started = redisson::Contenders::start(&folder, &store, NAME, times, history)?;
            self.names.extend(started.names().map(str::to_owned));
            self.redisson = Some(started);
        }
        Ok(())
    }

    /// Waits until all have ended by themselves.
    async fn end(self) -> Result<()> {
        for (mut driver, contention) in self.drivers {
            driver.ok(contention).await?;
            driver.run(json!({ "do": "close" })).await?;
            driver.end().await?;
        }
        match self.redisson {
            Some(redisson) => redisson.end().await.map_err(Error::msg),
            None => Ok(()),
        }
    }
}
