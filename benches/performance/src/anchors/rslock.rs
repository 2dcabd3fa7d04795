//! A lock library for Rust programs on Redis, which has no service in between: its connection is
//! pipelined, as it is by default.

use std::time::Duration;

use lockkeeper_server::config::Settings;
use tokio::time::Instant;

use crate::{
    args::Load,
    load::{self, Measured, Names},
};

const NAMES: Names = Names {
    scenario: "rslock",
    pairs: "pairs",
    latencies: ["acquire", "release", "pair"],
};

/// Measures.
pub(crate) async fn run(store: &str, load: &Load) -> anyhow::Result<Measured> {
    let manager = rslock::LockManager::new(vec![store.to_owned()]);
    let lease: Duration = Settings::default().session.lease;
    load::run(NAMES, load, |number| {
        let manager = manager.clone();
        let name = format!("rslock-{number}");
        move || {
            let (manager, name) = (manager.clone(), name.clone());
            async move {
                let asked = Instant::now();
                let lock = manager.lock(name.as_bytes(), lease).await?;
                let taken = Instant::now();
                manager.unlock(&lock).await;
                Ok([asked, taken, Instant::now()])
            }
        }
    })
    .await
}
