//! What a server uses and what Redis executes while something else drives them.

use std::time::Duration;

use anyhow::Context as _;
use redis::{Client, aio::MultiplexedConnection, cmd};
use serde::Serialize;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::process::{Usage, float};

/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(100);

/// What is seen in one look.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Sample {
    /// Seconds since the first look was due.
    pub(super) at: f64,
    pub(super) resident_bytes: f64,
    pub(super) processor_seconds: f64,
    pub(super) keys: u64,
    pub(super) scripts: u64,
    pub(super) renewals: u64,
    pub(super) looked_up: u64,
}

/// Looks at one server, and at its Redis if it has one.
pub(super) struct Sampler {
    usage: Usage,
    redis: Option<MultiplexedConnection>,
    begun: Instant,
}

// === impl Sampler ===

impl Sampler {
    pub(super) async fn new(usage: Usage, redis: Option<&str>) -> anyhow::Result<Self> {
        let redis = match redis {
            None => None,
            Some(url) => {
                let client = Client::open(url)?;
                Some(client.get_multiplexed_async_connection().await?)
            }
        };
        Ok(Self {
            usage,
            redis,
            begun: Instant::now(),
        })
    }

    /// Looks until something else has ended, and returns what that came to.
    pub(super) async fn until<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> anyhow::Result<(T, Vec<Sample>)> {
        let mut samples = Vec::new();
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Ok((done, samples)),
                _ = ticks.tick() => samples.push(self.look().await?),
            }
        }
    }

    /// Looks once.
    pub(super) async fn look(&mut self) -> anyhow::Result<Sample> {
        let mut sample = Sample {
            at: self.begun.elapsed().as_secs_f64(),
            resident_bytes: self.usage.resident_bytes()?,
            processor_seconds: self.usage.processor_seconds()?,
            ..Sample::default()
        };
        if let Some(redis) = &mut self.redis {
            sample.keys = cmd("DBSIZE").query_async(redis).await?;
            let mut stats = cmd("INFO");
            let stats: String = stats.arg("commandstats").query_async(redis).await?;
            sample.scripts = calls(&stats, "evalsha") + calls(&stats, "eval");
            sample.renewals = calls(&stats, "pexpire");
            sample.looked_up = calls(&stats, "hscan");
        }
        Ok(sample)
    }
}

/// The share of a core that a server uses between two times, in seconds from now. There is no look
/// in between, because it would take time from what is measured.
pub(super) async fn processor_share(usage: Usage, [from, to]: [f64; 2]) -> anyhow::Result<f64> {
    let mut sampler = Sampler::new(usage, None).await?;
    let begun = sampler.begun;
    sleep_until(begun + Duration::from_secs_f64(from)).await;
    let first = sampler.look().await?;
    sleep_until(begun + Duration::from_secs_f64(to)).await;
    let last = sampler.look().await?;
    Ok(share(&first, &last))
}

fn share(first: &Sample, last: &Sample) -> f64 {
    (last.processor_seconds - first.processor_seconds) / (last.at - first.at)
}

/// How often Redis has executed a command, also in scripts.
fn calls(stats: &str, command: &str) -> u64 {
    let prefix = format!("cmdstat_{command}:calls=");
    let mut lines = stats.lines();
    let found = lines.find_map(|line| line.strip_prefix(&prefix)?.split(',').next());
    found.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// What a watchdog cost between the moments when everything was held and when the first grant was
/// given back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Watched {
    pub(super) seconds: f64,
    pub(super) renewals: f64,
    pub(super) commands_per_renewal: f64,
    /// Of one core.
    pub(super) processor_share: f64,
}

/// Each grant has two keys while it is held, and keeps one. `held` is how many grants there should
/// be.
pub(super) fn watched(samples: &[Sample], held: u64) -> anyhow::Result<Watched> {
    let mut held_all = samples.iter().filter(|it| it.keys >= 2 * held);
    let first = held_all.next().context("not everything was held")?;
    let last = held_all
        .next_back()
        .context("everything was held for too short a time")?;
    let seconds = last.at - first.at;
    let renewals = float(last.renewals - first.renewals);
    // Somebody looks whether grants are held: those scripts renew nothing.
    let looked_up = float(last.looked_up - first.looked_up);
    let commands = float(last.scripts - first.scripts) - looked_up;
    anyhow::ensure!(renewals > 0.0, "nothing was renewed in {seconds:.1} s");
    Ok(Watched {
        seconds,
        renewals,
        commands_per_renewal: commands / renewals,
        processor_share: share(first, last),
    })
}

/// Resident memory for each of `waiters`, over what there was before: the median of what was seen
/// in a span of time.
pub(super) fn memory_per_waiter(
    before: f64,
    samples: &[Sample],
    [from, to]: [f64; 2],
    waiters: usize,
) -> anyhow::Result<f64> {
    let inside = samples.iter().filter(|it| (from..=to).contains(&it.at));
    let sizes = super::statistics::Spread::of(inside.map(|it| it.resident_bytes));
    let sizes = sizes.context("the memory was not looked at while all waited")?;
    Ok((sizes.median - before) / float(waiters as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_by_their_whole_name() {
        let stats =
            "# Commandstats\r\ncmdstat_evalsha:calls=12,usec=3\r\ncmdstat_eval:calls=4,usec=3\r\n";
        assert_eq!(calls(stats, "evalsha"), 12);
        assert_eq!(calls(stats, "eval"), 4);
        assert_eq!(calls(stats, "pexpire"), 0);
    }

    #[test]
    fn only_the_time_in_which_everything_is_held_counts() {
        let sample = |at, keys, scripts, renewals, looked_up, processor_seconds| Sample {
            at,
            keys,
            scripts,
            renewals,
            looked_up,
            processor_seconds,
            resident_bytes: 0.0,
        };
        let samples = [
            sample(0.0, 0, 0, 0, 0, 0.0),
            sample(1.0, 200, 100, 100, 0, 1.0),
            sample(2.0, 200, 101, 150, 0, 1.1),
            sample(3.0, 200, 110, 200, 8, 1.4),
            sample(4.0, 100, 210, 200, 8, 2.0),
        ];
        let watched = watched(&samples, 100).unwrap();
        assert!((watched.seconds - 2.0).abs() < 1e-9);
        assert!((watched.renewals - 100.0).abs() < 1e-9);
        assert!((watched.commands_per_renewal - 0.02).abs() < 1e-9);
        assert!((watched.processor_share - 0.2).abs() < 1e-9);
    }

    #[test]
    fn a_share_is_that_of_the_time_between_two_looks() {
        let sample = |at, processor_seconds| Sample {
            at,
            processor_seconds,
            ..Sample::default()
        };
        assert!((share(&sample(1.0, 7.0), &sample(5.0, 8.0)) - 0.25).abs() < 1e-9);
    }

    #[tokio::test]
    async fn a_server_that_is_idle_uses_next_to_nothing() {
        let mut command = tokio::process::Command::new("sleep");
        let mut idle = command.arg("60").kill_on_drop(true).spawn().unwrap();
        let usage = Usage::of(idle.id().unwrap());
        let share = processor_share(usage, [0.02, 0.2]).await.unwrap();
        assert!((0.0..0.5).contains(&share), "{share}");
        idle.kill().await.unwrap();
    }

    #[test]
    fn what_was_never_held_in_whole_is_no_figure() {
        let sample = Sample {
            keys: 199,
            ..Sample::default()
        };
        assert!(watched(&[sample, sample], 100).is_err());
    }

    #[test]
    fn memory_is_that_of_the_time_in_which_all_wait() {
        let sample = |at, resident_bytes| Sample {
            at,
            resident_bytes,
            ..Sample::default()
        };
        let samples = [sample(0.5, 9e9), sample(1.5, 1100.0), sample(2.5, 9e9)];
        let bytes = memory_per_waiter(100.0, &samples, [1.0, 2.0], 10).unwrap();
        assert!((bytes - 100.0).abs() < 1e-9);
        assert!(memory_per_waiter(100.0, &samples, [3.0, 4.0], 10).is_err());
    }
}
