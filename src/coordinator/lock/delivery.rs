//! A grant on its way to the caller, and its return if nobody takes it.

use std::{sync::Arc, time::Duration};

use lockkeeper_store::script::{Attempt, Ownership, Released};
use tokio::{task::JoinHandle, time::Instant};

use crate::{
    core::Core,
    error::Error,
    events::{Event, What},
    owner_lock::OwnerLock,
    session::{held::Lost, session::Session},
    summary::Summary,
    types::{Grant, GrantKey},
};

/// The part of its lease during which the record of an attempt is reliable: the call that looks for
/// it takes time too.
const RECORD_SHARE: f64 = 0.9;

/// A grant on its way to the caller. If dropped before [`Delivery::take`], the hold is given back.
#[derive(Debug)]
pub struct Delivery {
    pub(crate) grant: Grant,
    pub(crate) lost: Lost,
    pub(crate) undo: Option<Box<Undo>>,
}

/// What is needed to give back a hold that nobody took.
#[derive(Debug)]
pub(crate) struct Undo {
    pub(crate) core: Arc<Core>,
    pub(crate) session: Option<Arc<Session>>,
    pub(crate) record: Option<String>,
    pub(crate) attempt: String,
    /// When the attempt was sent.
    pub(crate) sent_at: Instant,
    /// Whether the hold is in the session's grant table.
    pub(crate) registered: bool,
    /// The owner lock of the attempt, if the undo must precede any later operation of this owner.
    pub(crate) owner_lock: Option<OwnerLock>,
}

/// The hold count of the owner without a hold that nobody took; the grant table counts that hold
/// only if it was registered. None if it must stay: the table now has another grant, or a resume
/// has confirmed it. No table has the grants of an owner without a session.
pub(crate) fn holds_without(
    session: Option<&Arc<Session>>,
    registered: bool,
    grant: &Grant,
    lost: &Lost,
) -> Option<u32> {
    let Some(session) = session else {
        return Some(grant.hold_count.saturating_sub(1));
    };
    let key = GrantKey::of(grant);
    // An unregistered hold is one more than the table has; a registered hold must still belong to
    // the same grant.
    let held = if registered {
        session.grant_of(&key, lost).ok()?
    } else {
        session.grant(&key)
    };
    match held {
        None => Some(0),
        Some(held) if held.serial != grant.serial => None,
        Some(held) => Some(held.hold_count.saturating_sub(registered.into())),
    }
}

// === impl Delivery ===

impl Delivery {
    /// Takes the grant for the caller; an error if its session lost it on the way.
    pub fn take(mut self) -> Result<Grant, Error> {
        self.deliver().cloned()
    }

    /// The same, without a copy of it.
    pub fn deliver(&mut self) -> Result<&Grant, Error> {
        if self.lost.is_set() {
            return Err(Error::NotOwner(Ownership::Expired));
        }
        self.undo = None;
        Ok(&self.grant)
    }

    /// Takes the grant for the caller, who hears of a loss as of that of any grant.
    pub(crate) fn taken(mut self) -> Grant {
        self.undo = None;
        self.grant.clone()
    }

    /// The grant, before it is delivered.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    pub(crate) fn summary(&self) -> Summary {
        Summary::Granted(Some(self.grant.fencing_token))
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.is_set()
    }

    /// Replaces the grant by its present state, because time has passed since it was made.
    pub(crate) fn set_grant(&mut self, grant: Grant) {
        self.grant = grant;
    }

    /// The grant as in its session's grant table now; none if it is over.
    pub(crate) fn booked(&self, session: &Session) -> Option<Grant> {
        let key = GrantKey::of(&self.grant);
        session.grant_of(&key, &self.lost).ok().flatten()
    }

    /// Gives the hold back in a background task; none if it must stay.
    pub(crate) fn give_back(&mut self) -> Option<JoinHandle<()>> {
        let undo = self.undo.take()?;
        let (grant, lost) = (self.grant.clone(), self.lost.clone());
        let tasks = undo.core.tasks.clone();
        Some(tasks.spawn("give-back", undo.give_back(grant, lost)))
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if self.give_back().is_some() {
            tracing::debug!(name = %self.grant.name, "nobody took the grant");
        }
    }
}

// === impl Undo ===

impl Undo {
    /// Gives back the hold of a grant that nobody took, as a release by its owner would.
    async fn give_back(self, grant: Grant, lost: Lost) {
        let Self {
            core,
            session,
            record,
            attempt,
            sent_at,
            registered,
            owner_lock,
        } = self;
        let _owner_lock = match owner_lock {
            Some(owner_lock) => owner_lock,
            None => core.owner_locks.take(&grant.name, &grant.owner).await,
        };
        let key = GrantKey::of(&grant);
        // Without a record, this hold looks like those that a resume elsewhere has confirmed.
        let may_have_moved = session.as_ref().is_some_and(|session| session.has_ended());
        if record.is_none() && grant.hold_count > 1 && may_have_moved {
            return;
        }
        let Some(known_holds) = holds_without(session.as_ref(), registered, &grant, &lost) else {
            return;
        };
        if let Some(session) = &session {
            session.set_releasing(&key, true);
        }
        // A record that only an undo looks for ends with the requested lease. A hold renewed since,
        // during the wait for another of several locks, is released without the record. That
        // happens only once, because a repeat could take another hold.
        let recorded_until = sent_at + grant.lease.mul_f64(RECORD_SHARE);
        if record.as_ref() == Some(&attempt) && Instant::now() >= recorded_until {
            let (hold, serial) = (grant.hold(), Some(grant.serial));
            let released = core.scripts.release(hold, serial, Duration::ZERO, None);
            match released.await {
                Ok(Released::Done { held, .. }) => core.given_back(&grant, held),
                Ok(Released::NotOwner(_)) => {}
                Err(error) => tracing::debug!(%error, "left to its lease"),
            }
            return;
        }
        let identity = Attempt {
            request_id: record.as_deref(),
            known_holds: Some(known_holds),
            serial: Some(grant.serial),
            lease: grant.lease,
            ..Attempt::new(&attempt, 0)
        };
        let undone = core.undo(grant.hold(), &identity, None).await;
        // If a repeat of the request has taken the grant over, the session keeps it.
        if let Some(session) = session {
            if registered && (undone || record.is_none() || !lost.is_repeated()) {
                session.set_holds(&core.deadlines, &key, known_holds, None);
            } else {
                session.set_releasing(&key, false);
            }
        } else if undone {
            core.given_back(&grant, known_holds);
        }
    }
}

// === impl Core ===

impl Core {
    /// A hold of an owner without a session was given back, and these are left.
    pub(crate) fn given_back(&self, grant: &Grant, left: u32) {
        if left == 0 {
            self.sessionless
                .release(&grant.name, grant.mode, &grant.owner);
        }
        self.events
            .tell(|| Event::of_grant(What::Released, grant).holding(left));
    }
}

#[cfg(test)]
#[path = "delivery_tests.rs"]
mod tests;
