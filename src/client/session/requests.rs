//! Requests to acquire locks and permits.

use std::time::Duration;

use lockkeeper_api::pb::{
    AcquireAllRequest, AcquirePermitsRequest, AcquireRequest, ClaimRequest, LockSpec, Note,
    TryAcquireAllRequest, TryAcquirePermitsRequest, TryAcquireRequest, session_request::Request,
};
use tokio::time::Instant;

use super::command::{Answer, Commands, Held, unexpected};
use crate::{
    Error, Guard, LockMode, Permits,
    duration::to_proto,
    holding::{Holding, effective_mode},
};

/// The options of all requests.
#[derive(Clone, Debug)]
struct RequestOptions {
    commands: Commands,
    owner: Option<String>,
    lease: Option<Duration>,
    wait_timeout: Option<Duration>,
    min_replica_acks: u32,
    patience: Option<Duration>,
}

/// A lock to be acquired, see [`Session::lock`](crate::Session::lock).
#[derive(Clone, Debug)]
#[must_use = "nothing is acquired before `acquire` or `try_acquire`"]
pub struct LockRequest {
    options: RequestOptions,
    name: String,
    mode: i32,
    note: Option<Note>,
    hold_at_least: Option<prost_types::Duration>,
    lock_delay: Option<prost_types::Duration>,
    end_on_deadlock: bool,
    preferred: bool,
}

/// Several locks to be acquired together, all or none, see
/// [`Session::locks`](crate::Session::locks).
#[derive(Clone, Debug)]
#[must_use = "nothing is acquired before `acquire` or `try_acquire`"]
pub struct LocksRequest {
    options: RequestOptions,
    locks: Vec<LockSpec>,
    note: Option<Note>,
    end_on_deadlock: bool,
}

/// Permits to be acquired together, see [`Semaphore::permits`](crate::Semaphore::permits).
#[derive(Clone, Debug)]
#[must_use = "nothing is acquired before `acquire` or `try_acquire`"]
pub struct PermitsRequest {
    options: RequestOptions,
    name: String,
    permits: u32,
}

// === impl RequestOptions ===

impl RequestOptions {
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

    /// By default each request has an owner of its own: two tasks of a session exclude each other.
    fn owner(&self) -> String {
        let own = || format!("guard-{}", self.commands.ids.next());
        self.owner.clone().unwrap_or_else(own)
    }

    /// Fails with [`Error::NotGranted`] if nothing is granted in time.
    async fn acquire(self, request: Request) -> Result<(Held, Vec<Holding>), Error> {
        // A wait that is too long for the clock has no limit.
        let until = self
            .wait_timeout
            .and_then(|it| Instant::now().checked_add(it));
        match self.commands.run(request, until, self.patience).await? {
            Answer::Granted(held, holdings) => Ok((held, holdings)),
            Answer::Other(_) => Err(unexpected()),
        }
    }
}

/// Takes a lock over by a ticket.
pub(super) async fn claim(
    commands: Commands,
    name: String,
    ticket: String,
) -> Result<Guard, Error> {
    let options = RequestOptions::new(commands);
    let request = Request::Claim(ClaimRequest {
        name,
        ticket,
        owner: options.owner(),
        ..ClaimRequest::default()
    });
    Ok(Guard::new(options.acquire(request).await?))
}

/// Not to be granted is a result of a try, not a failure.
fn tried<T>(acquired: Result<T, Error>) -> Result<Option<T>, Error> {
    match acquired {
        Ok(acquired) => Ok(Some(acquired)),
        Err(Error::NotGranted { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A duration of the protocol. One that it cannot express is refused by every coordinator.
fn or_refused(period: Duration) -> prost_types::Duration {
    period.try_into().unwrap_or(prost_types::Duration {
        seconds: i64::MAX,
        nanos: 0,
    })
}

/// The methods that set options.
macro_rules! options {
    () => {
        /// Sets the owner within the session. The same owner may acquire a lock again. By default
        /// each request has an owner of its own.
        pub fn owner(mut self, owner: impl Into<String>) -> Self {
            self.options.owner = Some(owner.into());
            self
        }

        /// Sets a lease that is not renewed in the background. By default it is the session's
        /// lease, renewed until the guard is dropped.
        pub fn lease(mut self, lease: Duration) -> Self {
            self.options.lease = Some(lease);
            self
        }

        /// Sets how long `acquire` waits, also if no coordinator answers. By default it waits
        /// forever.
        pub fn wait_timeout(mut self, wait: Duration) -> Self {
            self.options.wait_timeout = Some(wait);
            self
        }

        /// Sets the minimum number of the store's replicas that must acknowledge the grant. The
        /// default is 0.
        pub fn min_replica_acks(mut self, replicas: u32) -> Self {
            self.options.min_replica_acks = replicas;
            self
        }

        /// Sets how long to retry while the store does not answer. The default is the session's
        /// lease.
        pub fn patience(mut self, patience: Duration) -> Self {
            self.options.patience = Some(patience);
            self
        }
    };
}

/// The method that sets what a deadlock does to the wait.
macro_rules! end_on_deadlock {
    () => {
        /// Lets `acquire` fail with [`Error::NotGranted`] if its wait is part of a deadlock, for
        /// the reason [`NotGrantedReason::Deadlock`](crate::NotGrantedReason::Deadlock). Of the
        /// waits of a deadlock that set this, the youngest ends. A deadlock is known only among
        /// owners that are named, see [`owner`](Self::owner).
        pub fn end_on_deadlock(mut self) -> Self {
            self.end_on_deadlock = true;
            self
        }
    };
}

/// The methods that set what others read of the holder.
macro_rules! note {
    () => {
        /// Sets why the lock is held, for others to read: at most 256 bytes.
        pub fn reason(mut self, reason: impl Into<String>) -> Self {
            self.note.get_or_insert_default().reason = reason.into();
            self
        }

        /// Sets all of what others read of the holder, or nothing.
        pub fn note(mut self, note: impl Into<Option<Note>>) -> Self {
            self.note = note.into();
            self
        }

        /// Adds a label for others to read, at most 8 of them. Its key has at most 64 bytes
        /// without `=`, its value at most 128 bytes.
        pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
            let labels = &mut self.note.get_or_insert_default().labels;
            labels.insert(key.into(), value.into());
            self
        }
    };
}

/// A message of these fields and the options.
macro_rules! request {
    ($self:ident, $kind:ident, $message:ident { $($field:ident),* }) => {
        Request::$kind($message {
            $($field: $self.$field,)*
            owner: $self.options.owner(),
            lease: to_proto($self.options.lease, "lease")?,
            min_replica_acks: $self.options.min_replica_acks,
            ..$message::default()
        })
    };
}

// === impl LockRequest ===

impl LockRequest {
    pub(super) fn new(commands: Commands, name: String) -> Self {
        Self {
            options: RequestOptions::new(commands),
            name,
            mode: LockMode::Exclusive.into(),
            note: None,
            hold_at_least: None,
            lock_delay: None,
            end_on_deadlock: false,
            preferred: false,
        }
    }

    options!();
    note!();
    end_on_deadlock!();

    /// Sets how long the lock stays held at least, also after a release or a crash; so a job that
    /// ends early does not run again at once elsewhere. For [`LockMode::Exclusive`] and
    /// [`LockMode::Fair`].
    pub fn hold_at_least(mut self, least: impl Into<Option<Duration>>) -> Self {
        self.hold_at_least = least.into().map(or_refused);
        self
    }

    /// Sets for how long nobody gets the lock after its lease has ended without a release, because
    /// the holder crashed or nobody renewed it; so what it had begun can come to an end. A release
    /// frees the lock at once. For [`LockMode::Exclusive`] and [`LockMode::Fair`].
    pub fn lock_delay(mut self, delay: impl Into<Option<Duration>>) -> Self {
        self.lock_delay = delay.into().map(or_refused);
        self
    }

    /// Sets whether `acquire` comes before the other waiters of a [`LockMode::Fair`] lock: it
    /// becomes the first in line, and a holder that is not preferred itself is asked to release the
    /// lock, see [`Guard::yield_requested`]. Of several that wait, the last to arrive is the first.
    pub fn preferred(mut self, preferred: bool) -> Self {
        self.preferred = preferred;
        self
    }

    /// Sets the mode. The default is [`LockMode::Exclusive`].
    pub fn mode(mut self, mode: LockMode) -> Self {
        self.mode = effective_mode(mode.into());
        self
    }

    /// Waits for the lock. Dropping the future ends the wait; a grant that comes too late is
    /// released.
    ///
    /// Fails with [`Error::NotGranted`] after [`wait_timeout`](Self::wait_timeout), or with
    /// [`Error::Unreachable`] if there is no stream then, with [`Error::Refused`], with
    /// [`Error::Lost`] if the lock was lost before it could be confirmed, with
    /// [`Error::Misconfigured`] if the lease is too long for the protocol, and with
    /// [`Error::SessionEnded`].
    pub async fn acquire(self) -> Result<Guard, Error> {
        let request = request!(
            self,
            Acquire,
            AcquireRequest {
                name,
                mode,
                note,
                hold_at_least,
                lock_delay,
                end_on_deadlock,
                preferred
            }
        );
        Ok(Guard::new(self.options.acquire(request).await?))
    }

    /// Acquires the lock if it is free; `None` if it has another holder. Fails as
    /// [`acquire`](Self::acquire) does.
    pub async fn try_acquire(self) -> Result<Option<Guard>, Error> {
        let request = request!(
            self,
            TryAcquire,
            TryAcquireRequest {
                name,
                mode,
                note,
                hold_at_least,
                lock_delay
            }
        );
        Ok(tried(self.options.acquire(request).await)?.map(Guard::new))
    }
}

// === impl LocksRequest ===

impl LocksRequest {
    pub(super) fn new(commands: Commands, names: impl Iterator<Item = String>) -> Self {
        let request = Self {
            options: RequestOptions::new(commands),
            locks: Vec::new(),
            note: None,
            end_on_deadlock: false,
        };
        names.fold(request, |request, name| {
            request.lock(name, LockMode::Exclusive)
        })
    }

    options!();
    note!();
    end_on_deadlock!();

    /// Adds a lock in a mode of its own.
    pub fn lock(mut self, name: impl Into<String>, mode: LockMode) -> Self {
        self.locks.push(LockSpec {
            name: name.into(),
            mode: mode.into(),
        });
        self
    }

    /// Waits for all locks. Fails as [`LockRequest::acquire`] does; none is held then.
    pub async fn acquire(self) -> Result<Guard, Error> {
        let request = request!(
            self,
            AcquireAll,
            AcquireAllRequest {
                locks,
                note,
                end_on_deadlock
            }
        );
        Ok(Guard::new(self.options.acquire(request).await?))
    }

    /// Acquires the locks if all of them are free; `None` if one has another holder. Fails as
    /// [`LockRequest::acquire`] does.
    pub async fn try_acquire(self) -> Result<Option<Guard>, Error> {
        let request = request!(self, TryAcquireAll, TryAcquireAllRequest { locks, note });
        Ok(tried(self.options.acquire(request).await)?.map(Guard::new))
    }
}

// === impl PermitsRequest ===

impl PermitsRequest {
    pub(super) fn new(commands: Commands, name: String, permits: u32) -> Self {
        Self {
            options: RequestOptions::new(commands),
            name,
            permits,
        }
    }

    options!();

    /// Waits for the permits. Fails as [`LockRequest::acquire`] does.
    pub async fn acquire(self) -> Result<Permits, Error> {
        let request = request!(
            self,
            AcquirePermits,
            AcquirePermitsRequest { name, permits }
        );
        Permits::new(self.options.acquire(request).await?)
    }

    /// Acquires the permits if they are free; `None` if too few are. Fails as
    /// [`LockRequest::acquire`] does.
    pub async fn try_acquire(self) -> Result<Option<Permits>, Error> {
        let request = request!(
            self,
            TryAcquirePermits,
            TryAcquirePermitsRequest { name, permits }
        );
        let acquired = tried(self.options.acquire(request).await)?;
        acquired.map(Permits::new).transpose()
    }
}
