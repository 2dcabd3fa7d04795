//! The chain from a lock to the holders that are really waited for.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use lockkeeper_store::script::CallError;

use crate::{
    core::Core,
    error::Error,
    types::{Goal, LockName},
    why::{
        cycle::{Cycle, DEPTH, Sightings, Task, cycle_of},
        wait::{Party, State, is_same},
        walk::{HolderExplained, LockExplained, WIDTH, WaitExplained, Walk},
    },
};

/// Names and owners that are looked up for one answer.
const LOOKS_MAX: usize = 256;

/// A cycle is looked at again after this pause, so often at most. In that time each coordinator
/// writes its waits anew.
const PAUSE: Duration = Duration::from_millis(250);
const LOOKS_AT_CYCLE: usize = 6;

/// Why a lock is waited for.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The locks of the chain, each once: the one that was asked for, and after a lock those that
    /// its holders wait for.
    pub locks: Vec<LockExplained>,
    /// The chain goes on beyond what is listed.
    pub truncated: bool,
    /// The deadlocks in the chain, or else what may be some.
    pub deadlocks: Vec<Cycle>,
}

/// The chain from this lock. If there is a cycle, it takes as long as it takes to see whether that
/// is a deadlock.
pub(crate) async fn explain(core: &Arc<Core>, name: &LockName) -> Result<Explanation, Error> {
    let mut sightings = Sightings::default();
    let mut looks = 0;
    loop {
        looks += 1;
        let own = core.why.own();
        let mut walk = Walk::new(core, &own, LOOKS_MAX);
        let mut explanation = chain(&mut walk, name).await?;
        let cycles = cycles(&mut walk, &explanation).await;
        let count = cycles.len();
        let confirmed = cycles
            .into_iter()
            .filter(|(state, cycle)| core.why.is_deadlock(state) || sightings.confirm(cycle));
        explanation.deadlocks = confirmed.map(|(_, cycle)| cycle).collect();
        if explanation.deadlocks.len() == count || looks == LOOKS_AT_CYCLE {
            return Ok(explanation);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn chain(walk: &mut Walk<'_>, name: &LockName) -> Result<Explanation, Error> {
    let first = walk.lock(name).await?;
    let first = first.ok_or(Error::Store(CallError::WrongKind))?;
    let mut seen = BTreeSet::from([name.clone()]);
    let mut ahead = VecDeque::from([(first, 1)]);
    let (mut locks, mut truncated) = (Vec::new(), false);
    while let Some((lock, depth)) = ahead.pop_front() {
        let mut lock = LockExplained::clone(&lock);
        truncated |= lock.holder_count > lock.holders.len();
        for holder in &mut lock.holders {
            truncated |= !add_waits(walk, holder).await;
            for wait in &holder.waits {
                if !seen.insert(wait.name.clone()) {
                    continue;
                }
                let next = if depth < DEPTH {
                    walk.lock(&wait.name).await.ok().flatten()
                } else {
                    None
                };
                truncated |= next.is_none();
                ahead.extend(next.map(|next| (next, depth + 1)));
            }
        }
        locks.push(lock);
    }
    Ok(Explanation {
        locks,
        truncated: truncated || walk.is_exhausted(),
        deadlocks: Vec::new(),
    })
}

/// Adds what a holder waits for. Returns whether that is all.
async fn add_waits(walk: &mut Walk<'_>, holder: &mut HolderExplained) -> bool {
    let Some(owner) = &holder.owner else {
        return true;
    };
    let Some(waits) = walk.waits(&Party::of(owner)).await else {
        return true;
    };
    if holder.client_name.is_empty() {
        holder.client_name.clone_from(&waits.client_name);
    }
    let listed = waits.waits.iter().take(WIDTH as usize);
    let listed = listed.map(|wait| WaitExplained {
        name: wait.name.clone(),
        owner: wait.owner.clone(),
        is_holder: is_same(&wait.owner, owner),
        mode: match wait.goal {
            Goal::Lock(mode) => Some(mode),
            Goal::Permits | Goal::Latch => None,
        },
        since: wait.since,
    });
    holder.waits = listed.collect();
    waits.complete && holder.waits.len() == waits.waits.len()
}

/// The cycles of the holders in a chain: deadlocks, or else those that may be some.
async fn cycles(walk: &mut Walk<'_>, chain: &Explanation) -> BTreeMap<State, Cycle> {
    let holders = chain.locks.iter().flat_map(|lock| &lock.holders);
    let waiting = holders.filter(|holder| !holder.waits.is_empty());
    let owners: Vec<_> = waiting.filter_map(|it| it.owner.as_ref()).collect();
    let mut cycles = BTreeMap::new();
    for task in [Task::Named, Task::Session] {
        for owner in &owners {
            if let Some(cycle) = cycle_of(walk, owner, task).await {
                cycles.insert(cycle.state(), cycle);
            }
        }
        if !cycles.is_empty() {
            break;
        }
    }
    cycles
}
