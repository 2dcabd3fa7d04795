//! Reasons why a grant is gone.

use std::{sync::Arc, time::Duration};

use lockkeeper_store::script::{Hold, Mode, Ownership, ToHolders};
use tokio::time::Instant;

use crate::{
    core::Core,
    events::{Event, What},
    lock::outcome::HolderSeen,
    session::session::Session,
    types::{Grant, GrantKey, Holding, LockName, LostReason, Owner},
    watchdog,
};

/// Holders that a forced release returns.
pub(crate) const FORCED_HOLDERS: u32 = 100;

// === impl Core ===

impl Core {
    /// Why a session lost a grant that the store says is gone: it may have been released by force
    /// at another coordinator.
    pub(crate) async fn why_lost(
        &self,
        session: &Session,
        key: &GrantKey,
        ownership: Ownership,
    ) -> LostReason {
        match session.grant(key) {
            Some(grant) => self.why_gone(&Holding::Lock(grant), ownership).await,
            None => ownership.into(),
        }
    }

    /// The same for a grant that a session may not know.
    pub(crate) async fn why_gone(&self, holding: &Holding, ownership: Ownership) -> LostReason {
        let Some(grant) = holding.lock() else {
            return ownership.into();
        };
        match self.scripts.forced(grant.name.store_key()).await {
            Ok(Some(record)) if record.token == grant.fencing_token => LostReason::ForceReleased {
                reason: record.reason.into(),
                closed_until: closed_until(record.grace),
                preempted: record.preempted,
            },
            Ok(_) | Err(_) => ownership.into(),
        }
    }

    /// Records a new grant, requested at `sent_at`. If a session here counts on an earlier grant of
    /// the lock that was not claimed from it, it is asked for at once.
    pub(crate) fn grant_seen(self: &Arc<Self>, grant: &Grant, sent_at: Instant, is_claimed: bool) {
        let Some(former) = self.metrics.grant_seen(grant, sent_at) else {
            return;
        };
        if let Some(holder) = former.holder
            && !is_claimed
            && !holder.has(grant)
        {
            let key = holder.key(&grant.name);
            watchdog::look_at_former(self, &holder.session(), &key, former.token);
        }
    }

    /// A former holder has released a grant that was lost to a forced release: the lock need not
    /// stay closed for it any longer. Returns whether it is open now. If the store does not answer,
    /// the grace period ends by itself.
    pub(crate) async fn acknowledge_forced(
        &self,
        name: &LockName,
        mode: Mode,
        owner: &Owner,
    ) -> bool {
        let hold = Hold::new(name.store_key(), mode, owner.field());
        self.scripts.acknowledge_forced(hold).await.unwrap_or(false)
    }

    /// Notifies the former holders of a lock that was taken from them at once.
    pub(crate) async fn tell_lost(
        &self,
        name: &LockName,
        token: u64,
        holders: &[HolderSeen],
        lost: &LostReason,
    ) {
        let sessions = if holders.len() < FORCED_HOLDERS as usize {
            let named = holders.iter().map(|it| self.session_of(&it.owner));
            named.filter_map(|session| session.ok().flatten()).collect()
        } else {
            // The store may not have named all holders.
            self.sessions.all()
        };
        for session in sessions {
            session.lose_forced(&self.deadlines, name, token, lost);
        }
        self.tell_coordinators(name, token, holders, lost).await;
        for holder in holders {
            self.tell_watchers(name, token, holder, lost);
        }
    }

    /// Notifies those that have a session elsewhere. Those who miss it learn of it at the next
    /// renewal.
    async fn tell_coordinators(
        &self,
        name: &LockName,
        token: u64,
        holders: &[HolderSeen],
        lost: &LostReason,
    ) {
        let elsewhere = holders.iter().map(|it| &it.owner);
        let elsewhere = elsewhere.filter(|owner| self.session_of(owner).is_err());
        let holders: Vec<_> = elsewhere.map(|owner| owner.field().to_owned()).collect();
        if holders.is_empty() {
            return;
        }
        let message = ToHolders {
            id: String::new(),
            by: String::new(),
            token,
            within: lost.closed_for().unwrap_or_default(),
            preempts: matches!(
                lost,
                LostReason::ForceReleased {
                    preempted: true,
                    ..
                }
            ),
            handed_over: *lost == LostReason::HandedOver,
            name: name.store_key().to_owned(),
            reason: lost.detail().unwrap_or_default().to_owned(),
            holders,
        };
        if let Err(error) = self.tell_holders(&message).await {
            tracing::debug!(%name, %error, "holders elsewhere are not notified");
        }
    }

    /// Emits the losses of holders without a session here; the sessions have emitted the others.
    fn tell_watchers(&self, name: &LockName, token: u64, holder: &HolderSeen, lost: &LostReason) {
        if let Ok(Some(_)) = self.session_of(&holder.owner) {
            return;
        }
        self.events.tell(|| {
            let what = What::Lost(lost.clone());
            Event {
                fencing_token: token,
                ..Event::of_lock(what, name, holder.mode, &holder.owner).holding(holder.hold_count)
            }
        });
    }
}

/// The end of a grace period; `None` if it is over.
pub(crate) fn closed_until(grace: Duration) -> Option<Instant> {
    (!grace.is_zero()).then(|| Instant::now() + grace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        admin::Reason,
        testing::{
            SECOND, acquire, config, granted, in_session, name, open, owner, settle, start,
            start_faulty,
        },
    };

    #[tokio::test(start_paused = true)]
    async fn the_store_tells_whether_a_grant_was_released_by_force() {
        let coordinator = start(config());
        let opened = open(&coordinator);
        let request = acquire("a", Mode::Exclusive, &in_session(&opened, ""));
        let grant = granted(&coordinator, &request).await.take().unwrap();
        let reason = Reason::parse("stuck").unwrap();
        let forced = coordinator.force_release(&name("a"), &reason, SECOND).await;
        assert_eq!(forced.unwrap().holder_count, 1);
        let later = Grant {
            fencing_token: grant.fencing_token + 1,
            ..grant.clone()
        };
        let expired = LostReason::from(Ownership::Expired);
        for (grant, is_forced) in [(grant, true), (later, false)] {
            let holding = Holding::Lock(grant);
            let why = coordinator
                .core
                .why_gone(&holding, Ownership::Expired)
                .await;
            assert_eq!(why.detail() == Some("stuck"), is_forced, "{why:?}");
            assert_eq!(why == expired, !is_forced, "{why:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn watchers_hear_once_of_each_loss_by_force() {
        let coordinator = start(config());
        let opened = open(&coordinator);
        for owner in [owner("x"), in_session(&opened, "")] {
            let request = acquire("a", Mode::Exclusive, &owner);
            granted(&coordinator, &request).await.take().unwrap();
            let mut told = coordinator.core.events.subscribe().unwrap();
            let reason = Reason::parse("stuck").unwrap();
            let (of, grace) = (name("a"), Duration::ZERO);
            let forced = coordinator.force_release(&of, &reason, grace).await;
            assert_eq!(forced.unwrap().holder_count, 1);
            let event = told.try_recv().unwrap();
            assert!(matches!(event.what, What::Lost(_)), "{event:?}");
            assert_eq!((event.owner, event.holds), (owner, 1));
            assert!(told.try_recv().is_err());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_grant_of_a_session_that_another_owner_took_is_looked_at() {
        // The owner of the later grant in the session of the earlier one, and the looks.
        for (label, looks) in [("o", 0), ("p", 1)] {
            let (faults, coordinator, store) = start_faulty(config());
            let opened = open(&coordinator);
            let earlier = acquire("a", Mode::Exclusive, &in_session(&opened, "o"));
            granted(&coordinator, &earlier).await.take().unwrap();
            settle().await;
            store.flush_all();
            let later = acquire("a", Mode::Exclusive, &in_session(&opened, label));
            granted(&coordinator, &later).await.take().unwrap();
            settle().await;
            assert_eq!(faults.calls("lock_renew"), looks, "{label}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_smaller_token_is_counted() {
        let coordinator = start(config());
        let request = acquire("a", Mode::Exclusive, &owner("x"));
        let mut grant = granted(&coordinator, &request).await.take().unwrap();
        grant.name = name("b");
        let metrics = &coordinator.core.metrics;
        for (token, regressions) in [(7, 0), (7, 0), (8, 0), (6, 1)] {
            tokio::time::advance(SECOND).await;
            grant.fencing_token = token;
            metrics.grant_seen(&grant, Instant::now());
            assert_eq!(metrics.regressions.get(), regressions, "{token}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn holders_that_a_forced_release_does_not_name_are_notified_too() {
        let mut config = config();
        config.limits.sessions_max = 200;
        config.scripts.holders_per_lock_max = 200;
        let coordinator = start(config);
        let mut sessions = Vec::new();
        for _ in 0..=FORCED_HOLDERS {
            let opened = open(&coordinator);
            let request = acquire("a", Mode::Read, &in_session(&opened, ""));
            granted(&coordinator, &request).await.take().unwrap();
            sessions.push(opened);
        }
        let (of, reason) = (name("a"), Reason::parse("stuck").unwrap());
        let forced = coordinator.force_release(&of, &reason, Duration::ZERO);
        assert_eq!(forced.await.unwrap().holder_count, sessions.len());
        let mut lost = sessions
            .iter()
            .map(|it| it.stream.session.state.lock().lost.len());
        assert!(lost.all(|count| count == 1));
    }
}
