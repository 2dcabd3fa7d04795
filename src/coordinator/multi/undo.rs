//! Several grants on their way, and their joint return if nobody takes them.

use std::{sync::Arc, time::Duration};

use lockkeeper_store::script::Ownership;
use tokio::time::Instant;

use crate::{
    core::Core,
    error::Error,
    lock::delivery::{Delivery, holds_without},
    multi::identity::{Identity, Known},
    owner_lock::OwnerLock,
    repeat::undo_while,
    session::{held::Lost, session::Session},
    types::{Grant, GrantKey, HolderKnown, LockName},
};

/// Several grants on their way to the caller. If dropped before [`DeliveryAll::take`], a hold of
/// each is given back.
#[derive(Debug)]
pub struct DeliveryAll(Parts);

#[derive(Debug)]
enum Parts {
    /// Taken by one script, and undone by one.
    Together {
        grants: Vec<(Grant, Lost)>,
        undo: Option<Box<UndoAll>>,
    },
    /// Taken one by one.
    InOrder(Vec<Delivery>),
}

/// What is needed to give back holds that nobody took.
#[derive(Debug)]
pub(crate) struct UndoAll {
    pub(crate) core: Arc<Core>,
    pub(crate) session: Option<Arc<Session>>,
    pub(crate) identity: Identity,
    /// Whether the holds are in the session's grant table.
    pub(crate) registered: bool,
    /// The owner locks of the attempt, if the undo must precede any later operation of this owner.
    pub(crate) owner_locks: Option<Vec<OwnerLock>>,
}

/// The entries that a session's grant table gets for grants that are given back.
struct Books<'a> {
    session: Option<&'a Arc<Session>>,
    /// Holds that are left, by grant.
    entries: Vec<(GrantKey, u32)>,
}

// === impl DeliveryAll ===

impl DeliveryAll {
    pub(crate) fn together(grants: Vec<Grant>, undo: Option<UndoAll>) -> Self {
        let grants = grants.into_iter().map(|grant| (grant, Lost::default()));
        Self(Parts::Together {
            grants: grants.collect(),
            undo: undo.map(Box::new),
        })
    }

    pub(crate) fn in_order(deliveries: Vec<Delivery>) -> Self {
        Self(Parts::InOrder(deliveries))
    }

    /// Takes the grants for the caller, in the order of names; an error if one was lost on the way.
    pub fn take(mut self) -> Result<Vec<Grant>, Error> {
        match &mut self.0 {
            Parts::Together { grants, undo } => {
                if grants.iter().any(|(_, lost)| lost.is_set()) {
                    return Err(Error::NotOwner(Ownership::Expired));
                }
                *undo = None;
                Ok(grants.drain(..).map(|(grant, _)| grant).collect())
            }
            Parts::InOrder(deliveries) => {
                if deliveries.iter().any(Delivery::is_lost) {
                    return Err(Error::NotOwner(Ownership::Expired));
                }
                // All of them: one that is lost from here on is lost after its delivery.
                Ok(deliveries.drain(..).map(Delivery::taken).collect())
            }
        }
    }

    /// The names of the locks.
    pub(crate) fn names(&self) -> impl Iterator<Item = &LockName> {
        let (together, in_order) = match &self.0 {
            Parts::Together { grants, .. } => (grants.as_slice(), [].as_slice()),
            Parts::InOrder(deliveries) => ([].as_slice(), deliveries.as_slice()),
        };
        let together = together.iter().map(|(grant, _)| &grant.name);
        together.chain(in_order.iter().map(|delivery| &delivery.grant().name))
    }

    /// Replaces the grants by those of the session's grant table, which a repeat may have been
    /// answered with.
    pub(crate) fn set_registered(&mut self, registered: Vec<(Grant, Lost)>, repeated: bool) {
        if repeated {
            for (_, lost) in &registered {
                lost.set_repeated();
            }
        }
        if let Parts::Together { grants, .. } = &mut self.0 {
            *grants = registered;
        }
    }

    /// Keeps the owner locks of the attempt, so that its undo precedes any later operation of the
    /// owner.
    pub(crate) fn keep(&mut self, owner_locks: Vec<OwnerLock>) {
        if let Parts::Together { undo, .. } = &mut self.0
            && let Some(undo) = undo
        {
            undo.owner_locks = Some(owner_locks);
        }
    }

    /// What others know of the holder of this lock.
    pub(crate) fn holder(&self, which: usize) -> HolderKnown {
        match &self.0 {
            Parts::Together { grants, .. } => grants[which].0.holder(),
            Parts::InOrder(deliveries) => deliveries[which].grant().holder(),
        }
    }

    /// When the first of them may be over; none of those that were taken one by one.
    pub(crate) fn earliest_end(&self) -> Option<Instant> {
        let Parts::Together { grants, .. } = &self.0 else {
            return None;
        };
        grants.iter().map(|(grant, _)| grant.safe_until).min()
    }
}

impl Drop for DeliveryAll {
    fn drop(&mut self) {
        // Grants taken one by one give themselves back.
        if let Parts::Together { grants, undo } = &mut self.0
            && let Some(undo) = undo.take()
        {
            let grants = std::mem::take(grants);
            tracing::debug!(locks = grants.len(), "nobody took the grants");
            let tasks = undo.core.tasks.clone();
            tasks.spawn("give-back", undo.give_back(grants));
        }
    }
}

// === impl UndoAll ===

impl UndoAll {
    /// Gives back one hold of each grant that nobody took, as a release by its owner would.
    async fn give_back(self, grants: Vec<(Grant, Lost)>) {
        let Self {
            core,
            session,
            identity,
            registered,
            owner_locks,
        } = self;
        let _owner_locks = match owner_locks {
            Some(owner_locks) => owner_locks,
            None => core.all_turns(&identity).await,
        };
        // The owner's holds without this attempt's; none where this undo must not give one back any
        // more.
        let left: Vec<Option<u32>> = grants
            .iter()
            .map(|(grant, lost)| holds_without(session.as_ref(), registered, grant, lost))
            .collect();
        if left.iter().all(Option::is_none) {
            return;
        }
        let known: Vec<Known> = grants
            .iter()
            .zip(&left)
            .map(|((grant, _), left)| Known {
                holds: *left,
                serial: Some(grant.serial),
            })
            .collect();
        let books = Books {
            session: session.as_ref(),
            entries: grants
                .iter()
                .zip(&left)
                .filter_map(|((grant, _), left)| Some((GrantKey::of(grant), (*left)?)))
                .collect(),
        };
        books.set_releasing(true);
        let lease = grants.iter().map(|(grant, _)| grant.lease).max();
        let lease = lease.unwrap_or_default();
        let undone = core
            .undo_all(
                &identity,
                &known,
                |which| left[which].is_some(),
                lease,
                None,
            )
            .await;
        if session.is_none() && undone {
            for ((grant, _), left) in grants.iter().zip(&left) {
                if let Some(left) = *left {
                    core.given_back(grant, left);
                }
            }
        }
        // If a repeat of the request has taken the grants over, the session keeps them.
        let mut to_undo = grants.iter().zip(&left).filter(|(_, left)| left.is_some());
        let is_repeated = to_undo.all(|((_, lost), _)| lost.is_repeated());
        if registered && (undone || identity.has_own_record() || !is_repeated) {
            books.set_holds(&core);
        } else {
            books.set_releasing(false);
        }
    }
}

// === impl Books ===

impl Books<'_> {
    fn set_releasing(&self, releasing: bool) {
        let Some(session) = self.session else { return };
        for (key, _) in &self.entries {
            session.set_releasing(key, releasing);
        }
    }

    fn set_holds(&self, core: &Core) {
        let Some(session) = self.session else { return };
        for (key, left) in &self.entries {
            session.set_holds(&core.deadlines, key, *left, None);
        }
    }
}

// === impl Core ===

impl Core {
    /// The owner locks on all of the locks, however long the wait.
    async fn all_turns(&self, identity: &Identity) -> Vec<OwnerLock> {
        let mut owner_locks = Vec::with_capacity(identity.locks.len());
        for (name, _) in identity.locks.iter() {
            owner_locks.push(self.owner_locks.take(name, &identity.owner).await);
        }
        owner_locks
    }

    /// Undoes an attempt on the locks that `undo` selects, and repeats until the store answers.
    /// True if it is undone. `only_while`: as in [`undo_while`].
    pub(crate) async fn undo_all(
        &self,
        identity: &Identity,
        known: &[Known],
        undo: impl Fn(usize) -> bool + Send + Copy,
        lease: Duration,
        only_while: Option<&Session>,
    ) -> bool {
        let mut members = identity.members(known);
        if !identity.has_own_record() {
            // Without its record, the holds may be those of a repeat.
            for member in &mut members {
                member.known_holds = None;
            }
        }
        let again = || {
            let members = identity.script_members(&members);
            let undone = self.scripts.undo_all(members, identity.attempt(), undo);
            undo_while(only_while, undone)
        };
        // Known by its record.
        self.until_undone(lease, again).await
    }
}

#[cfg(test)]
#[path = "undo_tests.rs"]
mod tests;
