//! Who waits for whom: the names that calls have waited for here for a while, their waiters and
//! holders, and the deadlocks among them. What does not fit is counted.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use axum::{Json, extract::State};
use lockkeeper_coordinator::{
    Contended, Coordinator, Deadlocked, Error, LockName, LockSeen, NameKind, Owner, Standing,
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

/// The graph before it is cut to what is shown.
#[derive(Debug, Default)]
struct Graph {
    names: Vec<Waited>,
    owners: Vec<Node>,
    by_field: HashMap<String, usize>,
    deadlocks: Vec<Vec<Deadlocked>>,
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
    async fn of(coordinator: &Coordinator) -> Result<Self, Error> {
        let mut contended = coordinator.contended();
        contended.retain(|it| it.since.elapsed() >= WAITED_MIN);
        let deadlocks = coordinator.deadlocks();
        contended.sort_by_key(|it| !is_stuck(&deadlocks, &it.name));
        let mut graph = Self {
            deadlocks,
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
        Ok(graph)
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

    /// The names and owners that fit, those of deadlocks first, and then the longest waits.
    fn shown(&self) -> Value {
        let holding: BTreeSet<usize> = self
            .names
            .iter()
            .flat_map(|it| it.holders.clone())
            .collect();
        let stuck = self.deadlocks.iter().flatten();
        let stuck: BTreeSet<_> = stuck.map(|it| (it.owner.field(), &it.name)).collect();
        let (mut names, mut shown, mut left_out) = (Vec::new(), Vec::new(), self.names_left_out);
        for name in &self.names {
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
                    "isDeadlocked": stuck.contains(&(wait.event.owner.field(), &name.name)),
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
                "isDeadlocked": is_stuck(&self.deadlocks, &name.name),
            }));
        }
        let owners = shown.iter().map(|at| &self.owners[*at]);
        let owners = owners.map(|it| shown_owner(&it.owner, &it.client_name));
        json!({
            "names": names,
            "owners": owners.collect::<Vec<_>>(),
            "deadlocks": self.deadlocks.iter().map(|it| deadlock(it)).collect::<Vec<_>>(),
            "namesLeftOut": left_out,
        })
    }
}

fn shown_owner(owner: &Owner, client_name: &str) -> Value {
    json!({
        "sessionDigest": digest(owner),
        "owner": owner.label.as_ref(),
        "clientName": client_name,
    })
}

fn deadlock(waits: &[Deadlocked]) -> Value {
    let steps = waits.iter().map(|wait| {
        let mut step = shown_owner(&wait.owner, &wait.client_name);
        step["waitsFor"] = wait.name.public().into();
        step["waitingForMs"] = millis(wait.since.elapsed()).into();
        step
    });
    steps.collect()
}

fn is_stuck(deadlocks: &[Vec<Deadlocked>], name: &LockName) -> bool {
    deadlocks.iter().flatten().any(|it| it.name == *name)
}

fn key(seen: &LockSeen) -> (LockName, bool) {
    match seen {
        LockSeen::Lock(_, seen) => (seen.name.clone(), true),
        LockSeen::Semaphore(seen) => (seen.name.clone(), false),
        LockSeen::Latch(seen) => (seen.name.clone(), false),
    }
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
    async fn what_does_not_fit_is_counted_and_a_deadlock_is_marked() {
        let mut graph = Graph::default();
        add(&mut graph, "a", "x", &["y".to_owned()]);
        add(&mut graph, "b", "y", &["x".to_owned()]);
        for at in 0..90 {
            let waiters: Vec<_> = (0..9).map(|it| format!("w{at}-{it}")).collect();
            add(&mut graph, &format!("n{at}"), &format!("h{at}"), &waiters);
        }
        let wait = |owner: &str, name: &str| Deadlocked {
            owner: Owner::sessionless(owner, &limits()).unwrap(),
            client_name: String::new(),
            name: LockName::parse(name, &limits()).unwrap(),
            since: Instant::now(),
        };
        graph.deadlocks = vec![vec![wait("x", "b"), wait("y", "a")]];
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
        assert_eq!(names[0]["waiters"][0]["isDeadlocked"], true);
        assert_eq!(names[2]["waiters"][0]["isDeadlocked"], false);
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
    }
}
