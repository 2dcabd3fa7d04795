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
    pub(crate) async fn run(self) {
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
        let healed = loop {
            self.fault.strike(&mut world).await;
            strikes += 1;
            let healed = ring.history.now();
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
        };
        let events = ring.history.events();
        let findings = check(&events, &bounds);
        assert!(!crashed, "{}: a contender has crashed", self.name);
        world
            .coordinators
            .iter_mut()
            .for_each(|it| it.assert_alive());
        self.judge(&findings, &ring, strikes, seed, &events);
    }

    fn judge(&self, it: &Findings, ring: &Ring, strikes: u32, seed: u64, events: &[Event]) {
        let registers = ring.witness.registers();
        let unfenced: u64 = registers.iter().map(Registers::unfenced_lost).sum();
        let fenced: u64 = registers.iter().map(Registers::fenced_lost).sum();
        let refused: u64 = registers.iter().map(|it| it.refused).sum();
        report(&format!(
            "row {:<34} seed={seed} strikes={strikes} grants={} failed={} lost={} | violations={} ({:?}) late={} \
             unfenced_lost={unfenced} | fenced_lost={fenced} refused={refused} tokens={} stuck={} silent={} unaware={} | \
             outage={:.2}s back={:.2}s one={:.2}s",
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
        ));
        let mut problems: Vec<String> = Vec::new();
        if self.promise == Promise::Exclusion {
            problems.extend(it.violations.iter().cloned());
            if unfenced > 0 {
                problems.push(format!(
                    "{unfenced} updates of the unfenced registers are lost"
                ));
            }
        }
        // Two stores that count from the same clock give the same token if they grant in the same
        // microsecond.
        let by_chance =
            self.promise == Promise::TwoStores && (1..=TWINS_MAX).contains(&it.twins.len());
        if !by_chance {
            problems.extend(it.twins.iter().cloned());
            if fenced > 0 {
                problems.push(format!("{fenced} updates of the fenced registers are lost"));
            }
        }
        problems.extend(
            [&it.tokens, &it.stuck, &it.silent]
                .into_iter()
                .flatten()
                .cloned(),
        );
        if self.promise != Promise::TwoStores {
            problems.extend(it.unaware.iter().cloned());
        }
        if it.outage > self.outage_max {
            problems.push(format!("no grant for {:?}", it.outage));
        }
        if it.outage_of_one > self.outage_of_one_max {
            problems.push(format!("no grant of a lock for {:?}", it.outage_of_one));
        }
        if it.failed > 0 && !self.may_fail {
            let why = ring.failures.lock().clone();
            problems.push(format!("{} calls failed: {why:#?}", it.failed));
        }
        if it.lost > 0 && !self.may_lose {
            problems.push(format!("{} grants were lost", it.lost));
        }
        let file = keep(self.name, events);
        if !problems.is_empty() {
            problems.truncate(20);
            panic!("{}, history in {file}:\n{}", self.name, problems.join("\n"));
        }
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
