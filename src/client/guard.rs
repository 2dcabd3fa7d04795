//! Guards: locks and permits that are released when their guard is dropped.

use std::time::Duration;

use lockkeeper_api::pb::{Grant, OfferRequest, PermitGrant};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    Error,
    duration::to_proto,
    holding::Holding,
    session::{Held, unexpected},
    validity::YieldRequest,
};

/// One or several held locks. Dropping the guard releases them in the background;
/// [`release`](Self::release) waits for that.
#[derive(Debug)]
#[must_use = "a guard that is dropped releases its locks"]
pub struct Guard {
    held: Held,
    grants: Vec<Grant>,
}

/// Held permits of a semaphore. Dropping them releases them in the background;
/// [`release`](Self::release) waits for that.
#[derive(Debug)]
#[must_use = "permits that are dropped are released"]
pub struct Permits {
    held: Held,
    grant: PermitGrant,
}

macro_rules! held {
    () => {
        /// How long it is certainly held from now on unless it is renewed: zero once it is
        /// [`lost`](Self::lost). Renewals in the background extend it.
        ///
        /// On Linux it also counts the time in which the machine was suspended. Elsewhere tokio's
        /// clock may stand still meanwhile, as it does on macOS: only the fencing token protects
        /// work that goes on after a suspension.
        pub fn valid_for(&self) -> Duration {
            self.held.valid_for()
        }

        /// The instant until which it is certainly held unless it is renewed or
        /// [`lost`](Self::lost). Work that must end before it is lost has to stop before this
        /// instant. One from before a suspension of the machine is too late afterwards, because
        /// tokio's clock stood still: see [`valid_for`](Self::valid_for).
        pub fn valid_until(&self) -> Instant {
            self.held.valid_until()
        }

        /// A token that is cancelled when it is lost: taken over, released by an operator, or not
        /// renewed before [`valid_until`](Self::valid_until). Work must stop then. If its time has
        /// passed while a Linux machine was suspended, it is cancelled within a second afterwards.
        pub fn lost(&self) -> &CancellationToken {
            &self.held.lost
        }

        /// [`Error::Lost`] with the reason if it is lost; `None` while it is held.
        pub fn loss(&self) -> Option<Error> {
            self.held.loss()
        }

        /// Renews a lease that was given with the request, to its former length or to `lease`.
        /// Holdings without such a lease are renewed in the background.
        ///
        /// Fails with [`Error::Refused`] if the coordinator refuses, which [`Error::is_lost`]
        /// reports for what is no longer held, and with [`Error::SessionEnded`].
        pub async fn renew(&self, lease: Option<Duration>) -> Result<(), Error> {
            self.held.renew(self.holdings(), lease).await
        }

        /// Releases it and waits for the coordinator's confirmation.
        ///
        /// Fails with [`Error::Lost`] if it was lost before, with [`Error::Refused`] if the store
        /// did not answer for as long as the lease, and with [`Error::SessionEnded`].
        pub async fn release(self) -> Result<(), Error> {
            self.held.release().await
        }
    };
}

// === impl Guard ===

impl Guard {
    pub(crate) fn new((held, holdings): (Held, Vec<Holding>)) -> Self {
        let grants = holdings.into_iter().filter_map(|holding| match holding {
            Holding::Lock(grant) => Some(grant),
            Holding::Permits(_) => None,
        });
        Self {
            held,
            grants: grants.collect(),
        }
    }

    /// The fencing token to send to the protected resource. A guard of several locks has one for
    /// each; this is that of the first lock by name.
    pub fn fencing_token(&self) -> u64 {
        self.grants.first().map_or(0, |grant| grant.fencing_token)
    }

    /// The grants as they were acquired, sorted by name.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// Resolves when another caller asks for one of the locks, and at once while such a request
    /// stands. The guard stays valid, and its holder may finish the work, release it, or go on. But
    /// if the request preempts, the lock is lost at its deadline. Cancel safe.
    pub async fn yield_requested(&self) -> YieldRequest {
        self.held.yield_requested().await
    }

    /// Makes a ticket with which another session can take the lock over by
    /// [`Session::claim`](crate::Session::claim), on any coordinator: for 30 s, or `within` that,
    /// which is at most 10 min. The work must stop first: at the claim the guard is
    /// [`lost`](Self::lost), with the reason
    /// [`LostReason::HandedOver`](crate::LostReason::HandedOver). A ticket that nobody claims
    /// changes nothing.
    ///
    /// Fails with [`Error::Misconfigured`] for a guard of several locks, with [`Error::Refused`] if
    /// the lock is not exclusive, was acquired several times by its owner or is no longer held, and
    /// with [`Error::SessionEnded`].
    pub async fn offer(&self, within: impl Into<Option<Duration>>) -> Result<String, Error> {
        let [grant] = self.grants.as_slice() else {
            let why = "a guard of several locks cannot be offered";
            return Err(Error::Misconfigured(why.to_owned()));
        };
        let request = OfferRequest {
            name: grant.name.clone(),
            owner: grant.owner.clone(),
            within: to_proto(within.into(), "within")?,
            ..OfferRequest::default()
        };
        self.held.offer(request).await
    }

    fn holdings(&self) -> Vec<Holding> {
        self.grants.iter().cloned().map(Holding::Lock).collect()
    }

    held!();
}

// === impl Permits ===

impl Permits {
    pub(crate) fn new((held, holdings): (Held, Vec<Holding>)) -> Result<Self, Error> {
        let grant = holdings.into_iter().find_map(|holding| match holding {
            Holding::Permits(grant) => Some(grant),
            Holding::Lock(_) => None,
        });
        let grant = grant.ok_or_else(unexpected)?;
        Ok(Self { held, grant })
    }

    /// The number of permits.
    pub fn count(&self) -> u32 {
        self.grant.permits
    }

    /// The grant as it was acquired.
    pub fn grant(&self) -> &PermitGrant {
        &self.grant
    }

    fn holdings(&self) -> Vec<Holding> {
        vec![Holding::Permits(self.grant.clone())]
    }

    held!();
}
