//! Seeds become runs: coordinators, clients and a store under a clock that stands still until
//! everybody waits, with everything that can go wrong going wrong; and a checker goes through what
//! happened. `SEED=123` runs one seed and prints its history, `SEEDS=5000` sets how many are run,
//! `MUTANT=undo` runs only the breakages with that in their names.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint does not take for tests"
)]

mod checker;
mod clients;
mod deadlock;
mod election;
mod faulty_host;
mod history;
mod latch;
mod ledger;
mod link;
mod mutants;
mod negotiation;
mod notes;
mod permits;
mod plan;
mod preemption;
mod run;
mod scenario;
mod trace;
mod world;

use std::{
    collections::BTreeMap,
    io::Write as _,
    ops::Range,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

use history::{Event, What};
use mutants::Mutant;
use parking_lot::Mutex;
use run::{Run, run};

const SEEDS: u64 = 2000;

/// Within so many seeds a breakage has to be found.
const MUTANT_SEEDS: u64 = 1500;

/// Seeds that found a rare violation before, as in a fuzzer's corpus. They run after the first few.
/// If plans are drawn differently, they are as good as any others.
const CORPUS: [u64; 14] = [
    62, 82, 110, 128, 197, 234, 245, 253, 259, 278, 593, 673, 848, 1381,
];
const BEFORE_CORPUS: u64 = 30;

/// What a script that does not work at all, and a panic, look like.
const UNRULY: [&str; 2] = ["panic: ", "the store answered: "];

/// Events that are shown before and after the first violation.
const TAIL: usize = 60;

#[test]
fn no_seed_breaks_a_rule() {
    if let Some(seed) = number("SEED") {
        let run = run(seed, Mutant::None);
        say(&format!("{:#?}", plan::Plan::of(seed)));
        run.events.iter().for_each(|event| say(&event.to_string()));
        assert!(run.violations.is_empty(), "{:#?}", run.violations);
        let replayed = trace::replay(&run.events, &plan::Plan::of(seed));
        assert!(replayed.violations.is_empty(), "{replayed:#?}");
        return;
    }
    let seeds = number("SEEDS").unwrap_or(SEEDS);
    let (operations, grants) = (AtomicU64::new(0), AtomicU64::new(0));
    let (traces, steps) = (AtomicU64::new(0), AtomicU64::new(0));
    let failed = Mutex::new(Vec::new());
    on_all_cores(0..seeds, |seed| {
        let mut run = run(seed, Mutant::None);
        let replayed = trace::replay(&run.events, &plan::Plan::of(seed));
        traces.fetch_add(replayed.traces, Ordering::Relaxed);
        steps.fetch_add(replayed.steps, Ordering::Relaxed);
        run.violations.extend(replayed.violations);
        operations.fetch_add(run.operations, Ordering::Relaxed);
        grants.fetch_add(run.grants, Ordering::Relaxed);
        if !run.violations.is_empty() {
            failed.lock().push((seed, run));
        }
    });
    let mut failed = failed.into_inner();
    failed.sort_by_key(|(seed, _)| *seed);
    let grants = grants.into_inner();
    say(&format!(
        "simulation: {seeds} seeds, {} violations, {} operations, {grants} grants; {} locks, {} \
         steps replayed through the model",
        failed
            .iter()
            .map(|(_, run)| run.violations.len())
            .sum::<usize>(),
        operations.into_inner(),
        traces.into_inner(),
        steps.into_inner(),
    ));
    for (seed, run) in &failed {
        say(&format!("seed {seed}: {}", run.violations[0].rule));
    }
    if let Some((seed, run)) = failed.first() {
        show(run);
        panic!("replay with: make sim SEED={seed}");
    }
    assert!(grants > 0, "nobody had a lock");
}

/// The same seed gives the same history; events of one millisecond may come in another order,
/// because what is independent may.
#[test]
fn a_seed_always_gives_the_same_history() {
    for seed in 0..20 {
        let [first, second] = [0, 1].map(|_| canonical(&run(seed, Mutant::None).events));
        let differs = first.iter().zip(&second).find(|(a, b)| a != b);
        assert!(differs.is_none(), "seed {seed}: {differs:?}");
        assert_eq!(first.len(), second.len(), "seed {seed}");
    }
}

/// A history as text that does not depend on the order of what happens in the same instant:
/// operations are numbered by what they ask for.
fn canonical(events: &[Event]) -> Vec<String> {
    let without_numbers = |event: &Event| {
        let text = event.to_string();
        let words = text
            .split_whitespace()
            .filter(|word| !word.starts_with('#'));
        (event.at, words.collect::<Vec<_>>().join(" "))
    };
    let mut invoked: Vec<_> = events
        .iter()
        .filter_map(|event| match event.what {
            What::Invoked { op, .. } => Some((without_numbers(event), op)),
            _ => None,
        })
        .collect();
    invoked.sort_by(|a, b| a.0.cmp(&b.0));
    let numbers: BTreeMap<String, usize> = invoked
        .iter()
        .enumerate()
        .map(|(number, (_, op))| (format!("#{op}"), number))
        .collect();
    let mut lines: Vec<_> = events
        .iter()
        .map(|event| {
            let text = event.to_string();
            let words = text.split_whitespace().map(|word| match numbers.get(word) {
                Some(number) => format!("#{number}"),
                None => word.to_owned(),
            });
            (event.at, words.collect::<Vec<_>>().join(" "))
        })
        .collect();
    lines.sort();
    lines
        .into_iter()
        .map(|(at, line)| format!("{at} {line}"))
        .collect()
}

/// A simulation that finds nothing proves nothing, so here is something to find.
#[test]
fn every_breakage_on_purpose_is_noticed() {
    // Otherwise it would be noticed by what goes wrong here.
    assert_eq!(Mutant::without_effect(), Vec::<String>::new());
    let wanted = std::env::var("MUTANT").unwrap_or_default();
    let mut all = Mutant::all();
    all.retain(|mutant| mutant.name().contains(&wanted));
    let next = AtomicUsize::new(0);
    let unnoticed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                while let Some(mutant) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let noticed = mutant_seeds().find_map(|seed| {
                        let run = run(seed, *mutant);
                        Some((seed, run.violations.first()?.rule.clone()))
                    });
                    match noticed {
                        // A breakage that cannot even run shows nothing of the rules.
                        Some((seed, rule)) if UNRULY.iter().any(|what| rule.contains(what)) => {
                            unnoticed
                                .lock()
                                .push(format!("{}: seed {seed}: {rule}", mutant.name()));
                        }
                        Some((seed, rule)) => {
                            say(&format!("{}: seed {seed}: {rule}", mutant.name()));
                        }
                        None => unnoticed.lock().push(mutant.name().to_owned()),
                    }
                }
            });
        }
    });
    let unnoticed = unnoticed.into_inner();
    assert!(unnoticed.is_empty(), "not noticed: {unnoticed:#?}");
}

/// The model follows what the scripts do, and nothing else.
#[test]
fn a_broken_script_is_no_step_of_the_model() {
    const BROKEN: [&str; 7] = [
        "an acquire does not look at the holder",
        "the token stays when the lock is granted anew",
        "a release does not look at the owner",
        "a release of one of several holds takes all",
        "the token of a hand-over is a constant",
        "a hand-over takes all holds",
        "an acquire counts no further holds",
    ];
    for name in BROKEN {
        let mut all = Mutant::all().into_iter();
        let mutant = all.find(|mutant| mutant.name() == name).unwrap();
        let found = (0..MUTANT_SEEDS).find_map(|seed| {
            let replayed = trace::replay(&run(seed, mutant).events, &plan::Plan::of(seed));
            Some((seed, replayed.violations.first()?.rule.clone()))
        });
        let (seed, rule) = found.unwrap_or_else(|| panic!("{name}: the model takes it all"));
        say(&format!("{name}: seed {seed}: {rule}"));
    }
}

fn mutant_seeds() -> impl Iterator<Item = u64> {
    let others = BEFORE_CORPUS..MUTANT_SEEDS;
    (0..BEFORE_CORPUS).chain(CORPUS).chain(others)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, Into::into)
}

/// Runs each seed, on as many threads as there are cores.
fn on_all_cores(seeds: Range<u64>, run: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(seeds.start);
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !seeds.contains(&seed) {
                        return;
                    }
                    run(seed);
                }
            });
        }
    });
}

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().expect("a number"))
}

fn show(run: &Run) {
    let at = run.violations[0].at;
    let until = run.events.partition_point(|event| event.at <= at);
    let shown = until.saturating_sub(TAIL)..(until + TAIL / 4).min(run.events.len());
    run.events[shown]
        .iter()
        .for_each(|event| say(&event.to_string()));
    for violation in &run.violations {
        say(&format!("{:>8} {}", violation.at, violation.rule));
    }
}

/// Says something that is seen although the test passes: the harness catches only what the macros
/// print.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
