//! Requests on their way from a client to the store and back.

use crate::times::Ticks;

/// A request. It may be delayed at each stage for any time, which is how frozen processes, slow
/// networks and lost messages look to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) client: u8,
    /// The client's stream that it was sent on; answers on older ones do not arrive.
    pub(super) stream: u8,
    pub(super) coordinator: u8,
    pub(super) kind: Kind,
    /// When the client sent it.
    pub(super) sent: Ticks,
    /// When the coordinator sent it to the store. Later than the client did only for waiters: any
    /// delay on the way to the coordinator is no worse than one on the way to the store.
    pub(super) asked: Ticks,
    pub(super) stage: Stage,
}

/// What it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    /// With the number of the acquire, which is its request id; a fresh one has another.
    Acquire {
        number: u8,
        is_fresh: bool,
    },
    Release {
        number: u8,
        token: u16,
    },
    Renew {
        token: u16,
    },
    /// A renewal by the watchdog, which the client does not see.
    Watch {
        token: u16,
    },
}

/// Where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Stage {
    /// From the client by the coordinator to the store.
    ToStore,
    /// At the coordinator, as a waiter that has tried.
    Waiting,
    FromStore(Answer),
    ToClient(Answer),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Answer {
    /// The token, and what is left of the lease by the store's clock.
    Granted {
        token: u16,
        lease: Ticks,
    },
    Renewed,
    Released,
    NotOwner,
}
