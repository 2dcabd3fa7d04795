//! Real coordinators on a store, and drivers.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper_testkit::{
    coordinator::{Coordinator, Settings},
    redis_server::RedisServer,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{driver_process::Driver, trial::Language};

/// The lease of all sessions here.
pub(crate) const LEASE: Duration = Duration::from_secs(3);

pub(crate) const SECRET: &str = "a secret of both coordinators, 32 bytes";

/// A Redis, two coordinators on it, and two drivers.
pub(crate) struct Scene {
    pub(crate) redis: RedisServer,
    pub(crate) coordinators: Vec<Coordinator>,
    pub(crate) first: Driver,
    pub(crate) second: Driver,
}

// === impl Scene ===

impl Scene {
    /// Starts everything. Nobody is connected yet.
    pub(crate) async fn new(language: &Language) -> Result<Self> {
        let redis = RedisServer::start().await;
        let settings = Settings::on(&redis.url()).with("session.secret", SECRET);
        let coordinators = vec![
            Coordinator::start(&settings).await,
            Coordinator::start(&settings).await,
        ];
        Ok(Self {
            redis,
            coordinators,
            first: language.driver().await?,
            second: language.driver().await?,
        })
    }

    /// Connects both drivers: the first to both coordinators, the second to the second only, so
    /// that what befalls the first coordinator does not concern it.
    pub(crate) async fn connect(&mut self) -> Result<()> {
        let urls = self.urls();
        self.first.run(connect_to(&urls)).await?;
        self.second.run(connect_to(&urls[1..])).await?;
        Ok(())
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.coordinators.iter().map(Coordinator::url).collect()
    }

    /// Waits until so many calls wait for a lock.
    pub(crate) async fn until_waiting(&mut self, name: &str, waiters: u64) -> Result<()> {
        for _ in 0..1000 {
            let describe = json!({ "do": "describe", "name": name });
            if self.second.run(describe).await?["waiter_count"] == waiters {
                return Ok(());
            }
            sleep(Duration::from_millis(10)).await;
        }
        anyhow::bail!("{waiters} never waited for {name}")
    }

    /// Takes a lock away, as an operator does.
    pub(crate) fn force_release(&self, name: &str, reason: &str) -> Result<()> {
        let tests = std::env::current_exe()?;
        let tool = tests.parent().map(|it| it.with_file_name("lockkeeper"));
        let output = std::process::Command::new(tool.context("it has a folder")?)
            .args(["force-release", name, "--server", &self.urls()[1]])
            .args(["--reason", reason, "--yes"])
            .output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "force-release: {errors}");
        Ok(())
    }
}

/// The command to connect.
pub(crate) fn connect_to(urls: &[String]) -> Value {
    json!({
        "do": "connect",
        "endpoints": urls,
        "lease_ms": LEASE.as_millis(),
        "client_name": "conformance",
    })
}

pub(crate) fn acquire(name: &str, guard: &str) -> Value {
    json!({ "do": "acquire", "name": name, "guard": guard })
}

pub(crate) fn try_acquire(name: &str, guard: &str) -> Value {
    json!({ "do": "try_acquire", "name": name, "guard": guard })
}

pub(crate) fn release(guard: &str) -> Value {
    json!({ "do": "release", "guard": guard })
}

/// Whether a driver gets a lock that it then releases.
pub(crate) async fn is_free(driver: &mut Driver, name: &str) -> Result<bool> {
    let id = driver.send(try_acquire(name, "probe")).await?;
    let is_free = driver.result(id).await?.is_ok();
    if is_free {
        driver.run(release("probe")).await?;
    }
    Ok(is_free)
}

/// Fails unless a driver holds what this guard holds.
pub(crate) async fn expect_held(driver: &mut Driver, guard: &str) -> Result<()> {
    let state = driver.run(json!({ "do": "state", "guard": guard })).await?;
    let is_valid = state["valid_ms"].as_f64().is_some_and(|it| it > 0.0);
    ensure!(state["lost"] == false && is_valid, "{guard}: {state}");
    ensure!(driver.losses(guard) == 0, "{guard} was reported lost");
    Ok(())
}
