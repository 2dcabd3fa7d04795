//! The places of watchers: so many of each identity, and some only for those who may see all names,
//! so that nobody can keep the operators from watching.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use super::Identity;

/// Watchers of one identity.
const PER_IDENTITY_MAX: usize = 8;

/// Watchers of those who do not see all names. A coordinator has 64.
const PARTIAL_MAX: usize = 48;

/// The watchers of one coordinator.
#[derive(Clone, Debug, Default)]
pub(super) struct Watchers(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    partial: usize,
    by_identity: HashMap<Identity, usize>,
}

/// The place of a watcher; dropping this frees it.
#[derive(Debug)]
pub struct WatcherPlace(Option<(Watchers, Identity, bool)>);

// === impl Watchers ===

impl Watchers {
    /// A place for a watcher of this identity; none if there are too many.
    pub(super) fn place(&self, identity: &Identity, sees_all: bool) -> Option<WatcherPlace> {
        let mut counts = self.0.lock();
        let own = counts.by_identity.get(identity).copied().unwrap_or(0);
        if own >= PER_IDENTITY_MAX || (!sees_all && counts.partial >= PARTIAL_MAX) {
            return None;
        }
        counts.by_identity.insert(identity.clone(), own + 1);
        counts.partial += usize::from(!sees_all);
        Some(WatcherPlace(Some((
            self.clone(),
            identity.clone(),
            sees_all,
        ))))
    }
}

// === impl WatcherPlace ===

impl WatcherPlace {
    /// The place of one who is not counted.
    pub(super) const UNCOUNTED: Self = Self(None);
}

impl Drop for WatcherPlace {
    fn drop(&mut self) {
        let Some((watchers, identity, sees_all)) = self.0.take() else {
            return;
        };
        let mut counts = watchers.0.lock();
        counts.partial -= usize::from(!sees_all);
        if let Some(own) = counts.by_identity.get_mut(&identity) {
            *own -= 1;
            if *own == 0 {
                counts.by_identity.remove(&identity);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_freed_can_be_taken_again_and_no_more() {
        let watchers = Watchers::default();
        let web = Identity::named("web");
        let place = || watchers.place(&web, false);
        let mut places: Vec<_> = (0..100).map_while(|_| place()).collect();
        assert_eq!(places.len(), PER_IDENTITY_MAX);
        places.pop();
        places.extend(place());
        assert!(place().is_none());
    }

    #[test]
    fn nobody_takes_the_places_of_those_who_see_all() {
        let watchers = Watchers::default();
        let mut places = Vec::new();
        for number in 0..10 {
            let team = Identity::named(&format!("team-{number}"));
            let taken = (0..20).map_while(|_| watchers.place(&team, false));
            places.extend(taken);
        }
        assert_eq!(places.len(), PARTIAL_MAX);
        let root = Identity::named("root");
        let own: Vec<_> = (0..9).map(|_| watchers.place(&root, true)).collect();
        assert_eq!(own.iter().flatten().count(), PER_IDENTITY_MAX);
        drop((places, own));
        assert!(watchers.0.lock().by_identity.is_empty());
        assert_eq!(watchers.0.lock().partial, 0);
    }
}
