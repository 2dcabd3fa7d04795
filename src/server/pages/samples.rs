//! The last 15 minutes of the overview: rings of fixed size, sampled from the metrics.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use lockkeeper_coordinator::Coordinator;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::exposition::Totals;

const STEP: Duration = Duration::from_secs(1);

/// Steps of one second, and of ten: 2 minutes and 15 minutes.
const FINE_STEPS: usize = 120;
const COARSE_STEPS: usize = 90;
const COARSE_OF: u32 = 10;

/// A renewal that is sent later than this after it was due is late; a bound of the histogram.
const LATE_SECONDS: f64 = 1.0;

/// The samples of a coordinator. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Samples(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    fine: Ring,
    coarse: Ring,
    ticks: u32,
    newest: Totals,
}

#[derive(Debug)]
struct Ring {
    steps: usize,
    samples: VecDeque<Sample>,
    /// What had been counted at the end of the last step.
    last: Totals,
    ended: Instant,
    /// The most waits since then.
    waiters: usize,
}

/// What happened in a step. Times are in seconds; none without a wait or a call.
#[derive(Clone, Debug, PartialEq)]
struct Sample {
    grants_per_second: f64,
    waiters: usize,
    lost: f64,
    late_renewals: f64,
    wait_p50: Option<f64>,
    wait_p99: Option<f64>,
    store_p99: Option<f64>,
}

// === impl Samples ===

impl Samples {
    /// Samples what the metrics show, until it is dropped.
    pub(crate) async fn keep(self, metrics: impl Fn() -> Option<String>, coordinator: Coordinator) {
        let mut ticks = interval(STEP);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            if let Some(shown) = metrics() {
                self.take(Totals::read(&shown), coordinator.load().waiters);
            }
        }
    }

    fn take(&self, totals: Totals, waiters: usize) {
        let mut state = self.0.lock();
        state.ticks = state.ticks.wrapping_add(1);
        state.fine.see(waiters);
        state.coarse.see(waiters);
        state.fine.end_step(&totals);
        if state.ticks.is_multiple_of(COARSE_OF) {
            state.coarse.end_step(&totals);
        }
        state.newest = totals;
    }

    /// What had been counted at the last sample.
    pub(super) fn newest(&self) -> Totals {
        self.0.lock().newest.clone()
    }

    /// The rings as JSON, the finer one first.
    pub(super) fn shown(&self) -> Value {
        let state = self.0.lock();
        let coarse = STEP * COARSE_OF;
        json!([state.fine.shown(STEP), state.coarse.shown(coarse)])
    }
}

impl Default for Samples {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State {
            fine: Ring::new(FINE_STEPS),
            coarse: Ring::new(COARSE_STEPS),
            ticks: 0,
            newest: Totals::default(),
        })))
    }
}

// === impl Ring ===

impl Ring {
    fn new(steps: usize) -> Self {
        Self {
            steps,
            samples: VecDeque::with_capacity(steps),
            last: Totals::default(),
            ended: Instant::now(),
            waiters: 0,
        }
    }

    fn see(&mut self, waiters: usize) {
        self.waiters = self.waiters.max(waiters);
    }

    fn end_step(&mut self, totals: &Totals) {
        let waits = totals.waits.since(&self.last.waits);
        let sample = Sample {
            grants_per_second: (totals.granted - self.last.granted)
                / self
                    .ended
                    .elapsed()
                    .max(Duration::from_millis(1))
                    .as_secs_f64(),
            waiters: std::mem::take(&mut self.waiters),
            lost: totals.lost - self.last.lost,
            late_renewals: totals.lag.since(&self.last.lag).above(LATE_SECONDS),
            wait_p50: waits.quantile(0.5),
            wait_p99: waits.quantile(0.99),
            store_p99: totals.store.since(&self.last.store).quantile(0.99),
        };
        if self.samples.len() == self.steps {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        (self.last, self.ended) = (totals.clone(), Instant::now());
    }

    fn shown(&self, step: Duration) -> Value {
        let each = |value: fn(&Sample) -> Option<f64>| -> Vec<_> {
            self.samples.iter().map(value).collect()
        };
        let millis = |seconds: Option<f64>| seconds.map(|it| rounded(it * 1000.0));
        let waiters: Vec<_> = self.samples.iter().map(|it| it.waiters).collect();
        let times = |value: fn(&Sample) -> Option<f64>| -> Vec<_> {
            each(value).into_iter().map(millis).collect()
        };
        json!({
            "stepMs": step.as_millis(),
            "steps": self.steps,
            "grantsPerSecond": each(|it| Some(rounded(it.grants_per_second))),
            "waiters": waiters,
            "waitP50Ms": times(|it| it.wait_p50),
            "waitP99Ms": times(|it| it.wait_p99),
            "lost": each(|it| Some(it.lost)),
            "lateRenewals": each(|it| Some(it.late_renewals)),
            "storeP99Ms": times(|it| it.store_p99),
        })
    }
}

/// To three digits, as other coordinators read many of them.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(granted: u32, lost: u32) -> Totals {
        Totals::read(&format!(
            "lockkeeper_grants_total{{mode=\"fair\",result=\"granted\"}} {granted}\n\
             lockkeeper_leases_lost_total{{reason=\"expired\"}} {lost}\n"
        ))
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_has_what_was_counted_in_it() {
        let samples = Samples::default();
        for (granted, lost, waiters) in [(10, 0, 3), (10, 1, 0), (40, 1, 7)] {
            tokio::time::advance(STEP).await;
            samples.take(counted(granted, lost), waiters);
        }
        let shown = samples.shown();
        assert_eq!(shown[0]["grantsPerSecond"], json!([10.0, 0.0, 30.0]));
        assert_eq!(shown[0]["lost"], json!([0.0, 1.0, 0.0]));
        assert_eq!(shown[0]["waiters"], json!([3, 0, 7]));
        assert_eq!(shown[0]["waitP99Ms"], json!([null, null, null]));
        assert_eq!(shown[1]["waiters"], json!([]));
        assert_eq!(samples.newest(), counted(40, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn ten_steps_become_one_and_the_rings_do_not_grow() {
        let samples = Samples::default();
        for step in 1..=1000 {
            tokio::time::advance(STEP).await;
            let waiters = if step == 995 { 8 } else { 0 };
            samples.take(counted(step * 2, 0), waiters);
        }
        let shown = samples.shown();
        let coarse = &shown[1];
        assert_eq!(coarse["grantsPerSecond"], json!(vec![2.0; COARSE_STEPS]));
        let mut waiters = [0; COARSE_STEPS];
        waiters[COARSE_STEPS - 1] = 8;
        assert_eq!(coarse["waiters"].as_array().unwrap().len(), COARSE_STEPS);
        assert_eq!(coarse["waiters"], json!(waiters.to_vec()));
        assert_eq!(shown[0]["lost"].as_array().unwrap().len(), FINE_STEPS);
        assert_eq!(
            (&coarse["stepMs"], &coarse["steps"]),
            (&json!(10_000), &json!(90))
        );
    }
}
