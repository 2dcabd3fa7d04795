//! Cycles of waits, and when one is a deadlock.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use lockkeeper_store::script::Mode;
use tokio::time::Instant;

use crate::{
    types::{Goal, LockName, Owner},
    why::{
        wait::{Hold, Party, State, Wait, Waits},
        walk::{HolderExplained, Walk},
    },
};

/// Waits in one cycle.
pub(crate) const DEPTH: usize = 16;

/// Owners that wait for each other: each waits for a lock that the next one holds, and the last for
/// one that the first holds.
#[derive(Clone, Debug)]
pub struct Cycle {
    /// Its waits.
    pub links: Vec<Link>,
    /// It is a deadlock only if the owners of a session are one task, and if nobody else has the
    /// permits that are waited for.
    pub is_possible: bool,
    /// All of the waits were under way then.
    pub(crate) alive_at: Instant,
}

/// A wait of a cycle.
#[derive(Clone, Debug)]
pub struct Link {
    /// The owner that waits.
    pub owner: Owner,
    /// The session's client name.
    pub client_name: String,
    /// The lock that it waits for, and that the owner of the next link holds.
    pub name: LockName,
    /// The mode it wants; none for permits.
    pub mode: Option<Mode>,
    /// The start of its wait.
    pub since: Instant,
    pub(crate) wait: Wait,
    pub(crate) hold: Hold,
}

/// The cycles that were seen.
#[derive(Debug, Default)]
pub(crate) struct Sightings(BTreeMap<State, Sighting>);

#[derive(Debug)]
struct Sighting {
    /// The end of the first look that saw it.
    first: Instant,
    owners: Vec<Arc<str>>,
}

/// What counts as one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// An owner that its caller has named and that waits for one lock.
    Named,
    /// All owners of a session, whatever they wait for. They may be several tasks.
    Session,
}

/// A task on the path.
struct Step {
    alive_at: Instant,
    /// Where it leads that was not tried yet.
    ahead: VecDeque<(Link, Owner)>,
    tried: Option<Link>,
}

/// The cycle through the task of this owner. None if there is none.
pub(crate) async fn cycle_of(walk: &mut Walk<'_>, first: &Owner, task: Task) -> Option<Cycle> {
    let mut tried = BTreeSet::new();
    let mut path = vec![step(walk, first, task).await?];
    loop {
        let last = path.last_mut()?;
        let Some((link, owner)) = last.ahead.pop_front() else {
            path.pop();
            continue;
        };
        last.tried = Some(link);
        if task.of(&owner) == task.of(first) {
            return Some(Cycle {
                alive_at: path.iter().map(|step| step.alive_at).min()?,
                links: path.into_iter().filter_map(|step| step.tried).collect(),
                is_possible: task == Task::Session,
            });
        }
        if path.len() < DEPTH
            && tried.insert(task.of(&owner))
            && let Some(next) = step(walk, &owner, task).await
        {
            path.push(next);
        }
    }
}

/// The waits of a task, and the owners that hold what it waits for.
async fn step(walk: &mut Walk<'_>, owner: &Owner, task: Task) -> Option<Step> {
    let waits = walk.waits(&Party::of(owner)).await?;
    let mut ahead = VecDeque::new();
    for wait in task.waits(&waits, owner) {
        let Ok(Some(lock)) = walk.lock(&wait.name).await else {
            continue;
        };
        let mode = match wait.goal {
            Goal::Lock(mode) => Some(mode),
            Goal::Permits | Goal::Latch => None,
        };
        let blockers = lock.holders.iter().filter(|it| blocks(it, mode));
        let blockers = blockers.filter_map(|it| Some((it, it.owner.clone()?)));
        let link = |holder: &HolderExplained| Link {
            owner: wait.owner.clone(),
            client_name: waits.client_name.clone(),
            name: wait.name.clone(),
            mode,
            since: wait.since,
            wait: wait.clone(),
            hold: (lock.fencing_token, holder.hold_count),
        };
        let links: Vec<_> = blockers.map(|(it, owner)| (link(it), owner)).collect();
        // What it holds itself is no reason to wait.
        if !links.iter().any(|(_, it)| task.of(it) == task.of(owner)) {
            ahead.extend(links);
        }
    }
    Some(Step {
        alive_at: waits.alive_at,
        ahead,
        tried: None,
    })
}

/// Whether a hold excludes a wait for this mode.
fn blocks(holder: &HolderExplained, wanted: Option<Mode>) -> bool {
    let both_read = wanted == Some(Mode::Read) && holder.mode == Some(Mode::Read);
    !holder.is_former && !both_read
}

// === impl Task ===

impl Task {
    /// The task of an owner.
    fn of(self, owner: &Owner) -> Party {
        match self {
            Self::Named => Party::Owner(owner.shared_field()),
            Self::Session => Party::of(owner),
        }
    }

    fn waits<'a>(self, waits: &'a Waits, owner: &Owner) -> &'a [Wait] {
        // Permits may come from any of several holders, so none of them alone is waited for.
        let is_sure = |wait: &&Wait| matches!(wait.goal, Goal::Lock(_));
        match self {
            Self::Named => {
                let only = waits.only_wait_of(owner).filter(is_sure);
                only.map_or(&[], std::slice::from_ref)
            }
            Self::Session => &waits.all,
        }
    }
}

// === impl Cycle ===

impl Cycle {
    /// Its state, whichever of its waits was the first.
    pub(crate) fn state(&self) -> State {
        let links = self.links.iter().map(|it| (it.wait.id.clone(), it.hold));
        let mut state: State = links.collect();
        let least = (0..state.len()).min_by_key(|at| &state[*at].0);
        state.rotate_left(least.unwrap_or_default());
        state
    }

    /// Of the waits that are to end if there is a deadlock, the youngest. None if there is none, or
    /// if it is not yet known which one that is.
    pub(crate) fn youngest(&self) -> Option<&Wait> {
        let waits = self.links.iter().map(|link| &link.wait);
        let asked: Vec<_> = waits.filter(|wait| wait.ends_on_deadlock).collect();
        let all_known = asked.iter().all(|wait| wait.began.is_some());
        let youngest = asked.into_iter().max_by_key(|wait| (wait.began, &wait.id));
        youngest.filter(|_| all_known)
    }
}

// === impl Sightings ===

impl Sightings {
    /// Whether this cycle, seen by a look that has just ended, is a deadlock: an earlier look saw
    /// it in the same state, and after that each of its waits was under way.
    pub(crate) fn confirm(&mut self, cycle: &Cycle) -> bool {
        let sighting = self.0.entry(cycle.state()).or_insert_with(|| Sighting {
            first: Instant::now(),
            owners: cycle
                .links
                .iter()
                .map(|it| it.owner.shared_field())
                .collect(),
        });
        sighting.first < cycle.alive_at
    }

    /// The owners of the cycles.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.values().flat_map(|it| &it.owners)
    }

    /// Forgets the others.
    pub(crate) fn keep(&mut self, seen: &BTreeSet<State>) {
        self.0.retain(|state, _| seen.contains(state));
    }
}
