//! Checks in the store what a resuming client presumes to hold.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use lockkeeper_store::script::{
    CallError, Mode, Note, Ownership, PermitId, PermitRenewal, Renewal, Renewed,
};
use tokio::time::Instant;

use crate::{
    core::Core,
    lock::describe::LISTED_MAX,
    resume_token::Claims,
    types::{Grant, Holding, LockName, LostReason, Owner, PermitGrant, safe_until},
    watchdog::RENEWALS_PER_CALL,
};

/// Questions why a grant is gone, at the same time.
const WHYS_AT_ONCE: usize = 64;

/// A grant that a resuming client presumes to hold.
#[derive(Clone, Debug)]
pub struct ResumedGrant {
    /// The lock.
    pub name: LockName,
    /// The mode it is held in.
    pub mode: Mode,
    /// The owner within the session.
    pub owner: Owner,
    /// Whether the watchdog renews it.
    pub watched: bool,
    /// The last fencing token the client knows, for the notice if the grant is lost.
    pub fencing_token: u64,
    /// The last hold count the client knows, for the notice if the grant is lost.
    pub hold_count: u32,
    /// Whether the caller may hold it. If not, it is lost, and ends with its lease.
    pub is_permitted: bool,
}

/// Permits of one grant that a resuming client presumes to hold.
#[derive(Clone, Debug)]
pub struct ResumedPermits {
    /// The semaphore.
    pub name: LockName,
    /// The owner within the session.
    pub owner: Owner,
    /// The permits.
    pub ids: Arc<[PermitId]>,
    /// Whether the watchdog renews them.
    pub watched: bool,
    /// As [`ResumedGrant::is_permitted`].
    pub is_permitted: bool,
}

/// Everything that a resuming client presumes to hold.
#[derive(Clone, Debug, Default)]
pub struct Resumed {
    /// Locks.
    pub locks: Vec<ResumedGrant>,
    /// Permits.
    pub permits: Vec<ResumedPermits>,
}

/// A grant checked in the store: its state, when the check was sent, and why it is gone if it is.
pub(crate) type Checked = (Holding, Instant, Result<(), Ownership>);

// === impl Resumed ===

impl Resumed {
    /// Takes out what the caller may not hold.
    pub(crate) fn take_forbidden(&mut self) -> Vec<Holding> {
        let now = Instant::now();
        let locks = self.locks.extract_if(.., |it| !it.is_permitted);
        let locks = locks.map(|it| Holding::Lock(it.grant(None, now)));
        let permits = self.permits.extract_if(.., |it| !it.is_permitted);
        let permits = permits.map(|it| Holding::Permits(it.grant(Duration::ZERO, now)));
        locks.chain(permits).collect()
    }
}

// === impl ResumedGrant ===

impl ResumedGrant {
    fn renewal(&self, claims: &Claims) -> Renewal {
        Renewal {
            name: self.name.shared(),
            mode: self.mode,
            owner: self.owner.shared_field(),
            lease: lease_of(self.watched, claims),
            noted: false,
        }
    }

    /// The grant, as the store has it, or as the client knows it.
    fn grant(&self, renewed: Option<&Renewed>, sent_at: Instant) -> Grant {
        let lease = renewed.map_or(Duration::ZERO, |renewed| renewed.lease);
        Grant {
            name: self.name.clone(),
            mode: self.mode,
            owner: self.owner.clone(),
            field: None,
            hold_count: renewed.map_or(self.hold_count, |renewed| renewed.hold_count),
            fencing_token: renewed.map_or(self.fencing_token, |renewed| renewed.token),
            serial: renewed.map_or(0, |renewed| renewed.serial),
            lease,
            safe_until: safe_until(sent_at, lease),
            watched: self.watched,
            replica_acks: 0,
            min_replica_acks: 0,
            note: None,
        }
    }
}

// === impl ResumedPermits ===

impl ResumedPermits {
    fn renewal(&self, claims: &Claims) -> PermitRenewal {
        PermitRenewal {
            name: self.name.shared(),
            owner: self.owner.shared_field(),
            lease: lease_of(self.watched, claims),
            ids: Arc::clone(&self.ids),
        }
    }

    fn grant(self, lease: Duration, sent_at: Instant) -> PermitGrant {
        PermitGrant {
            name: self.name,
            owner: self.owner,
            ids: self.ids,
            serial: 0,
            lease,
            safe_until: safe_until(sent_at, lease),
            watched: self.watched,
            replica_acks: 0,
            min_replica_acks: 0,
        }
    }
}

// === impl Core ===

impl Core {
    /// Renews the grants that a resuming client names. Those with a lease of their own are only
    /// inspected.
    pub(crate) async fn check(
        &self,
        claims: &Claims,
        named: Vec<ResumedGrant>,
    ) -> Result<Vec<Checked>, CallError> {
        let mut checked = Vec::with_capacity(named.len());
        for batch in named.chunks(RENEWALS_PER_CALL) {
            let renewals: Vec<_> = batch.iter().map(|grant| grant.renewal(claims)).collect();
            let sent_at = Instant::now();
            let (scripts, acks) = self.replicated(0);
            let outcomes = scripts.renew(&renewals).await.complete()?;
            let replica_acks = acks.acknowledged()?;
            for (named, outcome) in batch.iter().zip(outcomes) {
                let renewed = outcome.as_ref().ok();
                let grant = Grant {
                    replica_acks,
                    note: match renewed {
                        Some(renewed) if renewed.noted => self.note_of(named).await?,
                        _ => None,
                    },
                    ..named.grant(renewed, sent_at)
                };
                checked.push((Holding::Lock(grant), sent_at, outcome.map(drop)));
            }
        }
        Ok(checked)
    }

    /// What the owner of a grant said of it to the coordinator that it had before.
    async fn note_of(&self, named: &ResumedGrant) -> Result<Option<Arc<Note>>, CallError> {
        let (name, max) = (named.name.store_key(), LISTED_MAX);
        let seen = self.scripts.inspect(name, max).await?;
        let mut holders = seen.holders.into_iter();
        let own = holders.find(|it| {
            let is_read = (it.mode == Mode::Read) == (named.mode == Mode::Read);
            is_read && it.owner == named.owner.field()
        });
        Ok(own.and_then(|own| own.note))
    }

    /// The same for permits.
    pub(crate) async fn check_permits(
        &self,
        claims: &Claims,
        named: Vec<ResumedPermits>,
    ) -> Result<Vec<Checked>, CallError> {
        if named.is_empty() {
            return Ok(Vec::new());
        }
        let renewals: Vec<_> = named.iter().map(|it| it.renewal(claims)).collect();
        let sent_at = Instant::now();
        let (scripts, acks) = self.replicated(0);
        let outcomes = scripts.renew_permits(&renewals).await.complete()?;
        let replica_acks = acks.acknowledged()?;
        let checked = named.into_iter().zip(outcomes).map(|(permits, outcome)| {
            let grant = PermitGrant {
                replica_acks,
                ..permits.grant(outcome.unwrap_or_default(), sent_at)
            };
            (Holding::Permits(grant), sent_at, outcome.map(drop))
        });
        Ok(checked.collect())
    }

    /// The reason for each one that is gone, of which there may be as many as a message names.
    pub(crate) async fn why_all_gone(&self, checked: &[Checked]) -> Vec<Option<LostReason>> {
        let mut reasons = Vec::with_capacity(checked.len());
        for some in checked.chunks(WHYS_AT_ONCE) {
            let some = some.iter().map(|(grant, _, outcome)| async {
                match outcome {
                    Err(ownership) => Some(self.why_gone(grant, *ownership).await),
                    Ok(()) => None,
                }
            });
            reasons.extend(join_all(some).await);
        }
        reasons
    }
}

/// What a renewal asks for; zero: it only inspects the grant.
fn lease_of(watched: bool, claims: &Claims) -> Duration {
    if watched {
        claims.lease
    } else {
        Duration::ZERO
    }
}
