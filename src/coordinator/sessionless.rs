//! What grants without a session take of their callers' quotas, and who may hold some.
//!
//! No coordinator keeps such grants. This table has those that were made here, until they are
//! released here or their leases end, and only for callers that have quotas. Of other callers it
//! remembers some of the owners, for `why`.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use lockkeeper_access::Counted;
use lockkeeper_store::script::{Mode, PermitId};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::types::{Grant, GrantKey, LockName, Owner, PermitGrant, Slot};

/// The grants of an owner by one name are neighbours.
type Key = (LockName, Arc<str>, Slot);

/// Owners that are remembered as holders. Two that share a place push each other out.
const HOLDERS: u64 = 1024;

/// The sessionless grants that count.
#[derive(Debug, Default)]
pub(crate) struct Sessionless(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    held: BTreeMap<Key, (Instant, Counted)>,
    ends: BTreeSet<(Instant, Key)>,
    /// Owners that were granted something here, counted or not, until they release something here
    /// or its lease ends.
    holders: BTreeMap<u64, (Arc<str>, Instant)>,
}

// === impl Sessionless ===

impl Sessionless {
    /// Whether the lock counts already: another hold of its owner is no new grant.
    pub(crate) fn has(&self, name: &LockName, mode: Mode, owner: &Owner) -> bool {
        let entries = self.0.lock();
        entries.held.contains_key(&key(name, mode, owner))
    }

    /// Enters a lock, or the new lease of one that counts already.
    pub(crate) fn hold(&self, grant: &Grant, counted: Counted) {
        let key = key(&grant.name, grant.mode, &grant.owner);
        self.0.lock().enter(key, grant.safe_until, counted);
    }

    /// Enters several locks, each that does not count already with a part of what is counted.
    pub(crate) fn hold_all(&self, grants: &[Grant], mut counted: Counted) {
        for grant in grants {
            let is_known = self.has(&grant.name, grant.mode, &grant.owner);
            self.hold(grant, counted.split(u32::from(!is_known)));
        }
    }

    /// Enters permits, each with a part of what is counted.
    pub(crate) fn hold_permits(&self, grant: &PermitGrant, mut counted: Counted) {
        let mut entries = self.0.lock();
        for id in grant.ids.iter() {
            let key = permit_key(&grant.name, &grant.owner, *id);
            entries.enter(key, grant.safe_until, counted.split(1));
        }
    }

    /// Whether the owner may still hold something that was granted here, as far as is remembered.
    pub(crate) fn may_hold(&self, owner: &str) -> bool {
        let entries = self.0.lock();
        let known = entries.holders.get(&place(owner));
        known.is_some_and(|(field, until)| **field == *owner && Instant::now() < *until)
    }

    /// The owner has no hold of the lock any more.
    pub(crate) fn release(&self, name: &LockName, mode: Mode, owner: &Owner) {
        self.0.lock().leave(&key(name, mode, owner));
    }

    /// The owner has given these permits back; all of its permits without ids.
    pub(crate) fn release_permits(&self, name: &LockName, owner: &Owner, ids: &[PermitId]) {
        let mut entries = self.0.lock();
        if !ids.is_empty() {
            for id in ids {
                entries.leave(&permit_key(name, owner, *id));
            }
            return;
        }
        let least = permit_key(name, owner, PermitId::default());
        let own = entries.held.range(least.clone()..).map(|(key, _)| key);
        let own = own.take_while(|(name, field, _)| *name == least.0 && *field == least.1);
        let own: Vec<Key> = own.cloned().collect();
        for key in &own {
            entries.leave(key);
        }
    }

    /// Forgets the grants whose leases are over.
    pub(crate) fn forget_ended(&self) {
        let mut entries = self.0.lock();
        if entries.ends.is_empty() {
            return;
        }
        let now = Instant::now();
        while entries.ends.first().is_some_and(|(end, _)| *end <= now) {
            if let Some((_, key)) = entries.ends.pop_first() {
                entries.held.remove(&key);
            }
        }
    }
}

// === impl Entries ===

impl Entries {
    fn enter(&mut self, key: Key, until: Instant, counted: Counted) {
        let holder = (Arc::clone(&key.1), until);
        self.holders.insert(place(&key.1), holder);
        let before = self.held.remove(&key);
        let counted = match before {
            Some((end, before)) => {
                self.ends.remove(&(end, key.clone()));
                if before.counts() { before } else { counted }
            }
            None => counted,
        };
        if counted.counts() {
            self.ends.insert((until, key.clone()));
            self.held.insert(key, (until, counted));
        }
    }

    fn leave(&mut self, key: &Key) {
        let place = place(&key.1);
        if self
            .holders
            .get(&place)
            .is_some_and(|(field, _)| *field == key.1)
        {
            self.holders.remove(&place);
        }
        if let Some((end, _counted)) = self.held.remove(key) {
            self.ends.remove(&(end, key.clone()));
        }
    }
}

fn key(name: &LockName, mode: Mode, owner: &Owner) -> Key {
    let field = owner.shared_field();
    let GrantKey { name, slot, .. } = GrantKey::new(name, mode, &field);
    (name, field, slot)
}

fn place(owner: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    owner.hash(&mut hasher);
    hasher.finish() % HOLDERS
}

fn permit_key(name: &LockName, owner: &Owner, id: PermitId) -> Key {
    (name.clone(), owner.shared_field(), Slot::Permits(id))
}

#[cfg(test)]
#[path = "sessionless_tests.rs"]
mod tests;
