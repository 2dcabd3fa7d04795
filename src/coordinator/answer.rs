//! The answers on a session's stream, and those of one wait.

use lockkeeper_access::{Access, Identity, Right};
use lockkeeper_store::script::{CountSet, PermitsSet};

use crate::{
    election::outcome::{Elected, LeaderSeen},
    error::Error,
    latch::{LatchDescription, LatchNotOpened, LatchOpened},
    lock::{
        delivery::Delivery,
        hand_over::Offered,
        outcome::{Description, NotGranted, TokenChecked, Tried, Waiting},
    },
    lock_watch::free::LockFree,
    multi::{
        outcome::{ReleasedLock, TriedAll},
        undo::DeliveryAll,
    },
    semaphore::{
        attempt::PermitDelivery,
        outcome::{
            PermitsNotGranted, ReleasedPermits, SemaphoreDescription, TriedPermits,
            WaitingForPermits,
        },
    },
    types::{Grant, LockName, PermitGrant},
    why::Explanation,
    yields::YieldRequested,
};

/// The answer to an operation. Every operation ends with exactly one answer that is not about a
/// wait.
#[derive(Debug)]
pub enum Answer {
    /// The wait goes on.
    Waiting(Waiting),
    /// The caller holds the lock once it takes this.
    Granted(Delivery),
    /// The wait ended without a grant.
    NotGranted(NotGranted),
    /// The lock was free when the store was asked.
    LockFree(LockFree),
    /// The outcome of a try.
    Tried(Tried),
    /// The wait for several locks goes on, now in the line of this one.
    WaitingForAll(LockName, Waiting),
    /// The caller holds the locks once it takes this.
    GrantedAll(DeliveryAll),
    /// The outcome of a try for several locks.
    TriedAll(TriedAll),
    /// The owner's remaining holds after a release.
    Released(u32),
    /// The release of each of several locks.
    ReleasedAll(Vec<ReleasedLock>),
    /// The grant with its new lease.
    Renewed(Grant),
    /// A ticket for a grant.
    Offered(Offered),
    /// The caller holds the lock once it takes this.
    Claimed(Delivery),
    /// The lock's holders and waiters.
    Described(Description),
    /// Why a lock is waited for.
    Explained(Explanation),
    /// The result of a token check.
    TokenChecked(TokenChecked),
    /// The wait for permits goes on.
    WaitingForPermits(WaitingForPermits),
    /// The caller holds the permits once it takes this.
    PermitsGranted(PermitDelivery),
    /// The wait for permits ended without a grant.
    PermitsNotGranted(PermitsNotGranted),
    /// The outcome of a try for permits.
    PermitsTried(TriedPermits),
    /// Permits were released.
    PermitsReleased(ReleasedPermits),
    /// The grants with their new leases.
    PermitsRenewed(Vec<PermitGrant>),
    /// The semaphore has this size.
    PermitsSet(PermitsSet),
    /// The permits, their holders and their waiters.
    SemaphoreDescribed(SemaphoreDescription),
    /// Whether the count of a latch was set, and the present count.
    CountSet(CountSet),
    /// The remaining count of a latch.
    CountedDown(u32),
    /// The wait for a latch goes on; carries the remaining count.
    WaitingForLatch(u32),
    /// The latch is open.
    LatchOpened(LatchOpened),
    /// The wait ended while the latch was closed.
    LatchNotOpened(LatchNotOpened),
    /// The latch.
    LatchDescribed(LatchDescription),
    /// Whether the latch existed.
    LatchDeleted(bool),
    /// The caller leads once it takes this.
    Elected(Elected),
    /// The revision of a leader's new value.
    Proclaimed(u64),
    /// The owner's remaining holds after a resignation.
    Resigned(u32),
    /// Whether a leader was asked to yield.
    TransferRequested(YieldRequested),
    /// The leader of an election.
    LeaderSeen(LeaderSeen),
    /// The operation has no outcome.
    Failed(Error),
}

// === impl Answer ===

impl Answer {
    /// Whether another answer of the same operation follows.
    pub fn is_about_wait(&self) -> bool {
        matches!(
            self,
            Self::Waiting(_)
                | Self::WaitingForAll(..)
                | Self::WaitingForPermits(_)
                | Self::WaitingForLatch(_)
        )
    }

    /// Refuses the end of a wait, and so releases what it grants, if the right to the name was
    /// taken away meanwhile.
    pub fn permitted(self, access: &Access, caller: &Identity) -> Result<Self, Error> {
        let allows = |right, name: &LockName| access.allows(caller, right, name.public());
        if let Some((right, name)) = self.forbidden(allows) {
            let name = name.clone();
            return Err(Error::Forbidden { right, name });
        }
        Ok(self)
    }

    /// The first right to a name that the end of a wait takes, and that the caller lacks.
    fn forbidden(&self, allows: impl Fn(Right, &LockName) -> bool) -> Option<(Right, &LockName)> {
        let (right, name) = match self {
            Self::Granted(delivery) => (Right::Acquire, &delivery.grant().name),
            Self::Elected(elected) => (Right::Acquire, &elected.delivery.grant().name),
            Self::PermitsGranted(delivery) => (Right::Acquire, delivery.name()),
            Self::GrantedAll(delivery) => {
                let right = Right::Acquire;
                let mut names = delivery.names();
                return Some((right, names.find(|name| !allows(right, name))?));
            }
            Self::LockFree(free) => (Right::Describe, &free.name),
            Self::LatchOpened(opened) => (Right::Acquire, &opened.name),
            _ => return None,
        };
        (!allows(right, name)).then_some((right, name))
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_store::script::Mode;

    use super::*;
    use crate::{
        multi::undo::DeliveryAll,
        semaphore::acquire::try_acquire,
        testing::{acquire, config, granted, name, owner, permits, start},
    };

    #[tokio::test(start_paused = true)]
    async fn what_ends_a_wait_needs_a_right_to_its_name() {
        let coordinator = start(config());
        let mut answers = Vec::new();
        for of in ["a", "b", "c"] {
            let request = acquire(of, Mode::Fair, &owner("x"));
            let delivery = granted(&coordinator, &request).await;
            answers.push(match of {
                "a" => Answer::Granted(delivery),
                "b" => {
                    let revision = 1;
                    Answer::Elected(Elected { delivery, revision })
                }
                _ => Answer::GrantedAll(DeliveryAll::in_order(vec![delivery])),
            });
        }
        let core = &coordinator.core;
        core.scripts.set_permits("s", 1, false).await.unwrap();
        match try_acquire(core, &permits(1, &owner("x"))).await.unwrap() {
            TriedPermits::Acquired(delivery) => answers.push(Answer::PermitsGranted(delivery)),
            busy @ TriedPermits::Busy { .. } => panic!("{busy:?}"),
        }
        answers.push(Answer::LatchOpened(LatchOpened { name: name("d") }));
        answers.push(Answer::LockFree(LockFree {
            name: name("e"),
            fencing_token: 1,
        }));
        let names: Vec<_> = answers
            .iter()
            .map(|answer| answer.forbidden(|_, _| false).unwrap())
            .map(|(right, name)| (right == Right::Describe, name.to_string()))
            .collect();
        let expected = [
            (false, "a"),
            (false, "b"),
            (false, "c"),
            (false, "s"),
            (false, "d"),
            (true, "e"),
        ];
        assert_eq!(
            names,
            expected.map(|(right, name)| (right, name.to_owned()))
        );
        assert!(answers.iter().all(|it| it.forbidden(|_, _| true).is_none()));
        assert!(Answer::Resigned(0).forbidden(|_, _| false).is_none());
    }
}
