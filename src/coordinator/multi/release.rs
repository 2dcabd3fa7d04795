//! Releases one hold of each of several locks.

use std::{sync::Arc, time::Duration};

use lockkeeper_store::script::{CallError, Member, Members, Mode, Ownership, ReleasedMember};
use tokio::time::Instant;

use crate::{
    core::Core,
    error::Error,
    events::Event,
    multi::{outcome::ReleasedLock, request::ReleaseAll},
    owner_lock::OwnerLock,
    repeat::undo_while,
    session::session::Session,
    types::{Grant, GrantKey, RequestId, safe_until},
};

/// A release in progress.
struct Releasing {
    request: ReleaseAll,
    session: Option<Arc<Session>>,
    /// The grant of each lock in the session's grant table, if any.
    held: Vec<Option<Grant>>,
    /// Kept until the outcome is known.
    _owner_locks: Vec<OwnerLock>,
}

/// Releases one hold of each lock, as far as the owner has one.
pub(crate) async fn release_all(
    core: &Arc<Core>,
    request: &ReleaseAll,
) -> Result<Vec<ReleasedLock>, Error> {
    let session = core.session_of(&request.owner)?;
    let owner_locks = core.turns_of_all(&request.locks, &request.owner).await?;
    let mut releasing = Releasing {
        request: request.clone(),
        held: Vec::new(),
        session,
        _owner_locks: owner_locks,
    };
    let booked = |key| releasing.session.as_ref()?.grant(&key);
    releasing.held = releasing.keys().map(booked).collect();
    releasing.set_releasing(true);
    let sent_at = Instant::now();
    match releasing.ask(core).await {
        Ok(released) => {
            releasing.book(core, &released, sent_at).await;
            releasing.acknowledge(core, &released).await;
            let first = released.first().and_then(|member| member.left.err());
            match first {
                Some(why) if released.iter().all(|member| member.left.is_err()) => {
                    Err(Error::NotOwner(why))
                }
                _ => Ok(releasing.answer(&released)),
            }
        }
        Err(error @ CallError::OutcomeUnknown(_)) if releasing.session.is_some() => {
            let core = Arc::clone(core);
            core.tasks.clone().spawn(
                "finish-release",
                async move { releasing.finish(&core).await },
            );
            Err(error.into())
        }
        Err(error) => {
            releasing.set_releasing(false);
            Err(error.into())
        }
    }
}

// === impl Releasing ===

impl Releasing {
    fn keys(&self) -> impl Iterator<Item = GrantKey> {
        let label = &self.request.owner.label;
        let locks = self.request.locks.iter();
        locks.map(|(name, mode)| GrantKey::new(name, mode, label))
    }

    /// The grant table knows better than the caller whether an exclusive lock has a queue.
    fn modes(&self) -> impl Iterator<Item = Mode> {
        let asked = self.request.locks.iter();
        let modes = asked.zip(&self.held);
        modes.map(|((_, mode), held)| held.as_ref().map_or(mode, |held| held.mode))
    }

    fn set_releasing(&self, releasing: bool) {
        if let Some(session) = &self.session {
            self.keys()
                .for_each(|key| session.set_releasing(&key, releasing));
        }
    }

    async fn ask(&self, core: &Core) -> Result<Vec<ReleasedMember>, CallError> {
        let names = self.request.locks.iter().map(|(name, _)| name);
        let members: Vec<Member<'_>> = names
            .zip(self.modes())
            .zip(&self.held)
            .map(|((name, mode), held)| Member {
                name: name.store_key(),
                mode,
                known_holds: None,
                serial: held.as_ref().map(|held| held.serial),
            })
            .collect();
        let members = Members {
            owner: self.request.owner.field(),
            locks: &members,
        };
        let session = self.session.as_ref();
        let leases = self.held.iter();
        let leases = leases.map(|held| core.lease_of_held(session, held.as_ref()));
        let leases: Vec<Duration> = leases.collect();
        let request_id = self.request.request_id.as_ref().map(RequestId::as_str);
        let (scripts, acks) = core.replicated(0);
        let released = scripts.release_all(members, &leases, request_id).await;
        if let Err(error) = acks.acknowledged() {
            tracing::info!(%error, "released");
        }
        released
    }

    /// Updates the session's grant table from the store's answer.
    async fn book(&self, core: &Core, released: &[ReleasedMember], sent_at: Instant) {
        let Some(session) = &self.session else {
            let names = self.request.locks.iter().map(|(name, _)| name);
            for ((name, mode), member) in names.zip(self.modes()).zip(released) {
                let owner = &self.request.owner;
                // The answer to a repeat is that of the first call, and the lock may be held again.
                if member.held == 0 {
                    core.sessionless.release(name, mode, owner);
                }
                if member.left == Ok(member.held) {
                    core.events
                        .tell(|| Event::of_release(name, mode, owner, member.held));
                }
            }
            return;
        };
        for (key, member) in self.keys().zip(released) {
            match member.left {
                // The answer to a repeat says nothing of what the owner has taken since.
                Err(why) if member.held == 0 => {
                    let reason = core.why_lost(session, &key, why).await;
                    session.lose(&core.deadlines, &key, reason);
                }
                _ => {
                    let until = Some(safe_until(sent_at, member.lease));
                    session.set_holds(&core.deadlines, &key, member.held, until);
                }
            }
        }
    }

    /// A former holder of a lock that was released by force no longer relies on it.
    async fn acknowledge(&self, core: &Core, released: &[ReleasedMember]) {
        let names = self.request.locks.iter().map(|(name, _)| name);
        for ((name, mode), member) in names.zip(self.modes()).zip(released) {
            if member.left == Err(Ownership::HeldByAnother) {
                core.acknowledge_forced(name, mode, &self.request.owner)
                    .await;
            }
        }
    }

    fn answer(&self, released: &[ReleasedMember]) -> Vec<ReleasedLock> {
        let names = self.request.locks.iter().map(|(name, _)| name);
        let locks = names.zip(self.modes()).zip(released);
        locks
            .map(|((name, mode), member)| ReleasedLock {
                name: name.clone(),
                mode,
                left: member.left.ok(),
            })
            .collect()
    }

    /// Completes a release with an unknown outcome: the caller wanted it, and repeating it is
    /// harmless.
    async fn finish(self, core: &Core) {
        let Some(session) = &self.session else { return };
        let held: Vec<&Grant> = self.held.iter().flatten().collect();
        let at_most = held.iter().map(|held| held.lease).max();
        let at_most = at_most.unwrap_or_default();
        let left = |held: &Grant| held.hold_count.saturating_sub(1);
        // The session no longer has the grants, or only the remaining holds, whatever the store
        // says.
        for grant in &held {
            session.set_holds(&core.deadlines, &GrantKey::of(grant), left(grant), None);
        }
        if self.request.request_id.is_some() {
            // The same call again leaves the record that the client's own repeat will find.
            core.until_answered(at_most, || self.ask(core)).await;
        } else {
            for grant in held {
                let only_while = (left(grant) > 0).then_some(&**session);
                let lower = || {
                    let left = left(grant);
                    let lower = core
                        .scripts
                        .lower(grant.hold(), grant.serial, left, grant.lease);
                    undo_while(only_while, lower)
                };
                core.until_answered(at_most, lower).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        coordinator::Coordinator,
        stream::Opened,
        testing::{
            Fault, SECOND, acquire_all, config, granted_all, in_session, open, owner, releases,
            request_id, settle, start, start_faulty,
        },
        watchdog,
    };

    /// A session that holds two locks, and what gives them back.
    async fn holds_both(coordinator: &Coordinator) -> (Opened, ReleaseAll) {
        let opened = open(coordinator);
        let both = [("a", Mode::Exclusive), ("b", Mode::Write)];
        let request = acquire_all(&both, &in_session(&opened, ""));
        granted_all(coordinator, &request).await.take().unwrap();
        let release = ReleaseAll {
            locks: request.locks,
            owner: request.owner,
            request_id: None,
        };
        (opened, release)
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_on_its_way_back_is_not_lost_and_needs_no_acknowledgement() {
        let (faults, coordinator, _store) = start_faulty(config());
        let (opened, release) = holds_both(&coordinator).await;
        faults.next("multi_release", Fault::AnswerTakes(SECOND));
        let released = release_all(&coordinator.core, &release);
        let renewed = async {
            settle().await;
            watchdog::renew_all(&coordinator.core).await;
        };
        let (released, ()) = tokio::join!(released, renewed);
        assert!(released.unwrap().iter().all(|it| it.left == Some(0)));
        assert!(opened.stream.session.state.lock().lost.is_empty());
        assert_eq!(faults.calls("lock_acknowledge"), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_could_not_be_given_back_is_lost_when_it_is_gone() {
        let (faults, coordinator, store) = start_faulty(config());
        let (opened, release) = holds_both(&coordinator).await;
        faults.next("multi_release", Fault::Unavailable);
        let released = release_all(&coordinator.core, &release).await;
        assert!(released.is_err());
        store.flush_all();
        watchdog::renew_all(&coordinator.core).await;
        assert_eq!(opened.stream.session.state.lock().lost.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_repeat_of_a_release_is_reported_once_although_the_lock_was_taken_again() {
        let coordinator = start(config());
        coordinator.keep_history();
        let request = acquire_all(&[("a", Mode::Exclusive)], &owner("x"));
        let release = ReleaseAll {
            locks: request.locks.clone(),
            owner: request.owner.clone(),
            request_id: request_id("r"),
        };
        for _ in 0..2 {
            granted_all(&coordinator, &request).await.take().unwrap();
            release_all(&coordinator.core, &release).await.unwrap();
            assert_eq!(releases(&coordinator), [0]);
        }
    }
}
