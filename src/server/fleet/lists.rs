//! What only the other coordinators know of the locks of a list.

use std::{collections::HashMap, time::Duration};

use lockkeeper_api::pb;
use lockkeeper_coordinator::{LockName, LockSeen, Owner, SessionId};
use tokio::time::Instant;

use super::{
    forwarded::Forwarded,
    peers::{Asked, Client, Fleet},
};

#[derive(Default)]
struct Known {
    /// The number of waiters, by name.
    waiters: HashMap<String, u32>,
    /// The holders, by name and digest of the session.
    holders: HashMap<(String, String), Vec<pb::Holder>>,
}

// === impl Fleet ===

impl Fleet {
    /// Adds what the other coordinators know of these locks, whose names begin with `prefix`: their
    /// waiters, and the holders whose sessions they serve. Returns those that could not be asked.
    pub(crate) async fn complete(
        &self,
        forwarded: &Forwarded,
        prefix: &str,
        locks: &mut [LockSeen],
    ) -> Vec<pb::UnaskedCoordinator> {
        let request = pb::ListLocksRequest {
            prefix: prefix.to_owned(),
            waited_for_here: true,
            holders_of: locks.iter_mut().filter_map(unknown_holders).collect(),
            ..pb::ListLocksRequest::default()
        };
        let call = |mut client: Client| {
            let request = forwarded.request(request.clone());
            async move { client.list_locks(request).await }
        };
        let Asked { answers, unasked } = self.ask(forwarded, call).await;
        let mut known = Known::default();
        for lock in answers.into_iter().flat_map(|(_, answer)| answer.locks) {
            known.add(lock);
        }
        for lock in locks {
            let (name, waiters) = waiters_of(lock);
            *waiters += known.waiters.get(name.public()).copied().unwrap_or(0) as usize;
            each_unknown(lock, |name, session, owner, client_name, since| {
                if let Some(seen) = known.holder(name.public(), session, owner) {
                    client_name.clone_from(&seen.client_name);
                    let held_for = seen.held_for.and_then(|it| Duration::try_from(it).ok());
                    *since = held_for.and_then(|it| Instant::now().checked_sub(it));
                }
            });
        }
        unasked
    }
}

// === impl Known ===

impl Known {
    fn add(&mut self, lock: pb::LockSummary) {
        for holder in lock.holders {
            let key = (lock.name.clone(), holder.session_digest.clone());
            self.holders.entry(key).or_default().push(holder);
        }
        *self.waiters.entry(lock.name).or_default() += lock.waiter_count;
    }

    /// Owners of other callers may be shown as digests.
    fn holder(&self, name: &str, session: &SessionId, owner: &Owner) -> Option<&pb::Holder> {
        let key = (name.to_owned(), session.digest());
        let mut holders = self.holders.get(&key)?.iter();
        holders.find(|it| it.owner == *owner.label || it.owner == owner.digest())
    }
}

/// The digests of the holders whose sessions are not served here.
fn unknown_holders(lock: &mut LockSeen) -> Option<pb::LockSummary> {
    let mut asked = pb::LockSummary::default();
    each_unknown(lock, |name, session, _, _, _| {
        name.public().clone_into(&mut asked.name);
        asked.holders.push(pb::Holder {
            session_digest: session.digest(),
            ..pb::Holder::default()
        });
    });
    (!asked.holders.is_empty()).then_some(asked)
}

/// Visits the holders whose sessions are not served here: their client and when they were granted.
fn each_unknown(
    lock: &mut LockSeen,
    mut visit: impl FnMut(&LockName, &SessionId, &Owner, &mut String, &mut Option<Instant>),
) {
    match lock {
        LockSeen::Lock(_, lock) => {
            for holder in &mut lock.holders {
                if let (Some(session), "") = (&holder.owner.session, &*holder.client_name) {
                    let (client, since) = (&mut holder.client_name, &mut holder.since);
                    visit(&lock.name, session, &holder.owner, client, since);
                }
            }
        }
        LockSeen::Semaphore(semaphore) => {
            for holder in &mut semaphore.holders {
                let Some(owner) = &holder.owner else { continue };
                if let (Some(session), "") = (&owner.session, &*holder.client_name) {
                    let (client, since) = (&mut holder.client_name, &mut holder.since);
                    visit(&semaphore.name, session, owner, client, since);
                }
            }
        }
        LockSeen::Latch(_) => {}
    }
}

fn waiters_of(lock: &mut LockSeen) -> (&LockName, &mut usize) {
    match lock {
        LockSeen::Lock(_, lock) => (&lock.name, &mut lock.waiter_count),
        LockSeen::Semaphore(semaphore) => (&semaphore.name, &mut semaphore.waiter_count),
        LockSeen::Latch(latch) => (&latch.name, &mut latch.waiter_count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_found_by_its_owner_or_the_digest_of_it() {
        let session = "6a4a5bd5-45d5-4b4c-9d4c-0a1b2c3d4e5f";
        let [x, y, z] = ["x", "y", "z"].map(|it| Owner::from_field(&format!("{session}:{it}")));
        let session = x.session.clone().expect("a session");
        let holder = |owner: &str, client: &str| pb::Holder {
            session_digest: session.digest(),
            owner: owner.to_owned(),
            client_name: client.to_owned(),
            ..pb::Holder::default()
        };
        let mut known = Known::default();
        known.add(pb::LockSummary {
            name: "build".to_owned(),
            holders: vec![holder("x", "a.sh"), holder(&y.digest(), "b.sh")],
            ..pb::LockSummary::default()
        });
        let client = |lock, owner| {
            let holder = known.holder(lock, &session, owner)?;
            Some(holder.client_name.as_str())
        };
        assert_eq!(client("build", &x), Some("a.sh"));
        assert_eq!(client("build", &y), Some("b.sh"));
        assert_eq!(client("build", &z), None);
        assert_eq!(client("deploy", &x), None);
    }
}
