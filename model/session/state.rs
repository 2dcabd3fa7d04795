//! The state of everything.

use super::{call::Call, lock};
use crate::times::Ticks;

pub(super) const CLIENTS: usize = 2;
pub(super) const COORDINATORS: usize = 2;

/// Acquires of one client at the most.
pub(super) const ACQUIRES: usize = 2;

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct State {
    pub(super) now: Ticks,
    pub(super) store: Data,
    /// What the replica has, which may be any former state of the store.
    pub(super) replica: Data,
    /// No master serves before.
    pub(super) down_until: Ticks,
    pub(super) failovers: u8,
    pub(super) watches: u8,
    pub(super) coordinators: [Coordinator; COORDINATORS],
    pub(super) clients: [Client; CLIENTS],
    pub(super) calls: Vec<Call>,
    /// The largest token of all grants ever made, also of those that a failover lost.
    pub(super) newest: u16,
    pub(super) wrong: Wrong,
}

/// What was seen to be wrong on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Wrong {
    /// A new grant had no larger token than one before.
    pub(super) token: bool,
    /// One request changed the store twice.
    pub(super) twice: bool,
}

/// What a master or a replica has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Data {
    pub(super) holder: Option<Holder>,
    /// When the lock was last released.
    pub(super) freed: Ticks,
    pub(super) counter: u16,
    pub(super) acquired: [[Option<u16>; ACQUIRES]; CLIENTS],
    pub(super) released: [[bool; ACQUIRES]; CLIENTS],
}

/// Who has the lock.
pub(super) type Holder = lock::Holder<u8, u16, Ticks>;

/// What a coordinator knows of each client's grant: the token, and until when it is certain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Coordinator {
    pub(super) grants: [Option<(u16, Ticks)>; CLIENTS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Client {
    pub(super) coordinator: u8,
    pub(super) stream: u8,
    pub(super) phase: Phase,
    /// How many acquires it has begun.
    pub(super) begun: u8,
    pub(super) breaks: u8,
    pub(super) renewals: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Phase {
    Idle,
    Asking {
        number: u8,
    },
    /// Granted so late that a renewal has to say until when.
    Confirming {
        number: u8,
        token: u16,
    },
    Holding {
        number: u8,
        token: u16,
        until: Ticks,
    },
    Releasing {
        number: u8,
        token: u16,
        until: Ticks,
    },
}

// === impl State ===

impl State {
    /// Whether the store has kept all that it acknowledged.
    pub(super) fn is_kept(&self, failovers: u8) -> bool {
        self.failovers == failovers
    }

    pub(super) fn holder(&self) -> Option<Holder> {
        self.store.holder.filter(|it| self.now < it.expires)
    }

    /// Since when nobody holds the lock.
    pub(super) fn free_since(&self) -> Option<Ticks> {
        let expired = self.store.holder.map_or(0, |it| it.expires);
        self.holder()
            .is_none()
            .then(|| self.store.freed.max(expired))
    }

    pub(super) fn client(&self, client: u8) -> &Client {
        &self.clients[usize::from(client)]
    }

    pub(super) fn client_mut(&mut self, client: u8) -> &mut Client {
        &mut self.clients[usize::from(client)]
    }
}
