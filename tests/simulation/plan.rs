//! What a seed stands for: how many of everything, which faults are on and how strong, and when
//! what breaks.

use std::{sync::Arc, time::Duration};

use lockkeeper_coordinator::{Note, Owner};
use lockkeeper_store::{host::Replicas, script::Mode};
use rand::{Rng as _, RngExt as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};

use crate::notes::note_of;

/// A generator whose numbers stay the same with every version of the crate.
pub(crate) type Dice = Xoshiro256PlusPlus;

/// A whole run, drawn from its seed. Each seed has only some of the fault classes, because all at
/// once hide each other.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
    pub(crate) names: Vec<&'static str>,
    /// What each of them is.
    pub(crate) families: Vec<Family>,
    pub(crate) session_clients: usize,
    pub(crate) sessionless_clients: usize,
    /// Those that take several locks at once.
    pub(crate) several_clients: usize,
    pub(crate) foreign_clients: usize,
    /// How long clients come and things break.
    pub(crate) chaos: Duration,
    /// Mean pause of a client between two actions.
    pub(crate) pause: Duration,
    /// Leases that sessions and requests choose from.
    pub(crate) leases: Vec<Duration>,
    pub(crate) poll_interval: Duration,
    /// How long a waiter of a fair lock keeps its place when its coordinator says nothing.
    pub(crate) patience: Duration,
    /// How long a writer that waits holds readers back.
    pub(crate) hold_back: Duration,
    pub(crate) call_timeout: Duration,
    /// One way to the store in good times.
    pub(crate) latency: Duration,
    pub(crate) messages: Messages,
    pub(crate) calls: Calls,
    pub(crate) manners: Manners,
    pub(crate) incidents: Vec<(Duration, Incident)>,
}

/// What a lock is: one name is always used as the same kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Exclusive,
    Fair,
    ReadWrite,
}

/// What happens to messages, each in so many of a thousand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Messages {
    pub(crate) lost: u64,
    pub(crate) delayed: u64,
    pub(crate) delay: Duration,
    /// A subscription that is not confirmed but made up for later.
    pub(crate) subscribe_fails: u64,
    pub(crate) subscribe_late: u64,
}

/// What happens to calls, each in so many of a thousand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    pub(crate) request_lost: u64,
    pub(crate) answer_lost: u64,
}

/// What clients do that not all clients do, each in so many of a thousand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manners {
    /// Ends a wait before its time, or leaves the answer.
    pub(crate) fickle: u64,
    /// Breaks its stream.
    pub(crate) breaks: u64,
    /// Vanishes with everything it has.
    pub(crate) crashes: u64,
    pub(crate) closes: u64,
    /// Takes what it holds again.
    pub(crate) reenters: u64,
    /// Wants the other side of a read/write lock that it holds.
    pub(crate) nests: u64,
    /// Wants a read/write lock as a reader.
    pub(crate) reads: u64,
    /// Asks for a lease of its own.
    pub(crate) fixed: u64,
    pub(crate) request_ids: u64,
    /// Gives back what it does not hold.
    pub(crate) stranger: u64,
    /// Says something of its hold.
    pub(crate) notes: u64,
}

/// Something that breaks at a moment, and for how long.
#[derive(Clone, Debug)]
pub(crate) enum Incident {
    /// The store answers nobody, and carries everything out in order later.
    Frozen(Duration),
    /// One coordinator's calls are carried out late, in order.
    Stalled(usize, Duration),
    /// One coordinator cannot reach the store, and knows it.
    Unavailable(usize, Duration),
    /// One coordinator's calls take so much longer each way.
    Slow(usize, Duration, Duration),
    /// One coordinator is told that it may have missed messages.
    Gap(usize),
    Crash(usize),
    Drain(usize),
    Delete(usize),
    Flush,
}

// === impl Plan ===

impl Plan {
    /// How many replicas must know of what is done: in every fourth seed one. Not drawn, so that
    /// the other seeds tell the stories they always told.
    pub(crate) fn replica_acks(&self) -> Option<Replicas> {
        self.seed.is_multiple_of(4).then_some(Replicas {
            at_least: 1,
            all: false,
        })
    }

    /// Whether a coordinator uses commands without scripts: in a third of the seeds all do, in a
    /// third none, and in the others every second one. `NATIVE=on` and `NATIVE=off` say so for all.
    pub(crate) fn is_native(&self, node: usize) -> bool {
        match std::env::var("NATIVE").as_deref() {
            Ok("on") => true,
            Ok("off") => false,
            _ => match self.seed % 3 {
                0 => true,
                1 => false,
                _ => node.is_multiple_of(2),
            },
        }
    }

    pub(crate) fn of(seed: u64) -> Self {
        let mut dice = Dice::seed_from_u64(seed);
        let dice = &mut dice;
        let nodes = dice.random_range(1..=3);
        let names = ["a", "b", "x{c}"][..dice.random_range(1..=3)].to_vec();
        let families = [
            Family::Exclusive,
            Family::Fair,
            Family::Fair,
            Family::ReadWrite,
            Family::ReadWrite,
        ];
        let families = names.iter().map(|_| pick(dice, &families)).collect();
        let leases = match dice.random_range(0..4) {
            0 => vec![600],
            1 => vec![1000, 3000],
            2 => vec![500, 2000, 10_000],
            _ => vec![3000],
        };
        let mut plan = Self {
            seed,
            nodes,
            session_clients: dice.random_range(1..=5),
            sessionless_clients: dice.random_range(0..=2),
            several_clients: pick(dice, &[0, 0, 1, 2]),
            foreign_clients: dice.random_range(0..=1),
            chaos: millis(dice.random_range(4_000..11_000)),
            pause: millis(pick(dice, &[20, 100, 400])),
            leases: leases.into_iter().map(millis).collect(),
            poll_interval: millis(pick(dice, &[1000, 1000, 3000])),
            patience: millis(pick(dice, &[900, 2000, 5000])),
            hold_back: millis(pick(dice, &[200, 800, 2500])),
            call_timeout: millis(pick(dice, &[200, 500, 2000])),
            latency: millis(pick(dice, &[0, 1, 1, 5, 20])),
            messages: Messages::default(),
            calls: Calls::default(),
            manners: Manners::draw(dice),
            incidents: Vec::new(),
            names,
            families,
        };
        plan.messages = Messages::draw(dice);
        plan.calls = Calls::draw(dice);
        plan.draw_incidents(dice);
        // Last, so that a plan without notes is what it was before there were any.
        plan.manners.notes = pick(dice, &[0, 0, 150, 500]);
        // Several locks at once have a short way if all are exclusive, which is rare otherwise.
        if plan.several_clients > 0 && dice.random_ratio(1, 3) {
            plan.families.fill(Family::Exclusive);
        }
        plan
    }

    fn draw_incidents(&mut self, dice: &mut Dice) {
        let lease_max = self.lease_max();
        let spans = [
            self.call_timeout / 2,
            self.call_timeout * 3 / 2,
            lease_max / 2,
            lease_max + lease_max / 2,
        ];
        let nodes = self.nodes;
        let mut add = |dice: &mut Dice, draw: &dyn Fn(&mut Dice) -> Incident| {
            // Two of three fault classes are off in a run.
            if !one_in(dice, 3) {
                return;
            }
            for _ in 0..dice.random_range(1..=3) {
                let at = self.chaos.mul_f64(dice.random_range(0.05..0.9));
                self.incidents.push((at, draw(dice)));
            }
        };
        let node = move |dice: &mut Dice| dice.random_range(0..nodes);
        add(dice, &|d| Incident::Frozen(pick(d, &spans)));
        add(dice, &|d| Incident::Stalled(node(d), pick(d, &spans)));
        add(dice, &|d| Incident::Unavailable(node(d), pick(d, &spans)));
        add(dice, &|d| {
            Incident::Slow(node(d), pick(d, &spans) * 2, spans[0].min(spans[2]) / 2)
        });
        add(dice, &|d| Incident::Gap(node(d)));
        add(dice, &|d| Incident::Crash(node(d)));
        add(dice, &|d| Incident::Drain(node(d)));
        if one_in(dice, 3) {
            let names = self.names.len();
            let mut add = |dice: &mut Dice, incident| {
                let at = self.chaos.mul_f64(dice.random_range(0.05..0.9));
                self.incidents.push((at, incident));
            };
            let name = dice.random_range(0..names);
            add(dice, Incident::Delete(name));
            if one_in(dice, 2) {
                add(dice, Incident::Flush);
            }
        }
        self.incidents.sort_by_key(|(at, _)| *at);
    }

    /// The longest lease that anybody can have.
    pub(crate) fn lease_max(&self) -> Duration {
        self.leases.iter().max().copied().unwrap_or_default()
    }

    /// A generator of one client's own, so that what one does changes no other's draws.
    pub(crate) fn dice(&self, of: u64) -> Dice {
        Dice::seed_from_u64(mix(self.seed ^ mix(of)))
    }
}

// === impl Family ===

impl Family {
    /// A way to hold it.
    pub(crate) fn mode(self, dice: &mut Dice, reads: u64) -> Mode {
        match self {
            Self::Exclusive => Mode::Exclusive,
            Self::Fair => Mode::Fair,
            Self::ReadWrite if happens(dice, reads) => Mode::Read,
            Self::ReadWrite => Mode::Write,
        }
    }

    /// How whoever has this field holds it.
    pub(crate) fn mode_of(self, field: &[u8]) -> Mode {
        match self {
            Self::Exclusive => Mode::Exclusive,
            Self::Fair => Mode::Fair,
            Self::ReadWrite if field.ends_with(b":write") => Mode::Write,
            Self::ReadWrite => Mode::Read,
        }
    }
}

// === impl Messages ===

impl Messages {
    fn draw(dice: &mut Dice) -> Self {
        if !one_in(dice, 3) {
            return Self::default();
        }
        Self {
            lost: pick(dice, &[0, 100, 500, 1000]),
            delayed: pick(dice, &[0, 200, 800]),
            delay: millis(pick(dice, &[5, 50, 1500])),
            subscribe_fails: pick(dice, &[0, 300]),
            subscribe_late: pick(dice, &[0, 300]),
        }
    }

    pub(crate) fn are_reliable(&self) -> bool {
        let Self {
            lost,
            delayed,
            subscribe_fails,
            subscribe_late,
            delay: _,
        } = *self;
        lost + delayed + subscribe_fails + subscribe_late == 0
    }
}

// === impl Calls ===

impl Calls {
    fn draw(dice: &mut Dice) -> Self {
        if !one_in(dice, 3) {
            return Self::default();
        }
        Self {
            request_lost: pick(dice, &[0, 20, 100]),
            answer_lost: pick(dice, &[0, 20, 100]),
        }
    }

    pub(crate) fn are_reliable(&self) -> bool {
        self.request_lost + self.answer_lost == 0
    }
}

// === impl Manners ===

impl Manners {
    fn draw(dice: &mut Dice) -> Self {
        Self {
            fickle: pick(dice, &[0, 0, 100, 400]),
            breaks: pick(dice, &[0, 0, 30, 120]),
            crashes: pick(dice, &[0, 0, 15, 50]),
            closes: pick(dice, &[0, 20, 60]),
            reenters: pick(dice, &[0, 100, 400]),
            nests: pick(dice, &[0, 100, 400]),
            reads: pick(dice, &[400, 600, 850]),
            fixed: pick(dice, &[0, 200]),
            request_ids: pick(dice, &[0, 300, 900]),
            stranger: pick(dice, &[0, 30, 100]),
            notes: 0,
        }
    }
}

impl Manners {
    /// What an owner says of its hold, if it says something.
    pub(crate) fn note(&self, dice: &mut Dice, owner: &Owner) -> Option<Arc<Note>> {
        (self.notes > 0 && happens(dice, self.notes)).then(|| note_of(owner))
    }
}

pub(crate) fn pick<T: Clone>(dice: &mut Dice, choices: &[T]) -> T {
    choices[dice.random_range(0..choices.len())].clone()
}

pub(crate) fn one_in(dice: &mut Dice, of: u32) -> bool {
    dice.random_range(0..of) == 0
}

/// True so many times in a thousand.
pub(crate) fn happens(dice: &mut Dice, per_mille: u64) -> bool {
    dice.next_u64() % 1000 < per_mille
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// One step of the `SplitMix64` generator: a number that looks random and depends on nothing but
/// the argument.
pub(crate) fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
