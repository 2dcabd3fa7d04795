//! The plan of a run.

use std::time::Duration;

use lockkeeper_api::pb::LockMode;
use lockkeeper_cli::{args::ServerArgs, exit, failure::Failure};
use rand::RngExt as _;

use super::args::{BenchArgs, Scenario};

/// One of this many calls of `read-mostly` writes.
const WRITERS_ONE_IN: u64 = 10;

/// The plan of a run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) scenario: Scenario,
    pub(super) server: ServerArgs,
    /// The coordinator that resumes sessions.
    pub(super) resume_on: ServerArgs,
    pub(super) frames: bool,
    pub(super) connections: usize,
    pub(super) in_flight: usize,
    pub(super) rate: Option<f64>,
    pub(super) warm_up: Duration,
    pub(super) duration: Duration,
    pub(super) lease: Option<prost_types::Duration>,
    pub(super) names: usize,
    pub(super) waiters: usize,
    pub(super) sessions: usize,
}

/// A caller, and how many locks it has acquired.
#[derive(Debug)]
pub(super) struct Caller {
    number: usize,
    count: u64,
}

/// The lock that a caller acquires next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    /// The number of the lock.
    pub(super) lock: usize,
    pub(super) mode: LockMode,
}

// === impl Plan ===

impl Plan {
    pub(super) fn new(args: BenchArgs) -> Result<Self, Failure> {
        let scenario = args.scenario;
        if args.rate.is_some()
            && matches!(
                scenario,
                Scenario::Waiters | Scenario::Watch | Scenario::Resume
            )
        {
            let why = format!("--rate means nothing to {}", scenario.name());
            return Err(Failure::local(exit::USAGE, why));
        }
        let in_flight = args.in_flight.get();
        let at_most = match scenario {
            Scenario::Waiters => args.waiters.get(),
            Scenario::Watch | Scenario::Resume => args.sessions.get(),
            _ => in_flight,
        };
        let names = args.names.map(usize::from);
        let server = args.common.server;
        let resume_on = args
            .resume_on
            .map_or_else(|| server.clone(), |it| server.at(it));
        let has_sessions = matches!(
            scenario,
            Scenario::Watch | Scenario::Churn | Scenario::Resume
        );
        Ok(Self {
            scenario,
            server,
            resume_on,
            frames: args.frames || has_sessions,
            connections: args.connections.get().min(at_most),
            in_flight,
            rate: args.rate,
            warm_up: args.warm_up,
            duration: args.duration,
            lease: args.lease,
            names: match scenario {
                // Each caller needs its own.
                Scenario::Uncontended => names.unwrap_or(in_flight).max(in_flight),
                Scenario::Handover | Scenario::Fair | Scenario::Waiters => 1,
                Scenario::ReadMostly => names.unwrap_or(8),
                Scenario::Watch | Scenario::Churn => names.unwrap_or(10_000),
                Scenario::Resume => args.sessions.get(),
            },
            waiters: args.waiters.get(),
            sessions: args.sessions.get(),
        })
    }

    /// Names that are unique to this run.
    pub(super) fn lock_names(&self) -> impl Iterator<Item = String> {
        let run: u32 = rand::rng().random();
        (0..self.names).map(move |number| format!("bench-{run:08x}-{number}"))
    }

    /// Whether callers wait for their locks.
    pub(super) fn waits(&self) -> bool {
        self.scenario != Scenario::Uncontended
    }

    /// Whether one lock is handed over from caller to caller.
    pub(super) fn hands_over(&self) -> bool {
        matches!(self.scenario, Scenario::Handover | Scenario::Fair)
    }

    /// How many cycles begin in a second for `rate` operations in a second: acquire and release are
    /// two.
    pub(super) fn beginnings_per_second(&self) -> Option<f64> {
        let each = match self.scenario {
            Scenario::Churn => 1.0,
            _ => 2.0,
        };
        self.rate.map(|rate| rate / each)
    }

    /// How many of `total` belong to one connection.
    pub(super) fn share(&self, total: usize, connection: usize) -> usize {
        total / self.connections + usize::from(connection < total % self.connections)
    }
}

// === impl Caller ===

impl Caller {
    pub(super) fn new(number: usize) -> Self {
        Self { number, count: 0 }
    }

    pub(super) fn next(&mut self, plan: &Plan) -> Target {
        let nth = self.count;
        self.count += 1;
        let (lock, mode) = match plan.scenario {
            Scenario::Uncontended => {
                // A caller has the names whose number is its own modulo the number of callers.
                let own = (plan.names - 1 - self.number) / plan.in_flight + 1;
                let name = usize::try_from(nth).unwrap_or(0) % own;
                (self.number + name * plan.in_flight, LockMode::Exclusive)
            }
            Scenario::Fair => (0, LockMode::Fair),
            Scenario::ReadMostly => {
                let draw = scatter(((self.number as u64) << 40) ^ nth);
                let mode = if draw.is_multiple_of(WRITERS_ONE_IN) {
                    LockMode::Write
                } else {
                    LockMode::Read
                };
                let lock = usize::try_from(draw >> 32).unwrap_or(0) % plan.names;
                (lock, mode)
            }
            _ => (0, LockMode::Exclusive),
        };
        Target { lock, mode }
    }
}

/// Scatters consecutive numbers (the finaliser of `SplitMix64`).
fn scatter(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
