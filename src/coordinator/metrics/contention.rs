//! The names that are contended most, in a sketch of fixed size: each name has a weight, and a new
//! one takes the place, and the weight, of the lightest. A name with more than a 256th of the
//! weight of all names is always there. Grants that nobody waited for add nothing.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::types::LockName;

/// Names that are kept.
const NAMES_MAX: usize = 256;

/// Client names that are kept of each.
const CLIENTS_MAX: usize = 8;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ContentionSketch {
    in_use: AtomicBool,
    names: Mutex<HashMap<LockName, Entry, RandomState>>,
}

/// What is known of a name.
#[derive(Debug)]
struct Entry {
    weight: u64,
    seen: ContendedName,
}

/// How much a name is contended at this coordinator.
#[derive(Clone, Debug)]
pub struct ContendedName {
    /// The name.
    pub name: LockName,
    /// From when on it is counted.
    pub since: Instant,
    /// Waits that began.
    pub wait_count: u64,
    /// Time waited, of waits that have ended.
    pub waited: Duration,
    /// Tries and waits that ended without a grant.
    pub refusal_count: u64,
    /// Holdings of sessions that have ended.
    pub hold_count: u64,
    /// The time for which they lasted.
    pub held: Duration,
    /// The same by the client names of the sessions; further names are counted under an empty one.
    pub clients: Vec<(String, u64, Duration)>,
}

// === impl ContentionSketch ===

impl ContentionSketch {
    pub(crate) fn wait_began(&self, name: &LockName) {
        self.count(name, 1, |seen| seen.wait_count += 1);
    }

    pub(crate) fn wait_ended(&self, name: &LockName, waited: Duration) {
        let millis = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        self.count(name, millis, |seen| seen.waited += waited);
    }

    pub(crate) fn refused(&self, name: &LockName) {
        self.count(name, 1, |seen| seen.refusal_count += 1);
    }

    /// Counts a holding of a session, if its name is contended.
    pub(crate) fn hold_ended(&self, name: &LockName, client: &str, held: Duration) {
        if !self.in_use.load(Ordering::Relaxed) {
            return;
        }
        if let Some(entry) = self.names.lock().get_mut(name) {
            entry.seen.hold_ended(client, held);
        }
    }

    /// The names, the most time waited first.
    pub(crate) fn all(&self) -> Vec<ContendedName> {
        let names = self.names.lock();
        let mut all: Vec<_> = names.values().map(|entry| entry.seen.clone()).collect();
        drop(names);
        all.sort_by(|a, b| b.waited.cmp(&a.waited).then_with(|| a.name.cmp(&b.name)));
        all
    }

    fn count(&self, name: &LockName, weight: u64, count: impl FnOnce(&mut ContendedName)) {
        let mut names = self.names.lock();
        if let Some(entry) = names.get_mut(name) {
            entry.weight = entry.weight.saturating_add(weight);
            count(&mut entry.seen);
            return;
        }
        let mut inherited = 0;
        if names.len() >= NAMES_MAX {
            let lightest = names.iter().min_by_key(|(_, entry)| entry.weight);
            if let Some(lightest) = lightest.map(|(name, _)| name.clone()) {
                inherited = names.remove(&lightest).map_or(0, |entry| entry.weight);
            }
        }
        let mut entry = Entry {
            weight: weight.saturating_add(inherited),
            seen: ContendedName::new(name.clone()),
        };
        count(&mut entry.seen);
        names.insert(name.clone(), entry);
        self.in_use.store(true, Ordering::Relaxed);
    }
}

// === impl ContendedName ===

impl ContendedName {
    fn new(name: LockName) -> Self {
        Self {
            name,
            since: Instant::now(),
            wait_count: 0,
            waited: Duration::ZERO,
            refusal_count: 0,
            hold_count: 0,
            held: Duration::ZERO,
            clients: Vec::new(),
        }
    }

    fn hold_ended(&mut self, client: &str, held: Duration) {
        self.hold_count += 1;
        self.held += held;
        let is_known = self.clients.iter().any(|known| known.0 == client);
        let is_full = self.clients.len() >= CLIENTS_MAX;
        let client = if is_known || !is_full { client } else { "" };
        match self.clients.iter_mut().find(|known| known.0 == client) {
            Some((_, count, time)) => {
                *count += 1;
                *time += held;
            }
            None => self.clients.push((client.to_owned(), 1, held)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::tests::limits;

    fn name(name: &str) -> LockName {
        LockName::parse(name, &limits()).unwrap()
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn the_most_contended_names_stay_however_many_others_there_are() {
        let contention = ContentionSketch::default();
        for number in 0..100 * NAMES_MAX {
            let other = name(&format!("other{number}"));
            contention.wait_began(&other);
            contention.wait_ended(&other, Duration::from_millis(1));
            if number % 100 == 0 {
                contention.wait_began(&name("a"));
                contention.wait_ended(&name("a"), Duration::from_secs(10));
            }
        }
        let all = contention.all();
        assert_eq!(all.len(), NAMES_MAX);
        assert_eq!(all[0].name, name("a"));
        assert_eq!(all[0].wait_count, NAMES_MAX as u64);
        assert_eq!(all[0].waited, Duration::from_secs(10) * 256);
    }

    #[tokio::test(start_paused = true)]
    async fn holdings_are_counted_of_contended_names_by_client() {
        let contention = ContentionSketch::default();
        contention.hold_ended(&name("a"), "ci", MINUTE);
        assert!(contention.all().is_empty(), "nobody waited for it");
        contention.refused(&name("a"));
        for number in 0..2 * CLIENTS_MAX {
            let client = format!("client{number}");
            contention.hold_ended(&name("a"), &client, MINUTE);
            contention.hold_ended(&name("b"), &client, MINUTE);
        }
        let all = contention.all();
        assert_eq!(all.len(), 1);
        let clients = &all[0].clients;
        assert_eq!(clients.len(), CLIENTS_MAX + 1);
        assert_eq!(clients[0], ("client0".to_owned(), 1, MINUTE));
        assert_eq!(clients[CLIENTS_MAX].0, "", "further ones");
        assert_eq!(clients[CLIENTS_MAX].1, CLIENTS_MAX as u64);
        assert_eq!(all[0].held, MINUTE * 16);
        assert_eq!((all[0].refusal_count, all[0].hold_count), (1, 16));
    }
}
