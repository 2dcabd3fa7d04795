//! What is held, as its user has it.

use std::{sync::Arc, time::Duration};

use futures::future::try_join_all;
use lockkeeper_api::pb::{Grant, LostReason, PermitGrant};
use parking_lot::Mutex;
use tokio::{sync::oneshot, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    Error, Thing,
    session::{Command, Commands, ended_already, unexpected},
};

/// What the session's task and its guards know of one grant.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) name: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    valid_until: Instant,
    lost: Option<Loss>,
}

/// Why something is held no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) reason: LostReason,
    /// For people; may be empty.
    pub(super) detail: String,
}

/// Gives back what it stands for when it is dropped.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) commands: Commands,
    pub(super) id: u64,
    pub(super) known: Vec<Arc<Known>>,
    pub(super) lost: CancellationToken,
    pub(super) is_over: bool,
}

/// A lock, or several, held until this is released or dropped.
#[derive(Debug)]
pub struct Guard {
    held: Held,
    grants: Vec<Grant>,
}

/// Permits of a semaphore, held until this is released or dropped.
#[derive(Debug)]
pub struct Permits {
    held: Held,
    grant: PermitGrant,
}

// === impl Known ===

impl Known {
    pub(super) fn new(name: &str, valid_until: Instant) -> Self {
        Self {
            name: name.to_owned(),
            state: Mutex::new(State {
                valid_until,
                lost: None,
            }),
        }
    }

    pub(super) fn valid_until(&self) -> Instant {
        self.state.lock().valid_until
    }

    pub(super) fn set_valid_until(&self, until: Instant) {
        self.state.lock().valid_until = until;
    }

    pub(super) fn lost(&self) -> Option<Loss> {
        self.state.lock().lost.clone()
    }

    pub(super) fn lose(&self, loss: Loss) {
        self.state.lock().lost.get_or_insert(loss);
    }
}

// === impl Loss ===

impl Loss {
    pub(super) fn new(reason: LostReason) -> Self {
        Self {
            reason,
            detail: String::new(),
        }
    }

    pub(super) fn of(self, name: &str) -> Error {
        Error::Lost {
            name: name.to_owned(),
            reason: self.reason,
            detail: self.detail,
        }
    }
}

// === impl Held ===

impl Held {
    /// What of it was lost first, if something was.
    fn loss(&self) -> Option<Error> {
        let mut lost = self
            .known
            .iter()
            .filter_map(|it| Some(it.lost()?.of(&it.name)));
        lost.next()
    }

    /// That of what ends first.
    fn valid_until(&self) -> Instant {
        let until = self.known.iter().map(|it| it.valid_until()).min();
        until.unwrap_or_else(Instant::now)
    }

    fn valid_for(&self) -> Duration {
        if self.lost.is_cancelled() {
            return Duration::ZERO;
        }
        self.valid_until().saturating_duration_since(Instant::now())
    }

    async fn release(mut self) -> Result<(), Error> {
        if let Some(loss) = self.loss() {
            return Err(loss);
        }
        self.is_over = true;
        let (answer, answered) = oneshot::channel();
        self.commands.send(Command::Release(self.id, Some(answer)));
        answered.await.unwrap_or_else(|_| Err(ended_already()))
    }

    async fn renew(&self, thing: &Thing, lease: Option<Duration>) -> Result<(), Error> {
        self.commands
            .ask(thing.renewal(lease), None)
            .await
            .map(drop)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_over {
            self.commands.send(Command::Release(self.id, None));
        }
    }
}

// === impl Guard ===

impl Guard {
    pub(super) fn new(held: Held, things: Vec<Thing>) -> Self {
        let grants = things.into_iter().filter_map(|thing| match thing {
            Thing::Lock(grant) => Some(grant),
            Thing::Permits(_) => None,
        });
        Self {
            held,
            grants: grants.collect(),
        }
    }

    /// The fencing token, to be shown to the resource; of several locks that of the first by name.
    pub fn fencing_token(&self) -> u64 {
        self.grants.first().map_or(0, |grant| grant.fencing_token)
    }

    /// The grants as they were told, sorted by name.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// How long the lock is certainly held from now on if nothing more is heard. Renewals make it
    /// longer again.
    pub fn valid_for(&self) -> Duration {
        self.held.valid_for()
    }

    /// Until when the lock is certainly held by what is known now, unless it is [lost](Self::lost)
    /// before: for who must have stopped by then, and so has to begin earlier.
    pub fn valid_until(&self) -> Instant {
        self.held.valid_until()
    }

    /// Cancelled when the lock is lost, or is not certainly held any more because nobody could be
    /// reached to renew it.
    pub fn lost(&self) -> &CancellationToken {
        &self.held.lost
    }

    /// Why it was lost.
    pub fn loss(&self) -> Option<Error> {
        self.held.loss()
    }

    /// Extends the lease of a lock that was acquired with a lease of its own. Others are renewed
    /// without being asked.
    pub async fn renew(&self, lease: Option<Duration>) -> Result<(), Error> {
        let renewals = self.grants.iter().map(|grant| async {
            let thing = grant.clone().into();
            self.held.renew(&thing, lease).await
        });
        try_join_all(renewals).await.map(drop)
    }

    /// Gives the lock back and waits until that is done. Fails if it was lost before.
    pub async fn release(self) -> Result<(), Error> {
        self.held.release().await
    }
}

// === impl Permits ===

impl Permits {
    pub(super) fn of((held, things): (Held, Vec<Thing>)) -> Result<Self, Error> {
        let grant = things.into_iter().find_map(|thing| match thing {
            Thing::Permits(grant) => Some(grant),
            Thing::Lock(_) => None,
        });
        let grant = grant.ok_or_else(unexpected)?;
        Ok(Self { held, grant })
    }

    /// How many.
    pub fn count(&self) -> u32 {
        self.grant.permits
    }

    /// The grant as it was told.
    pub fn grant(&self) -> &PermitGrant {
        &self.grant
    }

    /// As [`Guard::valid_for`].
    pub fn valid_for(&self) -> Duration {
        self.held.valid_for()
    }

    /// As [`Guard::valid_until`].
    pub fn valid_until(&self) -> Instant {
        self.held.valid_until()
    }

    /// As [`Guard::lost`].
    pub fn lost(&self) -> &CancellationToken {
        &self.held.lost
    }

    /// Why they were lost.
    pub fn loss(&self) -> Option<Error> {
        self.held.loss()
    }

    /// As [`Guard::renew`].
    pub async fn renew(&self, lease: Option<Duration>) -> Result<(), Error> {
        self.held.renew(&self.grant.clone().into(), lease).await
    }

    /// As [`Guard::release`].
    pub async fn release(self) -> Result<(), Error> {
        self.held.release().await
    }
}
