//! Validated requests for several locks.

use std::{sync::Arc, time::Duration};

use lockkeeper_access::Account;
use lockkeeper_store::script::{Member, Members, Note};

use crate::{
    lock::request::Acquire,
    multi::locks::Locks,
    summary::{Counts, Subject},
    types::{Lease, Owner, RequestId},
};

/// A request for several locks.
#[derive(Clone, Debug)]
pub struct AcquireAll {
    /// The locks.
    pub locks: Locks,
    /// The owner that wants them.
    pub owner: Owner,
    /// None: watched in a session, otherwise the default lease.
    pub lease: Option<Lease>,
    /// For all of them together; none: unlimited.
    pub wait: Option<Duration>,
    /// Makes a repeat idempotent.
    pub request_id: Option<RequestId>,
    /// See [`Acquire::min_replica_acks`].
    pub min_replica_acks: u32,
    /// See [`Acquire::note`].
    pub note: Option<Arc<Note>>,
    /// See [`Acquire::end_on_deadlock`].
    pub end_on_deadlock: bool,
    /// The caller, whose quota the grants take.
    pub account: Account,
}

/// Holds of several locks to release.
#[derive(Clone, Debug)]
pub struct ReleaseAll {
    /// The locks.
    pub locks: Locks,
    /// The holder.
    pub owner: Owner,
    /// Makes a repeat idempotent.
    pub request_id: Option<RequestId>,
}

// === impl AcquireAll ===

impl AcquireAll {
    pub(crate) fn subject(&self) -> Subject<'_> {
        let counts = Counts::Grants(&self.locks);
        Subject::default().by(&self.owner).counts(counts)
    }

    /// The request id for each of the locks, if they are taken one by one.
    pub(crate) fn id_of_each(&self) -> Option<RequestId> {
        let id = self.request_id.as_ref()?;
        let locks = self.locks.iter().map(|(name, mode)| Member {
            name: name.store_key(),
            mode,
            known_holds: None,
            serial: None,
        });
        let members = Members {
            owner: self.owner.field(),
            locks: &locks.collect::<Vec<_>>(),
        };
        Some(id.of_set(&members.digest()))
    }

    /// The request for one of the locks, limited to this wait.
    pub(crate) fn member(
        &self,
        which: usize,
        wait: Option<Duration>,
        request_id: Option<RequestId>,
    ) -> Acquire {
        let (name, mode) = self.locks.get(which);
        Acquire {
            lease: self.lease,
            wait,
            request_id,
            min_replica_acks: self.min_replica_acks,
            note: self.note.clone(),
            end_on_deadlock: self.end_on_deadlock,
            ..Acquire::new(name.clone(), mode, self.owner.clone(), &self.account)
        }
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_store::script::Mode;

    use super::*;
    use crate::testing::{acquire_all, owner};

    #[test]
    fn several_locks_are_counted_each_and_have_no_common_name() {
        let both = [("a", Mode::Read), ("b", Mode::Write)];
        let request = acquire_all(&both, &owner("x"));
        let subject = request.subject();
        assert_eq!(subject.owner, Some(&request.owner));
        assert_eq!((subject.name, subject.mode), (None, None));
        assert!(matches!(subject.counts, Counts::Grants(locks) if locks.len() == 2));
    }
}
