//! A row of the table in `docs/robustness.md`: contenders, a fault, and what may come of it.

use std::{env, fs, path::Path, sync::Arc, time::Duration};

use futures::future::join_all;
use lockkeeper_base::tasks::spawn_detached;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    checker::{Bounds, Findings, check},
    contender::{Contender, NAMES, Ring, SHORT},
    coordinator::Coordinator,
    faults::Fault,
    heartbeat::{Heartbeat, Lateness},
    history::{Event, History, What},
    redis_server::eventually,
    witness::{Registers, Witness},
    world::{LEASE, Setup, World},
};

/// How many contend.
const CONTENDERS: usize = 32;

/// How long they go on after the fault, at the least.
const AFTER: Duration = Duration::from_millis(2500);

/// Who has not come to an end by then is stuck, whatever it waits for.
const END_MAX: Duration = Duration::from_secs(25);

/// So often a run is repeated that shows nothing.
const REPEATS_MAX: usize = 3;

/// What a machine takes at once, and of each second, while a run still shows something.
const STALL_MAX: Duration = Duration::from_millis(500);
const SHARE_MAX: f64 = 0.1;

/// So many tokens may be given twice where there are two stores: some twenty grants of a lock in a
/// second by each make one in a few hundred runs, and bursts more.
const TWINS_MAX: usize = 2;

/// What a configuration promises while this fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// Nobody relies on a lock together with another.
    Exclusion,
    /// The store may forget what it acknowledged; then only tokens protect.
    TokensOnly,
    /// There may be two stores for a while, each of which takes back what it gave.
    TwoStores,
}

/// A fault at a store, and what may come of it.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) setup: Setup,
    pub(crate) fault: Fault,
    pub(crate) promise: Promise,
    /// The longest time without any grant, and without one of a lock that is in constant use.
    pub(crate) outage_max: Duration,
    pub(crate) outage_of_one_max: Duration,
    /// Whether calls may fail, and whether grants may be lost and told so.
    pub(crate) may_fail: bool,
    pub(crate) may_lose: bool,
}

/// What a run comes to, if it is not that a promise is broken.
enum Verdict {
    Kept,
    /// Something took too long, and the fault and the coordinators need not have been what took it.
    Void(String),
}

/// What a run did not keep to.
#[derive(Default)]
struct Problems {
    /// Whatever the machine did.
    always: Vec<String>,
    /// Unless the machine, or another fault than was meant, took the time.
    in_time: Vec<String>,
}

/// What the fast version does for a moment, and the long one for longer.
pub(crate) fn long(fast: Duration, long: Duration) -> Duration {
    if fault_seconds().is_zero() {
        fast
    } else {
        long
    }
}

/// A run's length; one strike if it is zero.
fn fault_seconds() -> Duration {
    let seconds = env::var("FAULT_SECONDS").ok();
    let seconds = seconds.and_then(|it| it.parse().ok()).unwrap_or(0);
    Duration::from_secs(seconds)
}

// === impl Row ===

impl Row {
    /// Makes a run that shows something, and judges it.
    pub(crate) async fn run(self) {
        for _ in 0..=REPEATS_MAX {
            match self.run_once().await {
                Verdict::Kept => return,
                Verdict::Void(why) => report(&format!("row {:<34} VOID: {why}", self.name)),
            }
        }
        panic!(
            "{}: no run shows anything, the machine is too busy",
            self.name
        );
    }

    async fn run_once(&self) -> Verdict {
        let seed = seed();
        let mut world = World::start(&self.setup, self.may_fail).await;
        let ring = Arc::new(Ring {
            history: History::begin(),
            witness: Witness::of(NAMES),
            coordinators: world
                .coordinators
                .iter()
                .map(Coordinator::address)
                .collect(),
            long: 2 * LEASE,
            failures: Mutex::default(),
            stop: CancellationToken::new(),
        });
        let heartbeat = Heartbeat::start();
        let contenders = (0..CONTENDERS).map(|number| {
            let contender = Contender::new(ring.clone(), number, seed);
            AbortOnDropHandle::new(spawn_detached("contender", contender.run()))
        });
        let contenders: Vec<_> = contenders.collect();
        let granted = |event: &Event| matches!(event.what, What::Granted { .. });
        let grants = || ring.history.events().into_iter().filter(granted).count();
        eventually("all contend", || async { grants() > 10 * CONTENDERS }).await;

        let fault = ring.history.now();
        let until = Instant::now() + fault_seconds();
        let mut strikes = 0;
        let (healed, epoch) = loop {
            self.fault.strike(&mut world).await;
            strikes += 1;
            let healed = (ring.history.now(), world.store.epoch().await);
            sleep(AFTER).await;
            if Instant::now() >= until || !self.fault.can_strike_again() {
                break healed;
            }
            self.fault.mend(&mut world).await;
        };
        let stopped = ring.history.now();
        ring.stop.cancel();
        let all = timeout(END_MAX, join_all(contenders)).await;
        let crashed = all.is_ok_and(|all| all.iter().any(Result::is_err));
        let bounds = Bounds {
            lease: LEASE,
            busy: SHORT,
            fault,
            healed,
            stopped,
            end: ring.history.now(),
            lateness: heartbeat.lateness(),
        };
        let struck_again = world.store.epoch().await != epoch;
        let events = ring.history.events();
        let findings = check(&events, &bounds);
        assert!(!crashed, "{}: a contender has crashed", self.name);
        world
            .coordinators
            .iter_mut()
            .for_each(|it| it.assert_alive());
        self.tell(&findings, &ring, strikes, seed, bounds.lateness);
        let file = keep(self.name, &events);
        let mut problems = self.problems(&findings, &ring, bounds.lateness);
        let excuse = excuse(&bounds, struck_again);
        match excuse {
            _ if problems.is_none() => return Verdict::Kept,
            Some(why) if problems.always.is_empty() => {
                return Verdict::Void(format!("{why}; {}", problems.in_time.join(", ")));
            }
            _ => {}
        }
        problems.always.append(&mut problems.in_time);
        problems.always.truncate(20);
        panic!(
            "{}, history in {file}:\n{}",
            self.name,
            problems.always.join("\n")
        );
    }

    fn tell(&self, it: &Findings, ring: &Ring, strikes: u32, seed: u64, lateness: Lateness) {
        let registers = ring.witness.registers();
        let unfenced: u64 = registers.iter().map(Registers::unfenced_lost).sum();
        let fenced: u64 = registers.iter().map(Registers::fenced_lost).sum();
        let refused: u64 = registers.iter().map(|it| it.refused).sum();
        report(&format!(
            "row {:<34} seed={seed} strikes={strikes} grants={} failed={} lost={} | violations={} ({:?}) late={} \
             unfenced_lost={unfenced} | fenced_lost={fenced} refused={refused} tokens={} stuck={} silent={} unaware={} | \
             outage={:.2}s back={:.2}s one={:.2}s | machine late={:.2}s in all={:.2}s",
            self.name,
            it.grants,
            it.failed,
            it.lost,
            it.violations.len(),
            self.promise,
            it.late_notices,
            it.tokens.len() + it.twins.len(),
            it.stuck.len(),
            it.silent.len(),
            it.unaware.len(),
            it.outage.as_secs_f64(),
            it.back.as_secs_f64(),
            it.outage_of_one.as_secs_f64(),
            lateness.most.as_secs_f64(),
            lateness.total.as_secs_f64(),
        ));
    }

    fn problems(&self, it: &Findings, ring: &Ring, lateness: Lateness) -> Problems {
        let registers = ring.witness.registers();
        let unfenced: u64 = registers.iter().map(Registers::unfenced_lost).sum();
        let fenced: u64 = registers.iter().map(Registers::fenced_lost).sum();
        let Problems {
            mut always,
            mut in_time,
        } = Problems::default();
        if self.promise == Promise::Exclusion {
            always.extend(it.violations.iter().cloned());
            if unfenced > 0 {
                always.push(format!(
                    "{unfenced} updates of the unfenced registers are lost"
                ));
            }
        }
        // Two stores that count from the same clock give the same token if they grant in the same
        // microsecond.
        let by_chance =
            self.promise == Promise::TwoStores && (1..=TWINS_MAX).contains(&it.twins.len());
        if !by_chance {
            always.extend(it.twins.iter().cloned());
            if fenced > 0 {
                always.push(format!("{fenced} updates of the fenced registers are lost"));
            }
        }
        always.extend(it.tokens.iter().cloned());
        if self.promise != Promise::TwoStores {
            always.extend(it.unaware.iter().cloned());
        }
        in_time.extend(it.stuck.iter().chain(&it.silent).cloned());
        if it.outage > self.outage_max + lateness.total {
            in_time.push(format!("no grant for {:?}", it.outage));
        }
        if it.outage_of_one > self.outage_of_one_max + lateness.total {
            in_time.push(format!("no grant of a lock for {:?}", it.outage_of_one));
        }
        // Calls and leases end by the clock.
        if it.failed > 0 && !self.may_fail {
            let why = ring.failures.lock().clone();
            in_time.push(format!("{} calls failed: {why:#?}", it.failed));
        }
        if it.lost > 0 && !self.may_lose {
            in_time.push(format!("{} grants were lost", it.lost));
        }
        Problems { always, in_time }
    }
}

// === impl Problems ===

impl Problems {
    fn is_none(&self) -> bool {
        self.always.is_empty() && self.in_time.is_empty()
    }
}

/// What may have taken the time in a run besides the fault and the coordinators.
fn excuse(bounds: &Bounds, struck_again: bool) -> Option<String> {
    let Lateness { most, total } = bounds.lateness;
    if struck_again {
        // It cannot be told from when on the store could be used.
        Some("another server took over once more".to_owned())
    } else if most > STALL_MAX || total > bounds.end.mul_f64(SHARE_MAX) {
        Some(format!(
            "the machine was late by {most:?}, {total:?} in all"
        ))
    } else {
        None
    }
}

/// Decides who wants what when; what the machine makes of it is another matter.
fn seed() -> u64 {
    let seed = env::var("FAULT_SEED").ok();
    seed.and_then(|it| it.parse().ok())
        .unwrap_or_else(rand::random)
}

/// Writes a history down, for whoever looks into it.
fn keep(name: &str, events: &[Event]) -> String {
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.history", name.replace(' ', "-")));
    let lines = events.iter().map(|it| {
        format!(
            "{:?} lock {} attempt {} {:?}\n",
            it.at, it.name, it.attempt, it.what
        )
    });
    fs::write(&path, lines.collect::<Vec<_>>().concat()).expect("written");
    path.display().to_string()
}

#[expect(clippy::print_stderr, reason = "for whoever runs the test to see")]
fn report(line: &str) {
    eprintln!("{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_or_another_fault_is_an_excuse() {
        let excused = |most: u64, total: u64, struck_again: bool| {
            let bounds = Bounds {
                lease: LEASE,
                busy: SHORT,
                fault: Duration::ZERO,
                healed: Duration::ZERO,
                stopped: Duration::from_secs(10),
                end: Duration::from_secs(10),
                lateness: Lateness {
                    most: Duration::from_millis(most),
                    total: Duration::from_millis(total),
                },
            };
            excuse(&bounds, struck_again).is_some()
        };
        assert!(!excused(0, 0, false));
        assert!(!excused(400, 900, false));
        assert!(excused(600, 600, false));
        assert!(excused(100, 1100, false));
        assert!(excused(0, 0, true));
    }
}
