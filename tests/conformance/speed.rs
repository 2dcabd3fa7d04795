//! The speed of each client, beside a bare stream in its language, and the memory of its sessions.

use std::time::Duration;

use anyhow::{Context as _, Result};
use lockkeeper_testkit::coordinator::{Coordinator, Settings};
use serde_json::json;
use tokio::{runtime::Runtime, time::sleep};

use crate::trial::Language;

const TASKS: u64 = 64;
const TIME: Duration = Duration::from_secs(8);

/// Sessions of which the memory is measured, and how many one command opens.
const SESSIONS: u64 = 1_000;
const AT_ONCE: u64 = 100;

/// Prints pairs of acquire and release per second, on one coordinator with the embedded store.
#[expect(clippy::print_stdout, reason = "what it is for")]
pub(crate) fn measure(languages: &[Language]) -> Result<()> {
    Runtime::new()?.block_on(async {
        println!(
            "| Client | Pairs/s | Bare stream | Share | Session, KiB |\n|---|---|---|---|---|"
        );
        for language in languages {
            let coordinator = Coordinator::start(&Settings::on_none()).await;
            let mut driver = language.driver().await?;
            let speed = json!({
                "do": "speed", "endpoints": [coordinator.url()], "tasks": TASKS,
                "seconds": TIME.as_secs_f64(),
            });
            let id = driver.send(speed).await?;
            // And what does not count.
            sleep(TIME + Duration::from_secs(4)).await;
            let answer = driver.ok(id).await?;
            let figure = |name: &str| answer[name].as_f64().context("no figure");
            let (pairs, bare) = (
                figure("pairs_per_second")?,
                figure("bare_pairs_per_second")?,
            );
            let share = pairs / bare;
            driver.end().await?;
            let memory = memory_of_session(language, &coordinator.url()).await?;
            println!(
                "| {} | {pairs:.0} | {bare:.0} | {share:.2} | {} |",
                language.name,
                memory / 1024
            );
        }
        Ok(())
    })
}

/// By how much the process of a driver grows with an idle session, each of a client of its own. The
/// first sessions do not count: they load code.
async fn memory_of_session(language: &Language, url: &str) -> Result<u64> {
    let mut driver = language.driver().await?;
    let open = json!({ "do": "sessions", "endpoints": [url], "count": AT_ONCE });
    driver.run(open.clone()).await?;
    let before = driver.memory()?;
    for _ in 0..SESSIONS / AT_ONCE {
        driver.run(open.clone()).await?;
    }
    let grown = driver.memory()?.saturating_sub(before);
    driver.kill().await?;
    Ok(grown / SESSIONS)
}
