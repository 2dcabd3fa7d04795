//! Who waits for whom: the names that calls have waited for here for a while, their waiters and
//! holders, and the deadlocks among them. What does not fit is counted.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    time::Duration,
};

use axum::{Json, extract::State};
use lockkeeper_coordinator::{
    Contended, Coordinator, Error, LockName, LockSeen, NameKind, Owner, Standing,
};
use serde_json::{Value, json};

use super::{
    Admin,
    failure::Failure,
    guard::Caller,
    json::{digest, kind_name, millis},
};

/// Shorter waits are not shown.
const WAITED_MIN: Duration = Duration::from_secs(1);

/// Names that the store is asked about, and waits of each that are followed.
const NAMES_MAX: usize = 100;
const WAITS_MAX: usize = 1000;

/// Names and owners that are shown, and waiters of one name that hold nothing that is shown.
const NODES_MAX: usize = 200;
const PLAIN_WAITERS_MAX: usize = 3;

/// A waiter or a holder.
#[derive(Clone, Debug)]
struct Node {
    owner: Owner,
    client_name: String,
}

/// A name that is waited for.
#[derive(Clone, Debug)]
struct Waited {
    name: LockName,
    kind: NameKind,
    waiter_count: usize,
    longest: Duration,
    /// Owners, by index.
    holders: Vec<usize>,
    holder_count: usize,
    waiters: Vec<(usize, Standing)>,
}

/// A step of a deadlock: an owner, and the name that it waits for, by index.
type Step = (usize, usize);

/// The graph before it is cut to what is shown.
#[derive(Debug, Default)]
pub(super) struct Graph {
    names: Vec<Waited>,
    owners: Vec<Node>,
    by_field: HashMap<String, usize>,
    cycles: Vec<Vec<Step>>,
    names_left_out: usize,
}

pub(super) async fn graph(
    State(admin): State<Admin>,
    caller: Caller,
) -> Result<Json<Value>, Failure> {
    caller.looks(&admin, "Graph", "")?;
    let graph = Graph::of(&admin.coordinator).await;
    Ok(Json(graph.map_err(|error| Failure::of(&error))?.shown()))
}

// === impl Graph ===

impl Graph {
    /// The longest waits here, and who holds what they wait for.
    pub(super) async fn of(coordinator: &Coordinator) -> Result<Self, Error> {
        let mut contended = coordinator.contended();
        contended.retain(|it| it.since.elapsed() >= WAITED_MIN);
        let mut graph = Self {
            names_left_out: contended.len().saturating_sub(NAMES_MAX),
            ..Self::default()
        };
        contended.truncate(NAMES_MAX);
        let seen = coordinator.look_at(&contended).await?;
        let seen: HashMap<_, _> = seen.into_iter().map(|it| (key(&it), it)).collect();
        for name in contended {
            let waits = coordinator.waits_for(&name, WAITS_MAX);
            let is_lock = matches!(name.kind, NameKind::Lock | NameKind::ReadWriteLock);
            let seen = seen.get(&(name.name.clone(), is_lock));
            let known = |owner: &Owner| coordinator.client_name(owner);
            graph.add(&name, waits, seen, known);
        }
        graph.find_cycles();
        Ok(graph)
    }

    /// The names of each deadlock.
    pub(super) fn deadlocks(&self) -> Vec<Vec<String>> {
        let names = |cycle: &Vec<Step>| {
            let names = cycle.iter().map(|(_, name)| &self.names[*name].name);
            names.map(ToString::to_string).collect()
        };
        self.cycles.iter().map(names).collect()
    }

    fn add(
        &mut self,
        name: &Contended,
        waits: Vec<Standing>,
        seen: Option<&LockSeen>,
        client_name: impl Fn(&Owner) -> String,
    ) {
        let (holders, holder_count) = match seen {
            Some(LockSeen::Lock(_, seen)) => {
                let holders = seen.holders.iter().map(|it| it.owner.clone());
                (holders.collect(), seen.holder_count)
            }
            Some(LockSeen::Semaphore(seen)) => {
                let holders = seen.holders.iter().filter_map(|it| it.owner.clone());
                (holders.collect(), seen.holder_count)
            }
            Some(LockSeen::Latch(_)) | None => (Vec::new(), 0),
        };
        let holders = holders.into_iter().map(|it| self.index(it, &client_name));
        let holders = holders.collect();
        let waiters = waits.into_iter().map(|wait| {
            let owner = wait.event.owner.clone();
            (self.index(owner, &client_name), wait)
        });
        let waiters = waiters.collect();
        self.names.push(Waited {
            name: name.name.clone(),
            kind: name.kind,
            waiter_count: name.waiters,
            longest: name.since.elapsed(),
            holders,
            holder_count,
            waiters,
        });
    }

    fn index(&mut self, owner: Owner, client_name: impl Fn(&Owner) -> String) -> usize {
        let next = self.owners.len();
        let index = *self
            .by_field
            .entry(owner.field().to_owned())
            .or_insert(next);
        if index == next {
            let client_name = client_name(&owner);
            self.owners.push(Node { owner, client_name });
        }
        index
    }

    /// A waiter for a lock needs all of its holders to go, so each circle is a deadlock. One of the
    /// holders of a semaphore is enough, so they are not followed.
    fn find_cycles(&mut self) {
        let mut blocked = vec![Vec::new(); self.owners.len()];
        for (at, name) in self.names.iter().enumerate() {
            if matches!(name.kind, NameKind::Lock | NameKind::ReadWriteLock) {
                for (waiter, _) in &name.waiters {
                    let others = name.holders.iter().filter(|holder| *holder != waiter);
                    blocked[*waiter].extend(others.map(|holder| (at, *holder)));
                }
            }
        }
        let mut found = BTreeSet::new();
        for start in 0..self.owners.len() {
            if found.contains(&start) || blocked[start].is_empty() {
                continue;
            }
            if let Some(cycle) = cycle_from(start, &blocked) {
                found.extend(cycle.iter().map(|(owner, _)| *owner));
                self.cycles.push(cycle);
            }
        }
    }

    /// The names and owners that fit, those of deadlocks first, and then the longest waits.
    pub(super) fn shown(&self) -> Value {
        let holding: BTreeSet<usize> = self
            .names
            .iter()
            .flat_map(|it| it.holders.clone())
            .collect();
        let stuck: BTreeSet<Step> = self.cycles.iter().flatten().copied().collect();
        let in_cycle = |at: usize| stuck.iter().any(|(_, name)| *name == at);
        let mut order: Vec<usize> = (0..self.names.len()).collect();
        order.sort_by_key(|at| !in_cycle(*at));
        let (mut names, mut shown, mut left_out) = (Vec::new(), Vec::new(), self.names_left_out);
        for at in order {
            let name = &self.names[at];
            let mut plain = 0;
            let waiters = name.waiters.iter().filter(|(waiter, _)| {
                plain += usize::from(!holding.contains(waiter));
                holding.contains(waiter) || plain <= PLAIN_WAITERS_MAX
            });
            let waiters: Vec<_> = waiters.collect();
            let mut wanted = shown.clone();
            for owner in name
                .holders
                .iter()
                .chain(waiters.iter().map(|(waiter, _)| waiter))
            {
                if !wanted.contains(owner) {
                    wanted.push(*owner);
                }
            }
            if names.len() + 1 + wanted.len() > NODES_MAX {
                left_out += 1;
                continue;
            }
            shown = wanted;
            let place = |owner: &usize| shown.iter().position(|it| it == owner);
            let waiters = waiters.into_iter().map(|(waiter, wait)| {
                json!({
                    "owner": place(waiter),
                    "mode": wait.event.mode.map(lockkeeper_coordinator::Mode::name),
                    "waitingForMs": millis(wait.since.elapsed()),
                    "isDeadlocked": stuck.contains(&(*waiter, at)),
                })
            });
            names.push(json!({
                "name": name.name.public(),
                "kind": kind_name(name.kind),
                "waiterCount": name.waiter_count,
                "waiters": waiters.collect::<Vec<_>>(),
                "holders": name.holders.iter().map(place).collect::<Vec<_>>(),
                "holderCount": name.holder_count,
                "longestWaitMs": millis(name.longest),
                "isDeadlocked": in_cycle(at),
            }));
        }
        let owners = shown.iter().map(|at| self.owner(*at));
        json!({
            "names": names,
            "owners": owners.collect::<Vec<_>>(),
            "deadlocks": self.cycles.iter().map(|it| self.cycle(it)).collect::<Vec<_>>(),
            "namesLeftOut": left_out,
        })
    }

    fn owner(&self, at: usize) -> Value {
        let Node { owner, client_name } = &self.owners[at];
        json!({
            "sessionDigest": digest(owner),
            "owner": owner.label.as_ref(),
            "clientName": client_name,
        })
    }

    fn cycle(&self, cycle: &[Step]) -> Value {
        let steps = cycle.iter().map(|(owner, name)| {
            let name = &self.names[*name];
            let wait = name.waiters.iter().find(|(waiter, _)| waiter == owner);
            let mut step = self.owner(*owner);
            step["waitsFor"] = name.name.public().into();
            step["waitingForMs"] = wait.map(|(_, wait)| millis(wait.since.elapsed())).into();
            step
        });
        steps.collect()
    }
}

fn key(seen: &LockSeen) -> (LockName, bool) {
    match seen {
        LockSeen::Lock(_, seen) => (seen.name.clone(), true),
        LockSeen::Semaphore(seen) => (seen.name.clone(), false),
        LockSeen::Latch(seen) => (seen.name.clone(), false),
    }
}

/// The shortest circle of owners, each of whom waits for a name that the next one holds.
fn cycle_from(start: usize, blocked: &[Vec<(usize, usize)>]) -> Option<Vec<Step>> {
    let mut reached_by: HashMap<usize, Step> = HashMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(owner) = queue.pop_front() {
        for (name, holder) in &blocked[owner] {
            if reached_by.contains_key(holder) {
                continue;
            }
            reached_by.insert(*holder, (owner, *name));
            queue.push_back(*holder);
        }
    }
    let mut cycle = vec![*reached_by.get(&start)?];
    while let Some((owner, _)) = cycle.last()
        && *owner != start
    {
        cycle.push(reached_by[owner]);
    }
    cycle.reverse();
    Some(cycle)
}

#[cfg(test)]
mod tests {
    use lockkeeper_coordinator::{Event, Limits, Mode, What};
    use tokio::time::Instant;

    use super::*;

    fn limits() -> Limits {
        Limits {
            key_prefix: "".into(),
            name_bytes_max: 64,
            owner_bytes_max: 64,
            request_id_bytes_max: 64,
            client_name_bytes_max: 64,
            lease_min: Duration::from_secs(1),
            lease_max: Duration::from_secs(60),
            waiters_per_lock_max: 1,
            waiters_max: 1,
            waits_per_session_max: 1,
            sessions_max: 1,
            grants_per_session_max: 1,
            locks_per_request_max: 1,
        }
    }

    /// A lock with a holder, and its waiters.
    fn add(graph: &mut Graph, name: &str, holder: &str, waiters: &[String]) {
        let name = LockName::parse(name, &limits()).unwrap();
        let owner = |label: &str| Owner::sessionless(label, &limits()).unwrap();
        let wait = |label: &String| Standing {
            event: Event {
                what: What::WaitBegan,
                name: name.clone(),
                kind: NameKind::Lock,
                mode: Some(Mode::Exclusive),
                owner: owner(label),
                fencing_token: 0,
                holds: 0,
                note: None,
            },
            since: Instant::now(),
            valid_until: None,
        };
        let holders = vec![graph.index(owner(holder), |_| String::new())];
        let waits = waiters.iter().map(|label| (owner(label), wait(label)));
        let waits = waits.map(|(owner, wait)| (graph.index(owner, |_| String::new()), wait));
        let waits = waits.collect();
        graph.names.push(Waited {
            name: name.clone(),
            kind: NameKind::Lock,
            waiter_count: waiters.len(),
            longest: Duration::from_secs(2),
            holders,
            holder_count: 1,
            waiters: waits,
        });
    }

    #[tokio::test]
    async fn what_does_not_fit_is_counted_and_a_deadlock_comes_first() {
        let mut graph = Graph::default();
        for at in 0..90 {
            let waiters: Vec<_> = (0..9).map(|it| format!("w{at}-{it}")).collect();
            add(&mut graph, &format!("n{at}"), &format!("h{at}"), &waiters);
        }
        add(&mut graph, "a", "x", &["y".to_owned()]);
        add(&mut graph, "b", "y", &["x".to_owned()]);
        graph.find_cycles();
        let shown = graph.shown();
        let (names, owners) = (shown["names"].as_array().unwrap(), &shown["owners"]);
        let owners = owners.as_array().unwrap();
        assert!((190..=NODES_MAX).contains(&(names.len() + owners.len())));
        assert_eq!(shown["namesLeftOut"], 92 - names.len());
        let first = names
            .iter()
            .take(3)
            .map(|it| (&it["name"], &it["isDeadlocked"]));
        let expected = [("a", true), ("b", true), ("n0", false)];
        for ((name, deadlocked), expected) in first.zip(expected) {
            assert_eq!((name, deadlocked), (&json!(expected.0), &json!(expected.1)));
        }
        assert_eq!(names[2]["waiterCount"], 9);
        assert_eq!(
            names[2]["waiters"].as_array().unwrap().len(),
            PLAIN_WAITERS_MAX
        );
        let steps = shown["deadlocks"][0].as_array().unwrap().iter();
        let steps: Vec<_> = steps.map(|it| (&it["owner"], &it["waitsFor"])).collect();
        assert_eq!(
            steps,
            [(&json!("x"), &json!("b")), (&json!("y"), &json!("a"))]
        );
        assert_eq!(graph.deadlocks(), [["b", "a"]]);
    }

    #[test]
    fn a_circle_is_found_from_each_of_its_owners_and_from_nobody_else() {
        // 0 waits for 1, 1 for 2, 2 for 1; 3 for 0.
        let blocked = [vec![(10, 1)], vec![(11, 2)], vec![(12, 1)], vec![(13, 0)]];
        assert_eq!(cycle_from(0, &blocked), None);
        assert_eq!(cycle_from(3, &blocked), None);
        assert_eq!(cycle_from(1, &blocked), Some(vec![(1, 11), (2, 12)]));
        assert_eq!(cycle_from(2, &blocked), Some(vec![(2, 12), (1, 11)]));
    }
}
