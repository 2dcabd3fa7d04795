//! What can be acquired, and how.

use std::time::Duration;

use lockkeeper_api::pb::{
    AcquireAllRequest, AcquirePermitsRequest, AcquireRequest, LockSpec, TryAcquireAllRequest,
    TryAcquirePermitsRequest, TryAcquireRequest, session_request::Request,
};
use tokio::time::Instant;

use super::{
    command::{Answer, Commands, unexpected},
    operation::known_mode,
};
use crate::{Error, Guard, LockMode, Permits, Thing, guard::Held};

/// What all requests have.
#[derive(Clone, Debug)]
struct How {
    commands: Commands,
    owner: Option<String>,
    lease: Option<Duration>,
    wait_timeout: Option<Duration>,
    min_replica_acks: u32,
    patience: Option<Duration>,
}

/// A lock, to be acquired.
#[derive(Clone, Debug)]
#[must_use = "nothing is acquired before `acquire` or `try_acquire`"]
pub struct LockRequest {
    how: How,
    name: String,
    mode: LockMode,
}

/// Several locks, to be acquired all or none.
#[derive(Clone, Debug)]
#[must_use = "nothing is acquired before `acquire` or `try_acquire`"]
pub struct LocksRequest {
    how: How,
    locks: Vec<LockSpec>,
}

/// Permits of a semaphore, to be acquired.
#[derive(Clone, Debug)]
#[must_use = "nothing is acquired before `acquire` or `try_acquire`"]
pub struct PermitsRequest {
    how: How,
    name: String,
    permits: u32,
}

// === impl How ===

impl How {
    fn new(commands: Commands) -> Self {
        Self {
            commands,
            owner: None,
            lease: None,
            wait_timeout: None,
            min_replica_acks: 0,
            patience: None,
        }
    }

    /// One of its own, unless it was named: two tasks of a session exclude each other.
    fn owner(&self) -> String {
        let own = || format!("guard-{}", self.commands.next_id());
        self.owner.clone().unwrap_or_else(own)
    }

    fn lease(&self) -> Result<Option<prost_types::Duration>, Error> {
        let lease = self.lease.map(prost_types::Duration::try_from).transpose();
        lease.map_err(|_| Error::Misconfigured("the lease is too long".to_owned()))
    }

    /// Fails with [`Error::NotGranted`] if it is not to be had in time.
    async fn take(self, request: Request) -> Result<(Held, Vec<Thing>), Error> {
        // A wait too long for the clock is one without limit.
        let until = self
            .wait_timeout
            .and_then(|it| Instant::now().checked_add(it));
        match self
            .commands
            .ask_with(request, until, self.patience)
            .await?
        {
            Answer::Held(held, things) => Ok((held, things)),
            Answer::Other(_) => Err(unexpected()),
        }
    }
}

/// To have no lock is an answer to a try.
fn tried<T>(taken: Result<T, Error>) -> Result<Option<T>, Error> {
    match taken {
        Ok(taken) => Ok(Some(taken)),
        Err(Error::NotGranted { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

macro_rules! how {
    () => {
        /// Who holds it, within the session; the same owner may take it again. Without it, nobody
        /// else in the session does.
        pub fn owner(mut self, owner: impl Into<String>) -> Self {
            self.how.owner = Some(owner.into());
            self
        }

        /// A lease of its own, which is not renewed. Without it, it is the session's, renewed until
        /// the guard is dropped.
        pub fn lease(mut self, lease: Duration) -> Self {
            self.how.lease = Some(lease);
            self
        }

        /// How long to wait. Without it, without limit.
        pub fn wait_timeout(mut self, wait: Duration) -> Self {
            self.how.wait_timeout = Some(wait);
            self
        }

        /// Replicas of the store that must know of the grant.
        pub fn min_replica_acks(mut self, replicas: u32) -> Self {
            self.how.min_replica_acks = replicas;
            self
        }

        /// How long to go on asking while the store does not answer. Without it, as long as the
        /// session's lease.
        pub fn patience(mut self, patience: Duration) -> Self {
            self.how.patience = Some(patience);
            self
        }
    };
}

// === impl LockRequest ===

impl LockRequest {
    pub(super) fn new(commands: Commands, name: String) -> Self {
        Self {
            how: How::new(commands),
            name,
            mode: LockMode::Exclusive,
        }
    }

    how!();

    /// How to hold it: exclusively unless this is said.
    pub fn mode(mut self, mode: LockMode) -> Self {
        self.mode = mode;
        self
    }

    /// Waits for it. Dropping this future ends the wait, and gives back what comes too late.
    pub async fn acquire(self) -> Result<Guard, Error> {
        let request = Request::Acquire(AcquireRequest {
            name: self.name,
            mode: known_mode(self.mode.into()),
            owner: self.how.owner(),
            lease: self.how.lease()?,
            min_replica_acks: self.how.min_replica_acks,
            ..AcquireRequest::default()
        });
        let (held, things) = self.how.take(request).await?;
        Ok(Guard::new(held, things))
    }

    /// Takes it if that can be done now; `None` if somebody else holds it.
    pub async fn try_acquire(self) -> Result<Option<Guard>, Error> {
        let request = Request::TryAcquire(TryAcquireRequest {
            name: self.name,
            mode: known_mode(self.mode.into()),
            owner: self.how.owner(),
            lease: self.how.lease()?,
            min_replica_acks: self.how.min_replica_acks,
            ..TryAcquireRequest::default()
        });
        let taken = tried(self.how.take(request).await)?;
        Ok(taken.map(|(held, things)| Guard::new(held, things)))
    }
}

// === impl LocksRequest ===

impl LocksRequest {
    pub(super) fn new(commands: Commands, names: impl Iterator<Item = String>) -> Self {
        let request = Self {
            how: How::new(commands),
            locks: Vec::new(),
        };
        names.fold(request, |request, name| {
            request.lock(name, LockMode::Exclusive)
        })
    }

    how!();

    /// Adds a lock, in a mode of its own.
    pub fn lock(mut self, name: impl Into<String>, mode: LockMode) -> Self {
        self.locks.push(LockSpec {
            name: name.into(),
            mode: mode.into(),
        });
        self
    }

    /// Waits for all of them, as [`LockRequest::acquire`] does.
    pub async fn acquire(self) -> Result<Guard, Error> {
        let request = Request::AcquireAll(AcquireAllRequest {
            locks: self.locks,
            owner: self.how.owner(),
            lease: self.how.lease()?,
            min_replica_acks: self.how.min_replica_acks,
            ..AcquireAllRequest::default()
        });
        let (held, things) = self.how.take(request).await?;
        Ok(Guard::new(held, things))
    }

    /// Takes them if all can be had now; `None` if not.
    pub async fn try_acquire(self) -> Result<Option<Guard>, Error> {
        let request = Request::TryAcquireAll(TryAcquireAllRequest {
            locks: self.locks,
            owner: self.how.owner(),
            lease: self.how.lease()?,
            min_replica_acks: self.how.min_replica_acks,
            ..TryAcquireAllRequest::default()
        });
        let taken = tried(self.how.take(request).await)?;
        Ok(taken.map(|(held, things)| Guard::new(held, things)))
    }
}

// === impl PermitsRequest ===

impl PermitsRequest {
    pub(super) fn new(commands: Commands, name: String, permits: u32) -> Self {
        Self {
            how: How::new(commands),
            name,
            permits,
        }
    }

    how!();

    /// Waits for them, as [`LockRequest::acquire`] does.
    pub async fn acquire(self) -> Result<Permits, Error> {
        let request = Request::AcquirePermits(AcquirePermitsRequest {
            name: self.name,
            owner: self.how.owner(),
            permits: self.permits,
            lease: self.how.lease()?,
            min_replica_acks: self.how.min_replica_acks,
            ..AcquirePermitsRequest::default()
        });
        Permits::of(self.how.take(request).await?)
    }

    /// Takes them if they are free now; `None` if not.
    pub async fn try_acquire(self) -> Result<Option<Permits>, Error> {
        let request = Request::TryAcquirePermits(TryAcquirePermitsRequest {
            name: self.name,
            owner: self.how.owner(),
            permits: self.permits,
            lease: self.how.lease()?,
            min_replica_acks: self.how.min_replica_acks,
            ..TryAcquirePermitsRequest::default()
        });
        tried(self.how.take(request).await)?
            .map(Permits::of)
            .transpose()
    }
}
