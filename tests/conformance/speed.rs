//! The speed of each client, beside a bare stream in its language.

use std::time::Duration;

use anyhow::{Context as _, Result};
use lockkeeper_testkit::coordinator::{Coordinator, Settings};
use serde_json::json;
use tokio::{runtime::Runtime, time::sleep};

use crate::trial::Language;

const TASKS: u64 = 64;
const TIME: Duration = Duration::from_secs(8);

/// Prints pairs of acquire and release per second, on one coordinator with the embedded store.
#[expect(clippy::print_stdout, reason = "what it is for")]
pub(crate) fn measure(languages: &[Language]) -> Result<()> {
    Runtime::new()?.block_on(async {
        println!("| Client | Pairs/s | Bare stream | Share |\n|---|---|---|---|");
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
            println!(
                "| {} | {pairs:.0} | {bare:.0} | {share:.2} |",
                language.name
            );
            driver.end().await?;
        }
        Ok(())
    })
}
