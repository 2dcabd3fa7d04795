//! Validated requests for one lock.

use std::{sync::Arc, time::Duration};

use lockkeeper_access::Account;
use lockkeeper_store::script::{Hold, Mode, Note};

use crate::{
    summary::{Counts, Subject},
    types::{Invalid, Lease, LockName, Owner, RequestId},
};

/// The label of the note of a holder that was preferred.
pub(super) const PREFERRED: &str = "preferred";

/// A request for a lock.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// The lock.
    pub name: LockName,
    /// The mode to hold it in.
    pub mode: Mode,
    /// The owner that wants it.
    pub owner: Owner,
    /// None: watched in a session, otherwise the default lease.
    pub lease: Option<Lease>,
    /// None: unlimited.
    pub wait: Option<Duration>,
    /// Makes a repeat idempotent.
    pub request_id: Option<RequestId>,
    /// Replicas that must acknowledge the grant and its renewals; the configuration may require
    /// more.
    pub min_replica_acks: u32,
    /// What the owner says of its hold.
    pub note: Option<Arc<Note>>,
    /// How long the lock is held at least, also after a release or a crash. Boxed: every wait
    /// would carry it, and it is rare.
    pub hold_at_least: Option<Box<Lease>>,
    /// For how long after its lease nobody gets the lock, unless it is released before.
    pub lock_delay: Option<Box<Lease>>,
    /// Whether its wait ends if it is the youngest of a deadlock that may.
    pub end_on_deadlock: bool,
    /// See [`Acquire::prefer`].
    pub preferred: bool,
    /// The caller, whose quota the grant takes.
    pub account: Account,
}

/// A hold to release.
#[derive(Clone, Debug)]
pub struct Release {
    /// The lock.
    pub name: LockName,
    /// The mode it is held in.
    pub mode: Mode,
    /// The holder.
    pub owner: Owner,
    /// Makes a repeat idempotent.
    pub request_id: Option<RequestId>,
}

/// A lease to extend.
#[derive(Clone, Debug)]
pub struct Renew {
    /// The lock.
    pub name: LockName,
    /// The mode it is held in.
    pub mode: Mode,
    /// The holder.
    pub owner: Owner,
    /// None: the grant's own lease in a session, otherwise the default lease.
    pub lease: Option<Lease>,
}

/// A token to check.
#[derive(Clone, Debug)]
pub struct CheckToken {
    /// The lock.
    pub name: LockName,
    /// The fencing token.
    pub token: u64,
}

// === impl Acquire ===

impl Acquire {
    /// A request for nothing but the lock, that waits without a limit.
    pub fn new(name: LockName, mode: Mode, owner: Owner, account: &Account) -> Self {
        Self {
            name,
            mode,
            owner,
            lease: None,
            wait: None,
            request_id: None,
            min_replica_acks: 0,
            note: None,
            hold_at_least: None,
            lock_delay: None,
            end_on_deadlock: false,
            preferred: false,
            account: account.clone(),
        }
    }

    /// If it is preferred, it comes before the other waiters of a fair lock, and its wait asks the
    /// holder to release the lock. Its note says so, and such a holder is not asked by others.
    pub fn prefer(mut self, preferred: bool) -> Result<Self, Invalid> {
        if !preferred {
            return Ok(self);
        }
        if self.mode != Mode::Fair {
            let why = "needs the mode FAIR, whose waiters have an order";
            return Err(Invalid::new("preferred", why));
        }
        let note = Arc::make_mut(self.note.get_or_insert_default());
        note.labels.insert(PREFERRED.to_owned(), "true".to_owned());
        self.preferred = true;
        Ok(self)
    }

    pub(crate) fn subject(&self) -> Subject<'_> {
        let counts = Counts::Grant(self.mode.into());
        let subject = Subject::of(&self.name).in_mode(self.mode);
        subject.by(&self.owner).counts(counts)
    }

    /// Whether it asks for nothing but a hold.
    pub(crate) fn is_bare(&self) -> bool {
        self.note.is_none() && self.hold_at_least.is_none() && self.lock_delay.is_none()
    }

    /// Its hold, as the scripts take it.
    pub(crate) fn hold(&self) -> Hold<'_> {
        Hold::new(self.name.store_key(), self.mode, self.owner.field())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        testing::{acquire, owner},
        types::tests::limits,
    };

    #[test]
    fn a_request_for_nothing_but_a_hold_is_bare() {
        let bare = || acquire("a", Mode::Fair, &owner("x"));
        let lease = Box::new(Lease::new(Duration::from_secs(1), &limits()).unwrap());
        assert!(bare().is_bare());
        let others = [
            Acquire {
                note: Some(Arc::default()),
                ..bare()
            },
            Acquire {
                hold_at_least: Some(lease.clone()),
                ..bare()
            },
            Acquire {
                lock_delay: Some(lease),
                ..bare()
            },
        ];
        assert!(others.iter().all(|request| !request.is_bare()));
    }

    #[test]
    fn only_a_waiter_of_a_fair_lock_can_be_preferred() {
        for (mode, may) in [
            (Mode::Fair, true),
            (Mode::Exclusive, false),
            (Mode::Read, false),
        ] {
            let request = acquire("a", mode, &owner("x"));
            let plain = request.clone().prefer(false).unwrap();
            assert!(!plain.preferred && plain.note.is_none());
            let Ok(preferred) = request.prefer(true) else {
                assert!(!may);
                continue;
            };
            assert!(may && preferred.preferred);
            let note = preferred.note.unwrap();
            assert_eq!(note.labels.get(PREFERRED).map(String::as_str), Some("true"));
        }
    }

    #[test]
    fn its_subject_is_the_lock_its_mode_and_the_owner() {
        let request = acquire("a", Mode::Fair, &owner("x"));
        let subject = request.subject();
        assert_eq!(subject.name, Some(&request.name));
        assert_eq!(subject.mode, Some(Mode::Fair));
        assert_eq!(subject.owner, Some(&request.owner));
        assert!(matches!(subject.counts, Counts::Grant(_)));
    }
}
