//! Explores the models within the bounds that `docs/proof.md` states, and prints how many states
//! there are. Ends with 1 if a property does not hold.

use std::{fmt::Debug, process::ExitCode};

use lockkeeper_model::{
    explore::{Explored, explore},
    quorum, session,
};

/// What is explored.
enum Subject {
    Session(session::Bounds),
    Quorum(quorum::Bounds),
}

/// The names that the documents use.
fn subjects() -> Vec<(&'static str, Subject)> {
    let base = session::Bounds {
        ticks: 0,
        calls: 3,
        acquires: 1,
        breaks: 1,
        renewals: 0,
        watches: 0,
        failovers: 0,
        is_prompt: false,
    };
    let quorum = quorum::Bounds {
        ticks: None,
        attempts: 2,
        losses: 1,
    };
    let renewals = session::Bounds {
        calls: 2,
        renewals: 1,
        ..base
    };
    let failover = session::Bounds {
        ticks: 6,
        calls: 2,
        breaks: 0,
        failovers: 1,
        ..base
    };
    let waiters = session::Bounds {
        renewals: 1,
        is_prompt: true,
        ..base
    };
    let clocks = quorum::Bounds {
        ticks: Some(4),
        losses: 0,
        ..quorum
    };
    vec![
        ("late messages", Subject::Session(base)),
        ("renewals", Subject::Session(renewals)),
        ("failover", Subject::Session(failover)),
        ("waiters", Subject::Session(waiters)),
        ("quorum", Subject::Quorum(quorum)),
        ("quorum, clocks", Subject::Quorum(clocks)),
    ]
}

/// Explores one and prints its line; whether all properties hold.
#[expect(clippy::print_stdout, reason = "what the program is for")]
#[expect(clippy::disallowed_types, reason = "it measures itself")]
fn run(name: &str, bounds: &dyn Debug, explored: impl FnOnce() -> Explored) -> bool {
    let begun = std::time::Instant::now();
    let found = explored();
    let time = begun.elapsed().as_secs();
    println!(
        "{name:<16} {:>10} states, depth {:>3}, {time:>4} s: {bounds:?}",
        found.states, found.depth
    );
    for (property, way) in &found.wrong {
        println!("  BROKEN {property}: {way}");
    }
    for property in &found.unseen {
        println!("  NOT SEEN {property}");
    }
    found.wrong.is_empty() && found.unseen.is_empty()
}

fn main() -> ExitCode {
    let hold = subjects().into_iter().map(|(name, subject)| match subject {
        Subject::Session(bounds) => run(name, &bounds, || {
            let broken = None;
            explore(session::Protocol { bounds, broken })
        }),
        Subject::Quorum(bounds) => run(name, &bounds, || {
            let broken = None;
            explore(quorum::Protocol { bounds, broken })
        }),
    });
    let hold: Vec<bool> = hold.collect();
    if hold.iter().all(|it| *it) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
