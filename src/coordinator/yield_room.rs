//! The room for requests to yield that stand.

use std::{collections::HashMap, sync::Arc};

use lockkeeper_access::Identity;
use parking_lot::Mutex;

/// Requests to yield of one coordinator that stand at the same time.
pub(crate) const YIELDS_MAX: usize = 1000;

/// Those of one identity, so that none takes all places. Callers without credentials are not
/// distinguished.
pub(crate) const YIELDS_PER_IDENTITY_MAX: usize = YIELDS_MAX / 4;

/// Counts the requests that stand. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct YieldRoom(Arc<Mutex<HashMap<Identity, usize>>>);

/// The place of a request; dropping this frees it.
#[derive(Debug)]
pub(crate) struct YieldPlace {
    room: YieldRoom,
    whose: Identity,
}

// === impl YieldRoom ===

impl YieldRoom {
    /// A place for a request of this identity; none if there are too many.
    pub(crate) fn place(&self, whose: &Identity) -> Option<YieldPlace> {
        let mut counts = self.0.lock();
        let own = counts.get(whose).copied().unwrap_or(0);
        let is_full = own >= YIELDS_PER_IDENTITY_MAX && !whose.is_anonymous();
        if is_full || counts.values().sum::<usize>() >= YIELDS_MAX {
            return None;
        }
        counts.insert(whose.clone(), own + 1);
        Some(YieldPlace {
            room: self.clone(),
            whose: whose.clone(),
        })
    }
}

impl Drop for YieldPlace {
    fn drop(&mut self) {
        let mut counts = self.room.0.lock();
        if let Some(own) = counts.get_mut(&self.whose) {
            *own -= 1;
            if *own == 0 {
                counts.remove(&self.whose);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_identity_takes_the_room_of_all() {
        let room = YieldRoom::default();
        let taken = |whose: &Identity| -> Vec<_> {
            let places = std::iter::repeat_with(|| room.place(whose));
            places.map_while(|place| place).collect()
        };
        let (a, b) = (Identity::named("a"), Identity::named("b"));
        let mut of_a = taken(&a);
        let of_b = taken(&b);
        let own = [of_a.len(), of_b.len()];
        assert_eq!(own, [YIELDS_PER_IDENTITY_MAX; 2]);
        let others = taken(&Identity::anonymous());
        assert_eq!(others.len(), YIELDS_MAX - own[0] - own[1]);
        of_a.pop();
        assert!(room.place(&b).is_none() && room.place(&a).is_some());
        drop((of_a, of_b, others));
        assert!(room.0.lock().is_empty());
    }
}
