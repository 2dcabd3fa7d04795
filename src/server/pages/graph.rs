//! Who waits for whom: the names that calls have waited for for a while, their waiters and holders,
//! and the deadlocks among them. What does not fit is counted.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap, HashSet},
    time::Duration,
};

use lockkeeper_coordinator::{
    Coordinator, Deadlocked, Error, LockName, LockSeen, Mode, NameKind, Owner,
};
use serde::{Deserialize, Serialize};

use super::json::{digest, kind_name, millis};

/// Shorter waits are not shown.
const WAITED_MIN: Duration = Duration::from_secs(1);

/// Names that the store is asked about, and waits of each that are followed.
const NAMES_MAX: usize = 100;
const WAITS_MAX: usize = 1000;

/// Waiters of one name that hold nothing there is a wait for here. Elsewhere there may be.
const PLAIN_WAITERS_KEPT: usize = 100;

/// Names and owners that are shown, and waiters of one name that hold nothing that is shown.
const NODES_MAX: usize = 200;
const PLAIN_WAITERS_MAX: usize = 3;

/// The graph, as other coordinators read it.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Graph {
    names: Vec<Waited>,
    owners: Vec<Node>,
    deadlocks: Vec<Vec<Step>>,
    names_left_out: usize,
    /// The place of each owner.
    #[serde(skip)]
    places: HashMap<(Option<String>, String), usize>,
}

/// A name that is waited for.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Waited {
    name: String,
    kind: String,
    waiters: Vec<Wait>,
    waiter_count: usize,
    /// Owners, by their places.
    holders: Vec<usize>,
    holder_count: usize,
    longest_wait_ms: u64,
    is_deadlocked: bool,
}

/// A wait of an owner.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Wait {
    owner: usize,
    mode: Option<String>,
    waiting_for_ms: u64,
    is_deadlocked: bool,
}

/// A waiter or a holder.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Node {
    session_digest: Option<String>,
    owner: String,
    client_name: String,
}

/// A wait of a deadlock.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Step {
    #[serde(flatten)]
    node: Node,
    waits_for: String,
    waiting_for_ms: u64,
}

// === impl Graph ===

impl Graph {
    /// The longest waits at a coordinator, and who holds what they wait for.
    pub(super) async fn of(coordinator: &Coordinator) -> Result<Self, Error> {
        let deadlocks = coordinator.deadlocks();
        let stuck: BTreeSet<_> = deadlocks.iter().flatten().map(wait_of).collect();
        let is_stuck = |name: &LockName| deadlocks.iter().flatten().any(|it| it.name == *name);
        let mut contended = coordinator.contended();
        contended.retain(|it| it.since.elapsed() >= WAITED_MIN);
        contended.sort_by_key(|it| !is_stuck(&it.name));
        let mut graph = Self {
            deadlocks: deadlocks.iter().map(|it| steps(it)).collect(),
            names_left_out: contended.len().saturating_sub(NAMES_MAX),
            ..Self::default()
        };
        contended.truncate(NAMES_MAX);
        let seen = coordinator.look_at(&contended).await?;
        let seen: HashMap<_, _> = seen.iter().map(holders).collect();
        let holding = seen.values().flat_map(|(holders, _)| holders);
        let holding: HashSet<&str> = holding.map(|it| it.field()).collect();
        for name in contended {
            let is_lock = matches!(name.kind, NameKind::Lock | NameKind::ReadWriteLock);
            let (holders, holder_count) = seen
                .get(&(name.name.clone(), is_lock))
                .cloned()
                .unwrap_or_default();
            let mut place =
                |owner: &Owner| graph.place(Node::of(owner, coordinator.client_name(owner)));
            let holders = holders.into_iter().map(&mut place).collect();
            let (mut waiters, mut plain) = (Vec::new(), 0);
            for wait in coordinator.waits_for(&name, WAITS_MAX) {
                let owner = &wait.event.owner;
                let is_deadlocked = stuck.contains(&(owner.field(), name.name.public()));
                let is_plain = !is_deadlocked && !holding.contains(owner.field());
                plain += usize::from(is_plain);
                if !is_plain || plain <= PLAIN_WAITERS_KEPT {
                    waiters.push(Wait {
                        owner: place(owner),
                        mode: wait.event.mode.map(Mode::name).map(str::to_owned),
                        waiting_for_ms: millis(wait.since.elapsed()),
                        is_deadlocked,
                    });
                }
            }
            graph.names.push(Waited {
                name: name.name.public().to_owned(),
                kind: kind_name(name.kind).to_owned(),
                waiters,
                waiter_count: name.waiters,
                holders,
                holder_count,
                longest_wait_ms: millis(name.since.elapsed()),
                is_deadlocked: is_stuck(&name.name),
            });
        }
        Ok(graph)
    }

    /// Adds what another coordinator knows.
    pub(super) fn add(&mut self, other: Self) {
        let nodes = other.owners.into_iter();
        let places: Vec<_> = nodes.map(|node| self.place(node)).collect();
        let place = |at: &mut usize| places.get(*at).map(|place| *at = *place).is_some();
        for mut name in other.names {
            name.holders.retain_mut(place);
            name.waiters.retain_mut(|wait| place(&mut wait.owner));
            let is_same = |it: &&mut Waited| it.name == name.name && it.kind == name.kind;
            match self.names.iter_mut().find(is_same) {
                None => self.names.push(name),
                Some(known) => known.add(name),
            }
        }
        for deadlock in other.deadlocks {
            let waits = waits(&deadlock);
            if !self.deadlocks.iter().any(|it| self::waits(it) == waits) {
                self.deadlocks.push(deadlock);
            }
        }
        self.names_left_out += other.names_left_out;
    }

    /// The place of an owner, at which its client name is kept if that is known.
    fn place(&mut self, node: Node) -> usize {
        let next = self.owners.len();
        let place = *self.places.entry(node.key()).or_insert(next);
        if place == next {
            self.owners.push(node);
        } else if self.owners[place].client_name.is_empty() {
            self.owners[place].client_name = node.client_name;
        }
        place
    }

    /// The names and owners that fit, those of deadlocks first, and then the longest waits.
    pub(super) fn shown(mut self) -> Self {
        let mut names = std::mem::take(&mut self.names);
        names.sort_by_key(|it| (!it.is_deadlocked, Reverse(it.longest_wait_ms)));
        let holding = names.iter().flat_map(|it| it.holders.iter().copied());
        let holding: BTreeSet<usize> = holding.collect();
        let mut shown = Self {
            deadlocks: self.deadlocks,
            names_left_out: self.names_left_out,
            ..Self::default()
        };
        for mut name in names {
            let mut plain = 0;
            name.waiters.retain(|wait| {
                let is_plain = !wait.is_deadlocked && !holding.contains(&wait.owner);
                plain += usize::from(is_plain);
                !is_plain || plain <= PLAIN_WAITERS_MAX
            });
            let owners = name.waiters.iter().map(|it| it.owner);
            let owners: BTreeSet<usize> = owners.chain(name.holders.iter().copied()).collect();
            let is_new = |at: &&usize| !shown.places.contains_key(&self.owners[**at].key());
            let new = owners.iter().filter(is_new).count();
            if shown.names.len() + 1 + shown.owners.len() + new > NODES_MAX {
                shown.names_left_out += 1;
                continue;
            }
            let mut place = |at: &mut usize| *at = shown.place(self.owners[*at].clone());
            name.holders.iter_mut().for_each(&mut place);
            name.waiters.iter_mut().for_each(|it| place(&mut it.owner));
            shown.names.push(name);
        }
        shown
    }
}

// === impl Waited ===

impl Waited {
    /// Adds its waiters on another coordinator. Its holders are those that the store names.
    fn add(&mut self, other: Self) {
        self.waiters.extend(other.waiters);
        self.waiters
            .sort_by_key(|wait| Reverse(wait.waiting_for_ms));
        self.waiter_count += other.waiter_count;
        for holder in other.holders {
            if !self.holders.contains(&holder) {
                self.holders.push(holder);
            }
        }
        self.holder_count = self.holder_count.max(other.holder_count);
        self.longest_wait_ms = self.longest_wait_ms.max(other.longest_wait_ms);
        self.is_deadlocked |= other.is_deadlocked;
    }
}

// === impl Node ===

impl Node {
    fn of(owner: &Owner, client_name: String) -> Self {
        Self {
            session_digest: digest(owner),
            owner: owner.label.to_string(),
            client_name,
        }
    }

    fn key(&self) -> (Option<String>, String) {
        (self.session_digest.clone(), self.owner.clone())
    }
}

fn wait_of(wait: &Deadlocked) -> (&str, &str) {
    (wait.owner.field(), wait.name.public())
}

fn steps(waits: &[Deadlocked]) -> Vec<Step> {
    let steps = waits.iter().map(|wait| Step {
        node: Node::of(&wait.owner, wait.client_name.clone()),
        waits_for: wait.name.public().to_owned(),
        waiting_for_ms: millis(wait.since.elapsed()),
    });
    steps.collect()
}

/// The waits of a deadlock, with whichever of them it begins.
fn waits(deadlock: &[Step]) -> BTreeSet<(Option<&str>, &str, &str)> {
    let waits = deadlock.iter().map(|it| {
        let digest = it.node.session_digest.as_deref();
        (digest, it.node.owner.as_str(), it.waits_for.as_str())
    });
    waits.collect()
}

/// The holders of a name, and their number. A lock and a semaphore may have the same name.
fn holders(seen: &LockSeen) -> ((LockName, bool), (Vec<&Owner>, usize)) {
    match seen {
        LockSeen::Lock(_, seen) => {
            let holders = seen.holders.iter().map(|it| &it.owner);
            let key = (seen.name.clone(), true);
            (key, (holders.collect(), seen.holder_count))
        }
        LockSeen::Semaphore(seen) => {
            let holders = seen.holders.iter().filter_map(|it| it.owner.as_ref());
            let key = (seen.name.clone(), false);
            (key, (holders.collect(), seen.holder_count))
        }
        LockSeen::Latch(seen) => ((seen.name.clone(), false), (Vec::new(), 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lock with a holder, and its waiters; whether they are part of a deadlock.
    fn add(graph: &mut Graph, name: &str, holder: &str, waiters: &[&str], is_deadlocked: bool) {
        let node = |owner: &str| Node {
            owner: owner.to_owned(),
            ..Node::default()
        };
        let holders = vec![graph.place(node(holder))];
        let waiters = waiters.iter().map(|owner| Wait {
            owner: graph.place(node(owner)),
            is_deadlocked,
            ..Wait::default()
        });
        let waiters: Vec<_> = waiters.collect();
        graph.names.push(Waited {
            name: name.to_owned(),
            waiter_count: waiters.len(),
            waiters,
            holders,
            holder_count: 1,
            is_deadlocked,
            ..Waited::default()
        });
    }

    fn deadlock(waits: [(&str, &str); 2]) -> Vec<Step> {
        let step = |(owner, name): (&str, &str)| Step {
            node: Node {
                owner: owner.to_owned(),
                ..Node::default()
            },
            waits_for: name.to_owned(),
            waiting_for_ms: 1,
        };
        waits.map(step).into()
    }

    fn owners(graph: &Graph, places: impl Iterator<Item = usize>) -> Vec<&str> {
        places.map(|at| graph.owners[at].owner.as_str()).collect()
    }

    #[test]
    fn what_does_not_fit_is_counted_and_a_deadlock_comes_first() {
        let mut graph = Graph::default();
        let many = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];
        for at in 0..90 {
            let waiters = many.map(|it| format!("w{at}-{it}"));
            let waiters = waiters.each_ref().map(String::as_str);
            let names = (format!("n{at}"), format!("h{at}"));
            add(&mut graph, &names.0, &names.1, &waiters, false);
        }
        add(&mut graph, "a", "x", &["y"], true);
        let shown = graph.shown();
        assert!((190..=NODES_MAX).contains(&(shown.names.len() + shown.owners.len())));
        assert_eq!(shown.names_left_out, 91 - shown.names.len());
        let first: Vec<_> = shown.names.iter().take(2).map(|it| &it.name).collect();
        assert_eq!(first, ["a", "n0"]);
        assert_eq!(shown.names[1].waiter_count, 9);
        assert_eq!(shown.names[1].waiters.len(), PLAIN_WAITERS_MAX);
    }

    #[test]
    fn the_waits_of_two_coordinators_are_one_graph() {
        let (mut here, mut there) = (Graph::default(), Graph::default());
        add(&mut here, "a", "x", &["y", "z"], true);
        here.deadlocks = vec![deadlock([("x", "b"), ("y", "a")])];
        let plain = ["1", "2", "3", "4", "x"];
        add(&mut there, "b", "y", &plain, true);
        add(&mut there, "a", "x", &["w"], false);
        there.owners[0].client_name = "y.sh".to_owned();
        there.deadlocks = vec![deadlock([("y", "a"), ("x", "b")])];
        let there = serde_json::to_value(there).unwrap();
        here.add(serde_json::from_value(there).unwrap());
        let shown = here.shown();
        let [a, b] = &shown.names[..] else {
            panic!("{shown:?}")
        };
        assert_eq!((&a.name[..], a.waiter_count, a.holders.len()), ("a", 3, 1));
        let waiters = a.waiters.iter().map(|it| it.owner);
        assert_eq!(owners(&shown, waiters), ["y", "z", "w"]);
        assert_eq!((&b.name[..], b.waiter_count), ("b", 5));
        let waiters = owners(&shown, b.waiters.iter().map(|it| it.owner));
        assert!(waiters.contains(&"x"), "{waiters:?}");
        assert_eq!(shown.deadlocks.len(), 1);
        let y = &shown.owners[a.waiters[0].owner];
        assert_eq!(y.client_name, "y.sh");
    }

    #[test]
    fn places_that_another_coordinator_does_not_have_are_left_out() {
        let bad = r#"{"names": [{"name": "a", "holders": [7], "waiters": [{"owner": 1}]}]}"#;
        let mut graph = Graph::default();
        graph.add(serde_json::from_str(bad).unwrap());
        let shown = graph.shown();
        assert_eq!((shown.names[0].holders.len(), shown.owners.len()), (0, 0));
    }
}
