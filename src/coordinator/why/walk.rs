//! One look around: who holds a lock, and what an owner waits for. Each is looked up once, and all
//! together are bounded.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use lockkeeper_store::script::{CallError, Holder, Mode, NameKind, Note, keys};
use tokio::time::Instant;

use crate::{
    core::Core,
    error::Error,
    lock::describe::inspect,
    semaphore,
    types::{LockName, Owner},
    why::{
        board::Own,
        shared::read,
        wait::{Party, Waits},
    },
};

/// Holders that are looked at of one name; the others are only counted.
pub(crate) const WIDTH: u32 = 8;

/// Permits whose holders are looked for.
const PERMITS_MAX: u32 = 1000;

/// A lock or a semaphore of the chain.
#[derive(Clone, Debug)]
pub struct LockExplained {
    /// Its name.
    pub name: LockName,
    /// Its kind.
    pub kind: NameKind,
    /// The mode it is held in; none if it is free, or if it is a semaphore.
    pub mode: Option<Mode>,
    /// The newest fencing token of a lock; 0 if none is known.
    pub fencing_token: u64,
    /// Remaining lease of a lock; none if it is free or its key has no time to live.
    pub remaining: Option<Duration>,
    /// The first holders.
    pub holders: Vec<HolderExplained>,
    /// The number of holders.
    pub holder_count: usize,
    /// The number of waiters: all of a fair lock, otherwise those at this coordinator.
    pub waiter_count: usize,
}

/// A holder in the chain.
#[derive(Clone, Debug)]
pub struct HolderExplained {
    /// The owner; none for the sum of all Redisson clients that hold permits.
    pub owner: Option<Owner>,
    /// The session's client name, if it is connected here or if its waits are shared.
    pub client_name: String,
    /// The mode it holds the lock in; none for permits.
    pub mode: Option<Mode>,
    /// The number of holds or permits.
    pub hold_count: u32,
    /// Since when it holds the lock, if its session is connected here.
    pub since: Option<Instant>,
    /// Remaining lease; none if it has no time to live.
    pub remaining: Option<Duration>,
    /// What it says of its hold.
    pub note: Option<Arc<Note>>,
    /// Its waits, and those of other owners of its session.
    pub waits: Vec<WaitExplained>,
    /// It lost the lock by force and only keeps it closed.
    pub(crate) is_former: bool,
}

/// What a holder waits for.
#[derive(Clone, Debug)]
pub struct WaitExplained {
    /// The lock or the semaphore.
    pub name: LockName,
    /// The owner that waits: the holder, or another one of its session.
    pub owner: Owner,
    /// It is the holder itself. Another owner of its session may be another task.
    pub is_holder: bool,
    /// The mode it wants; none for permits.
    pub mode: Option<Mode>,
    /// The start of the wait.
    pub since: Instant,
}

/// What one look has found so far.
pub(crate) struct Walk<'a> {
    pub(crate) core: &'a Core,
    own: &'a Own,
    looks_left: usize,
    locks: BTreeMap<LockName, Option<Arc<LockExplained>>>,
    parties: BTreeMap<Party, Option<Arc<Waits>>>,
}

// === impl Walk ===

impl<'a> Walk<'a> {
    pub(crate) fn new(core: &'a Core, own: &'a Own, looks: usize) -> Self {
        Self {
            core,
            own,
            looks_left: looks,
            locks: BTreeMap::new(),
            parties: BTreeMap::new(),
        }
    }

    /// Whether something was left out because too much was looked up.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.looks_left == 0
    }

    /// A name and its holders. None if it was left out, or is neither a lock nor a semaphore.
    pub(crate) async fn lock(
        &mut self,
        name: &LockName,
    ) -> Result<Option<Arc<LockExplained>>, Error> {
        if let Some(known) = self.locks.get(name) {
            return Ok(known.clone());
        }
        if !self.may_look() {
            return Ok(None);
        }
        let seen = match lock(self.core, name).await {
            Err(Error::Store(CallError::WrongKind)) => semaphore(self.core, name).await,
            seen => seen,
        };
        let seen = match seen {
            Err(Error::Store(CallError::WrongKind)) => None,
            seen => Some(Arc::new(seen?)),
        };
        self.locks.insert(name.clone(), seen.clone());
        Ok(seen)
    }

    /// The waits of a party that are older than a second; none if there are none, if they were left
    /// out, or if the store does not answer.
    pub(crate) async fn waits(&mut self, party: &Party) -> Option<Arc<Waits>> {
        if let Some(known) = self.parties.get(party) {
            return known.clone();
        }
        let waits = match self.own.parties.get(party) {
            Some(waits) => Some(Arc::new(waits.clone())),
            // All of its waits are here.
            None if is_live_here(self.core, party) => None,
            None if self.may_look() => shared(self.core, party).await.map(Arc::new),
            None => return None,
        };
        self.parties.insert(party.clone(), waits.clone());
        waits
    }

    fn may_look(&mut self) -> bool {
        let may = self.looks_left > 0;
        self.looks_left = self.looks_left.saturating_sub(1);
        may
    }
}

async fn shared(core: &Core, party: &Party) -> Option<Waits> {
    let (asked_at, digest) = (Instant::now(), party.digest());
    let limits = &core.config.limits;
    let shared = core.scripts.shared_waits((&limits.key_prefix, &digest));
    let shared = shared.await.ok()??;
    read(party, &shared, asked_at, limits)
}

fn is_live_here(core: &Core, party: &Party) -> bool {
    match party {
        Party::Session(id) => core.sessions.get(id).is_ok_and(|it| it.live().is_ok()),
        Party::Owner(_) => false,
    }
}

async fn lock(core: &Core, name: &LockName) -> Result<LockExplained, Error> {
    let seen = inspect(core, name, WIDTH).await?;
    let kind = match seen.mode {
        Some(Mode::Read | Mode::Write) => NameKind::ReadWriteLock,
        Some(Mode::Exclusive | Mode::Fair) | None => NameKind::Lock,
    };
    let holders = seen.holders.iter().take(WIDTH as usize);
    let (_, waiting_here) = core.waiters.list(name, 0);
    Ok(LockExplained {
        name: name.clone(),
        kind,
        mode: seen.mode,
        fencing_token: seen.token,
        remaining: seen.remaining,
        holders: holders.map(|it| holder(core, name, it)).collect(),
        holder_count: seen.holder_count,
        waiter_count: seen.queue_len + waiting_here,
    })
}

fn holder(core: &Core, name: &LockName, seen: &Holder) -> HolderExplained {
    let field = String::from_utf8_lossy(&seen.owner);
    let owner = Owner::from_field(&field);
    HolderExplained {
        client_name: core.client_name(&owner),
        since: core.holds_since(name, Some(seen.mode), &owner),
        owner: Some(owner),
        mode: Some(seen.mode),
        hold_count: seen.hold_count,
        remaining: seen.remaining,
        note: seen.note.clone(),
        waits: Vec::new(),
        is_former: keys::former_owner(&field) != field,
    }
}

async fn semaphore(core: &Core, name: &LockName) -> Result<LockExplained, Error> {
    let seen = semaphore::describe::look(core, name, WIDTH as usize, PERMITS_MAX).await?;
    let holders = seen.holders.into_iter().map(|it| HolderExplained {
        owner: it.owner,
        client_name: it.client_name,
        mode: None,
        hold_count: it.permits,
        since: it.since,
        remaining: it.remaining,
        note: None,
        waits: Vec::new(),
        is_former: false,
    });
    Ok(LockExplained {
        name: name.clone(),
        kind: NameKind::Semaphore,
        mode: None,
        fencing_token: 0,
        remaining: None,
        holders: holders.collect(),
        holder_count: seen.holder_count,
        waiter_count: seen.waiter_count,
    })
}
