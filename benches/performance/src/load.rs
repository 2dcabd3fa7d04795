//! Callers in a closed loop, each with one operation under way, and what is counted of them.

use std::{collections::BTreeMap, future::Future, time::Duration};

use anyhow::Context as _;
use futures::future::try_join_all;
use hdrhistogram::Histogram;
use lockkeeper_base::tasks::spawn_detached;
use serde::Serialize;
use tokio::time::{Instant, sleep_until};

use crate::args::Load;

/// The longest latency that is told from longer ones.
const LATENCY_MAX: Duration = Duration::from_secs(60);

/// Three digits of each latency are kept.
const DIGITS: u8 = 3;

/// How many kinds of latency a caller can tell apart.
const KINDS: usize = 3;

/// What counts: what ends between these two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    start: Instant,
    end: Instant,
}

/// What one caller has counted.
#[derive(Debug)]
pub(crate) struct Tally {
    window: Window,
    latencies: [Histogram<u64>; KINDS],
    pairs: u64,
}

/// What all callers have counted together, in the form of `lockkeeper bench`.
#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    scenario: &'static str,
    in_flight: usize,
    duration_s: f64,
    operations: u64,
    operations_per_second: f64,
    per_second: BTreeMap<&'static str, f64>,
    latency_us: BTreeMap<&'static str, Latency>,
    grants_per_waiter: Spread,
}

#[derive(Debug, Serialize)]
struct Latency {
    count: u64,
    mean: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

#[derive(Debug, Serialize)]
struct Spread {
    fewest: u64,
    most: u64,
}

/// What a measurement is called, and the latencies in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    pub(crate) scenario: &'static str,
    /// What is counted in pairs: `pairs` or `handovers`.
    pub(crate) pairs: &'static str,
    /// In the order of [`TAKE`], [`GIVE`] and [`PAIR`]; the first two are operations.
    pub(crate) latencies: [&'static str; KINDS],
}

/// Kinds of latency: taking a lock, giving it back, and both.
pub(crate) const TAKE: usize = 0;
pub(crate) const GIVE: usize = 1;
pub(crate) const PAIR: usize = 2;

// === impl Window ===

impl Window {
    /// Whether callers should go on.
    pub(crate) fn is_open(&self) -> bool {
        Instant::now() < self.end
    }
}

// === impl Tally ===

impl Tally {
    fn new(window: Window) -> Self {
        Self {
            window,
            latencies: [(); KINDS].map(|()| histogram()),
            pairs: 0,
        }
    }

    /// Counts one pair of a take and a give by when they began and ended.
    pub(crate) fn count(&mut self, asked: Instant, taken: Instant, given: Instant) {
        self.record(TAKE, asked, taken);
        self.record(GIVE, taken, given);
        if self.record(PAIR, asked, given) {
            self.pairs += 1;
        }
    }

    fn record(&mut self, kind: usize, begun: Instant, ended: Instant) -> bool {
        let counts = self.window.start <= ended && ended < self.window.end;
        if counts {
            let nanoseconds = ended.duration_since(begun).as_nanos();
            let nanoseconds = u64::try_from(nanoseconds).unwrap_or(u64::MAX);
            self.latencies[kind].saturating_record(nanoseconds.max(1));
        }
        counts
    }
}

fn histogram() -> Histogram<u64> {
    let max = u64::try_from(LATENCY_MAX.as_nanos()).unwrap_or(u64::MAX);
    Histogram::new_with_bounds(1, max, DIGITS).expect("bounds that hold")
}

/// Has callers do pairs until the time is over. `caller` makes the n-th one, which does one pair
/// and says when it asked, had taken and had given back.
pub(crate) async fn run<C, P, F>(names: Names, load: &Load, caller: C) -> anyhow::Result<Measured>
where
    C: Fn(usize) -> P,
    P: FnMut() -> F + Send + 'static,
    F: Future<Output = anyhow::Result<[Instant; 3]>> + Send,
{
    let start = Instant::now() + load.warm_up;
    let window = Window {
        start,
        end: start + load.duration,
    };
    let callers = (0..load.in_flight).map(|number| {
        let mut pair = caller(number);
        spawn_detached("caller", async move {
            let mut tally = Tally::new(window);
            while window.is_open() {
                let [asked, taken, given] = pair().await?;
                tally.count(asked, taken, given);
            }
            anyhow::Ok(tally)
        })
    });
    let callers: Vec<_> = callers.collect();
    sleep_until(window.end).await;
    let tallies = try_join_all(callers).await.context("a caller crashed")?;
    let tallies: Vec<Tally> = tallies.into_iter().collect::<anyhow::Result<_>>()?;
    Ok(Measured::of(names, load, &tallies))
}

// === impl Measured ===

impl Measured {
    fn of(names: Names, load: &Load, tallies: &[Tally]) -> Self {
        let seconds = load.duration.as_secs_f64();
        let mut operations = 0;
        let mut latency_us = BTreeMap::new();
        for (kind, name) in names.latencies.into_iter().enumerate() {
            let mut all = histogram();
            for tally in tallies {
                all += &tally.latencies[kind];
            }
            if kind != PAIR {
                operations += all.len();
            }
            latency_us.insert(name, Latency::of(&all));
        }
        let pairs = tallies.iter().map(|tally| tally.pairs);
        let all_pairs: u64 = pairs.clone().sum();
        Self {
            scenario: names.scenario,
            in_flight: load.in_flight,
            duration_s: seconds,
            operations,
            operations_per_second: float(operations) / seconds,
            per_second: BTreeMap::from([(names.pairs, float(all_pairs) / seconds)]),
            latency_us,
            grants_per_waiter: Spread {
                fewest: pairs.clone().min().unwrap_or(0),
                most: pairs.max().unwrap_or(0),
            },
        }
    }
}

// === impl Latency ===

impl Latency {
    fn of(all: &Histogram<u64>) -> Self {
        let at = |quantile| float(all.value_at_quantile(quantile)) / 1000.0;
        Self {
            count: all.len(),
            mean: all.mean() / 1000.0,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: float(all.max()) / 1000.0,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn float(count: u64) -> f64 {
    count as f64
}
