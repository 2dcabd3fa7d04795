//! The grants of a session, by key and by place.

use std::collections::BTreeMap;

use slab::Slab;

use crate::{
    session::held::{Held, Place},
    types::{GrantKey, LockName},
};

/// The room for grants that a session without any keeps, because it may soon have some again: that
/// of a pointer for each.
const ROOM_KEPT: usize = 64;

/// The grants of a session.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    /// Ordered, so that a simulation is repeatable and the holdings of a name are neighbours.
    places: BTreeMap<GrantKey, Place>,
    /// Boxed, so that the table grows without moving them and keeps no room for those that ended.
    held: Slab<Box<Held>>,
}

// === impl Grants ===

impl Grants {
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(crate) fn contains(&self, key: &GrantKey) -> bool {
        self.places.contains_key(key)
    }

    pub(crate) fn get(&self, key: &GrantKey) -> Option<&Held> {
        self.held.get(self.places.get(key)?.0).map(AsRef::as_ref)
    }

    pub(crate) fn get_mut(&mut self, key: &GrantKey) -> Option<&mut Held> {
        self.held
            .get_mut(self.places.get(key)?.0)
            .map(AsMut::as_mut)
    }

    /// The grant that has this place now.
    pub(crate) fn at(&mut self, place: Place) -> Option<&mut Held> {
        self.held.get_mut(place.0).map(AsMut::as_mut)
    }

    /// The grant with this key, which had this place a moment ago.
    pub(crate) fn find(&mut self, place: Place, key: &GrantKey) -> Option<&mut Held> {
        let there = self.held.get(place.0);
        if there.is_some_and(|held| GrantKey::of_holding(&held.grant) == *key) {
            return self.at(place);
        }
        self.get_mut(key)
    }

    /// Where the next grant will be.
    pub(crate) fn next_place(&self) -> Place {
        Place(self.held.vacant_key())
    }

    /// Adds a grant that the table does not have.
    pub(crate) fn insert(&mut self, key: GrantKey, mut held: Box<Held>) {
        held.place = self.next_place();
        self.places.insert(key, held.place);
        self.held.insert(held);
    }

    pub(crate) fn remove(&mut self, key: &GrantKey) -> Option<Box<Held>> {
        let place = self.places.remove(key)?;
        let held = self.held.try_remove(place.0);
        if self.held.is_empty() && self.held.capacity() > ROOM_KEPT {
            // It does not give room back by itself.
            self.held = Slab::new();
        }
        held
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &GrantKey> {
        self.places.keys()
    }

    /// All in the order of their keys.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Held> {
        self.places.values().map(|place| &*self.held[place.0])
    }

    /// All in no particular order, but the same in every run.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Held> {
        self.held.iter_mut().map(|(_, held)| held.as_mut())
    }

    /// Those of a name.
    pub(crate) fn of_name(&self, name: &LockName) -> impl Iterator<Item = (&GrantKey, &Held)> {
        let from = self.places.range(GrantKey::first_of(name)..);
        from.take_while(move |(key, _)| key.name == *name)
            .map(|(key, place)| (key, &*self.held[place.0]))
    }
}
