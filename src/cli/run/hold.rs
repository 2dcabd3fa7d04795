//! The grants that a command runs under.

use std::{sync::Arc, time::Duration};

use lockkeeper_api::pb::Grant;
use lockkeeper_client::{Error, Guard, Leadership, Note, Permits, Session};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::target::{Granted, RunTarget};

/// The grants of the whole target; dropping this releases them.
#[derive(Debug)]
pub(super) enum Hold {
    Locks(Guard),
    Permits(Permits),
}

/// What to acquire, and how.
pub(super) struct Request {
    pub(super) target: RunTarget,
    pub(super) session: Session,
    /// The owner of all grants.
    pub(super) owner: String,
    pub(super) wait: Option<Duration>,
    pub(super) min_replica_acks: u32,
    pub(super) note: Option<Note>,
    pub(super) hold_at_least: Option<Duration>,
    pub(super) lock_delay: Option<Duration>,
    /// What to proclaim, if the target is the lock of an election.
    pub(super) value: Option<String>,
    /// Whether it is a preferred candidate of that election.
    pub(super) preferred: bool,
}

/// Waits until the whole target is held. Fails at once if the store does not answer.
pub(super) async fn acquire(request: Request) -> Result<Hold, Error> {
    let Request {
        target,
        session,
        owner,
        wait,
        min_replica_acks,
        note,
        hold_at_least,
        lock_delay,
        value,
        preferred,
    } = request;
    macro_rules! acquire {
        ($request:expr) => {{
            let request = $request
                .owner(owner)
                .min_replica_acks(min_replica_acks)
                .patience(Duration::ZERO);
            match wait {
                Some(wait) => request.wait_timeout(wait).acquire().await,
                None => request.acquire().await,
            }
        }};
    }
    match target {
        RunTarget::Permits { name, permits } => {
            acquire!(session.semaphore(name).permits(permits)).map(Hold::Permits)
        }
        RunTarget::Locks(locks) => match (locks.as_slice(), value) {
            ([lock], Some(value)) => {
                let request = session.lock(&lock.name).mode(lock.mode()).note(note);
                let request = request.preferred(preferred);
                let guard = acquire!(request.lock_delay(lock_delay))?;
                let led = session.election(&lock.name).lead(guard, value).await;
                led.map(Leadership::into_guard)
            }
            ([lock], None) => {
                let request = session.lock(&lock.name).mode(lock.mode()).note(note);
                let request = request.hold_at_least(hold_at_least);
                acquire!(request.lock_delay(lock_delay))
            }
            (locks, _) => acquire!(
                locks
                    .iter()
                    .fold(session.locks::<String>([]), |request, lock| request
                        .lock(&lock.name, lock.mode()))
                    .note(note)
            ),
        }
        .map(Hold::Locks),
    }
}

// === impl Hold ===

impl Hold {
    pub(super) fn lost(&self) -> &CancellationToken {
        match self {
            Self::Locks(guard) => guard.lost(),
            Self::Permits(permits) => permits.lost(),
        }
    }

    pub(super) fn loss(&self) -> Option<Error> {
        match self {
            Self::Locks(guard) => guard.loss(),
            Self::Permits(permits) => permits.loss(),
        }
    }

    pub(super) fn valid_until(&self) -> Instant {
        match self {
            Self::Locks(guard) => guard.valid_until(),
            Self::Permits(permits) => permits.valid_until(),
        }
    }

    pub(super) async fn renew(&self) -> Result<(), Error> {
        match self {
            Self::Locks(guard) => guard.renew(None).await,
            Self::Permits(permits) => permits.renew(None).await,
        }
    }

    /// Releases what is not released by others, of several locks also those that are not lost.
    pub(super) async fn release(self: Arc<Self>) -> Result<(), Error> {
        match Arc::into_inner(self) {
            Some(Self::Locks(guard)) => guard.release().await,
            Some(Self::Permits(permits)) => permits.release().await,
            None => Ok(()),
        }
    }

    pub(super) fn granted(&self) -> Granted {
        let token = |grant: &Grant| (grant.name.clone(), grant.fencing_token);
        Granted {
            fencing_tokens: match self {
                Self::Locks(guard) => guard.grants().iter().map(token).collect(),
                Self::Permits(_) => Vec::new(),
            },
        }
    }
}
