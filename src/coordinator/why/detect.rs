//! Looks for deadlocks in the background, as long as there are waits older than a second.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    core::Core,
    events::What,
    types::{Owner, SessionId},
    why::{
        board::{Deadlocked, Own},
        cycle::{Cycle, Sightings, Task, cycle_of},
        own::own,
        share::Shares,
        wait::State,
        walk::Walk,
    },
};

/// How often is looked; each few thousand waiters add as much.
const INTERVAL: Duration = Duration::from_millis(200);
const WAITERS_PER_INTERVAL: usize = 4000;

/// How long nobody need look after nobody has waited.
const IDLE: Duration = Duration::from_secs(1);

/// Names and owners that are looked up each time, which is 100 a second.
const LOOKS_MAX: usize = 20;

#[derive(Debug, Default)]
struct Detector {
    shares: Shares,
    sightings: Sightings,
    /// The owner whose chain was looked at last, if not all could be.
    cursor: Option<Arc<str>>,
}

/// Runs until the coordinator stops.
pub(crate) async fn run(core: Arc<Core>) {
    let stop = core.tasks.stop().clone();
    let mut detector = Detector::default();
    loop {
        let begun = Instant::now();
        let crowd = core.waiters.waiting() / WAITERS_PER_INTERVAL;
        let mut pause = INTERVAL * u32::try_from(crowd + 1).unwrap_or(u32::MAX);
        if core.waiters.waiting() == 0 && detector.shares.is_empty() {
            pause = IDLE;
        } else {
            detector.look(&core, pause).await;
        }
        let pause = tokio::time::sleep_until(begun + pause);
        if stop.run_until_cancelled(pause).await.is_none() {
            return;
        }
    }
}

// === impl Detector ===

impl Detector {
    async fn look(&mut self, core: &Core, interval: Duration) {
        let mut own = own(core);
        self.shares.update(core, &mut own, interval).await;
        let own = Arc::new(own);
        core.why.publish(&own);
        let cycles = self.cycles(core, &own).await;
        let seen: BTreeSet<_> = cycles.keys().cloned().collect();
        let mut deadlocks = cycles;
        deadlocks.retain(|_, cycle| self.sightings.confirm(cycle));
        self.sightings.keep(&seen);
        let named = deadlocks
            .iter()
            .map(|(state, cycle)| (state.clone(), waits_of(cycle)));
        let new = core.why.name(named.collect());
        core.metrics
            .waits_seen(deadlocks.len(), new.len(), own.left_out);
        for state in &new {
            tell(core, &own, &deadlocks[state]);
        }
        for cycle in deadlocks.values() {
            end_youngest(&own, cycle);
        }
    }

    /// The cycles through waits of this coordinator, as far as they may be looked up now.
    async fn cycles(&mut self, core: &Core, own: &Own) -> BTreeMap<State, Cycle> {
        let mut owners = BTreeMap::new();
        for wait in own.parties.values().flat_map(|waits| &waits.all) {
            owners.insert(wait.owner.shared_field(), wait.owner.clone());
        }
        let mut walk = Walk::new(core, own, LOOKS_MAX);
        let mut cycles = BTreeMap::new();
        for owner in self.in_turn(&owners) {
            if let Some(cycle) = cycle_of(&mut walk, owner, Task::Named).await {
                cycles.insert(cycle.state(), cycle);
            }
            if walk.is_exhausted() {
                self.cursor = Some(owner.shared_field());
                return cycles;
            }
        }
        self.cursor = None;
        cycles
    }

    /// The owners whose turn it is: those of cycles seen before, then those after the last one.
    fn in_turn<'a>(&self, owners: &'a BTreeMap<Arc<str>, Owner>) -> Vec<&'a Owner> {
        let is_later = |it: &Arc<str>| self.cursor.as_ref().is_none_or(|last| it > last);
        let in_cycle = |it: &Owner| {
            self.sightings
                .owners()
                .any(|owner| *owner == it.shared_field())
        };
        let (later, earlier): (Vec<_>, Vec<_>) = owners.iter().partition(|(it, _)| is_later(it));
        let rest = later.into_iter().chain(earlier).map(|(_, owner)| owner);
        let (mut first, rest): (Vec<_>, Vec<_>) = rest.partition(|owner| in_cycle(owner));
        first.extend(rest);
        first
    }
}

fn waits_of(cycle: &Cycle) -> Vec<Deadlocked> {
    let waits = cycle.links.iter().map(|link| Deadlocked {
        owner: link.owner.clone(),
        client_name: link.client_name.clone(),
        name: link.name.clone(),
        since: link.since,
    });
    waits.collect()
}

fn tell(core: &Core, own: &Own, cycle: &Cycle) {
    let links = cycle.links.iter().map(|link| {
        let owner = &link.owner;
        let session = owner.session.as_ref();
        let whose = session.map_or_else(|| owner.digest(), SessionId::digest);
        format!("{} ({whose}) waits for {}", link.client_name, link.name)
    });
    let waits = links.collect::<Vec<_>>().join("; ");
    tracing::warn!(owners = cycle.links.len(), waits, "deadlock");
    for link in &cycle.links {
        if let Some(waiter) = own.waiter(&link.wait.id) {
            core.events.tell(|| waiter.event(What::Deadlock));
        }
    }
}

/// Ends the youngest of the waits that have asked for it, if it is here.
fn end_youngest(own: &Own, cycle: &Cycle) {
    let youngest = cycle.youngest();
    if let Some(waiter) = youngest.and_then(|wait| own.waiter(&wait.id)) {
        waiter.end_in_deadlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        testing::{config, name, owner, start},
        types::{Goal, tests::limits},
        why::{cycle::Link, wait::Wait},
    };

    #[test]
    fn the_chains_that_were_not_looked_at_come_first_the_next_time() {
        let owner = |label| Owner::sessionless(label, &limits()).unwrap();
        let owners = ["a", "b", "c", "d"].map(owner);
        let owners = owners.map(|owner| (owner.shared_field(), owner));
        let owners = BTreeMap::from(owners);
        let turn = |last: Option<&str>| {
            let detector = Detector {
                cursor: last.map(Into::into),
                ..Detector::default()
            };
            let turn = detector.in_turn(&owners).into_iter();
            turn.map(|it| it.label.to_string()).collect::<String>()
        };
        assert_eq!(turn(None), "abcd");
        assert_eq!(turn(Some("b")), "cdab");
        assert_eq!(turn(Some("d")), "abcd");
    }

    #[tokio::test(start_paused = true)]
    async fn the_owners_of_cycles_seen_before_come_first_of_all_until_these_are_over() {
        let owners = ["a", "b", "c", "d"].map(|label| (owner(label).shared_field(), owner(label)));
        let owners = BTreeMap::from(owners);
        let mut detector = Detector {
            cursor: Some("a".into()),
            ..Detector::default()
        };
        let links = ["a", "d"].map(|label| Link {
            owner: owner(label),
            client_name: String::new(),
            name: name("x"),
            mode: None,
            since: Instant::now(),
            wait: Wait {
                id: ("here".into(), 1),
                owner: owner(label),
                name: name("x"),
                goal: Goal::Permits,
                since: Instant::now(),
                began: None,
                ends_on_deadlock: false,
            },
            hold: (1, 1),
        });
        detector.sightings.confirm(&Cycle {
            links: links.into(),
            is_possible: false,
            alive_at: Instant::now(),
        });
        let turn = detector.in_turn(&owners).into_iter();
        let turn: String = turn.map(|it| it.label.to_string()).collect();
        assert_eq!(turn, "dabc");
        let coordinator = start(config());
        detector.look(&coordinator.core, INTERVAL).await;
        assert_eq!(detector.sightings.owners().count(), 0);
    }
}
