//! Waiters, as operators see them.

use std::collections::{BTreeMap, btree_map::Entry};

use lockkeeper_store::script::NameKind;
use tokio::time::Instant;

use crate::{
    events::What,
    standing::Standing,
    types::{LockName, SessionId},
    waiters::{line::Waiter, queue::Waiters},
};

/// A name that calls wait for at this coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contended {
    /// The name.
    pub name: LockName,
    /// Its kind.
    pub kind: NameKind,
    /// The number of waiters.
    pub waiters: usize,
    /// Begin of the longest wait.
    pub since: Instant,
}

// === impl Waiters ===

impl Waiters {
    /// The names that are waited for, the longest wait first. A line costs the same however many
    /// wait in it.
    pub(crate) fn contended(&self) -> Vec<Contended> {
        let mut by_name = BTreeMap::new();
        let state = self.state.lock();
        let lines = state.channels.values().flat_map(|it| it.lines.values());
        for line in lines {
            let Some(first) = line.waiters.values().next() else {
                continue;
            };
            let event = first.event(What::WaitBegan);
            let of_line = Contended {
                name: event.name,
                kind: event.kind,
                waiters: line.waiters.len(),
                since: first.since,
            };
            match by_name.entry((first.name.clone(), event.kind as u8)) {
                Entry::Vacant(vacant) => drop(vacant.insert(of_line)),
                Entry::Occupied(known) => {
                    let known: &mut Contended = known.into_mut();
                    known.waiters += of_line.waiters;
                    known.since = known.since.min(of_line.since);
                }
            }
        }
        drop(state);
        let mut contended: Vec<Contended> = by_name.into_values().collect();
        contended.sort_by_key(|it| it.since);
        contended
    }

    /// The waits of a session, at most `max`.
    pub(crate) fn waits_of(&self, session: &SessionId, max: usize) -> Vec<Standing> {
        let state = self.state.lock();
        let lines = state.channels.values().flat_map(|it| it.lines.values());
        let waiters = lines.flat_map(|line| line.waiters.values());
        let own = waiters.filter(|waiter| waiter.owner.session.as_ref() == Some(session));
        own.take(max).map(|waiter| waiter.standing()).collect()
    }
}

// === impl Waiter ===

impl Waiter {
    pub(crate) fn standing(&self) -> Standing {
        Standing {
            event: self.event(What::WaitBegan),
            since: self.since,
            valid_until: None,
        }
    }
}
