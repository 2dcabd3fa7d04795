//! What the watchdog does to a session's grants: renewing those that are watched, looking at
//! others, and finding out what is lost.

use std::{sync::Arc, time::Duration};

use lockkeeper_store::script::{Mode, PermitRenewal, Renewal};
use tokio::time::Instant;

use crate::{
    session::{
        held::Held,
        session::{Deadlines, Due, Phase, Session, State},
    },
    types::{Grant, GrantKey, Holding, LostReason, Terms, safe_until},
};

/// Renewals are asked for after this part of the lease, as Redisson's watchdog does.
pub(crate) const RENEW_DIVISOR: u32 = 3;

/// Renewals of leases of the same length are moved to common moments this part of the lease apart,
/// so that they travel together.
const RENEW_GRID_DIVISOR: u32 = 100;

/// A failed renewal is tried again after this part of the lease, but not later than [`RETRY_MAX`].
pub(crate) const RETRY_DIVISOR: u32 = 20;
const RETRY_MAX: Duration = Duration::from_secs(1);

/// A reader of ours whose lease is fixed is looked at so often, because a Redisson reader's
/// watchdog cuts the whole lock's time to live to its own lease, and then goes on to renew that
/// every 10 s.
const READ_LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// A watched read is renewed as if its lease were no longer than Redisson's, for the same reason.
const READ_LEASE_MAX: Duration = Duration::from_secs(30);

/// Failed renewals of any lease are this far apart.
const RETRY_MIN: Duration = Duration::from_millis(5);

/// A renewal that is due.
#[derive(Clone, Debug)]
pub(crate) struct Renewing {
    pub(crate) key: GrantKey,
    pub(crate) serial: u64,
    /// When it was due; none if it is done before.
    pub(crate) due_at: Option<Instant>,
    /// Replicas that must acknowledge it, whatever the configuration says.
    pub(crate) min_replica_acks: u32,
    pub(crate) renewal: LeaseRenewal,
}

/// Locks and permits are renewed by scripts of their own.
#[derive(Clone, Debug)]
pub(crate) enum LeaseRenewal {
    Lock(Renewal),
    Permits(PermitRenewal),
}

// === impl Session ===

impl Session {
    /// A renewal by the client itself succeeded.
    pub(crate) fn renewed_by_client(
        self: &Arc<Self>,
        deadlines: &Deadlines,
        key: &GrantKey,
        sent_at: Instant,
        lease: Duration,
    ) -> Option<Holding> {
        let mut state = self.state.lock();
        let recovered = state.renewed(self, deadlines, key, sent_at, lease);
        if recovered {
            self.news.notify_one();
        }
        state.grants.get(key).map(|held| held.grant.clone())
    }

    /// What the watchdog has to do for a grant that is due: renew it, or nothing because it was
    /// lost or is not to be renewed.
    pub(crate) fn on_due(
        self: &Arc<Self>,
        deadlines: &Deadlines,
        key: &GrantKey,
        now: Instant,
    ) -> Option<Renewing> {
        let mut state = self.state.lock();
        let live = matches!(state.phase, Phase::Live { .. });
        let held = state.grants.get_mut(key)?;
        let terms = held.grant.terms();
        if now >= terms.safe_until {
            let unreachable = held.failing || held.renewing;
            let reason = if unreachable {
                LostReason::StoreUnreachable
            } else {
                LostReason::Expired
            };
            drop(state);
            self.lose(deadlines, key, reason);
            return None;
        }
        let due_at = held.due.at();
        // Until the answer is there, the next thing to happen is that the grant is lost.
        self.reschedule(deadlines, key, held, terms.safe_until);
        let reads = |grant: &Grant| grant.mode == Mode::Read;
        let looked_after = terms.watched || held.grant.lock().is_some_and(reads);
        if !live || !looked_after || held.renewing {
            return None;
        }
        held.renewing = true;
        Some(held.renewing(key, Some(due_at)))
    }

    /// The outcome of a renewal that the watchdog sent.
    pub(crate) fn on_renewal(
        self: &Arc<Self>,
        deadlines: &Deadlines,
        renewing: &Renewing,
        sent_at: Instant,
        outcome: Option<Result<Duration, LostReason>>,
    ) {
        let key = &renewing.key;
        let mut state = self.state.lock();
        let live = matches!(state.phase, Phase::Live { .. });
        let Some(held) = state.grants.get_mut(key) else {
            return;
        };
        // Given back and taken again meanwhile: the answer is about another grant.
        if held.grant.serial() != renewing.serial {
            return;
        }
        held.renewing = false;
        match outcome {
            Some(Ok(lease)) => {
                let until = held.grant.terms().safe_until;
                let left = until.saturating_duration_since(Instant::now());
                self.metrics.margin(left);
                let (own_lease, looked) = (held.grant.terms().lease, held.lease.is_zero());
                let recovered = state.renewed(self, deadlines, key, sent_at, lease);
                if looked && let Some(held) = state.grants.get_mut(key) {
                    let lease = own_lease;
                    held.grant.set_terms(Terms {
                        lease,
                        ..held.grant.terms()
                    });
                }
                if recovered {
                    self.news.notify_one();
                }
            }
            Some(Err(_)) if held.releasing => {}
            Some(Err(reason)) => {
                drop(state);
                self.lose(deadlines, key, reason);
            }
            None => {
                let terms = held.grant.terms();
                let retry =
                    Instant::now() + (terms.lease / RETRY_DIVISOR).clamp(RETRY_MIN, RETRY_MAX);
                let at = if live {
                    retry.min(terms.safe_until)
                } else {
                    terms.safe_until
                };
                self.reschedule(deadlines, key, held, at);
                if !std::mem::replace(&mut held.failing, true) {
                    state.failing += 1;
                    if state.failing == 1 {
                        state.at_risk = true;
                        self.news.notify_one();
                    }
                }
            }
        }
    }

    /// Every grant of a live session, to be renewed at once; those that are not watched are only
    /// looked at.
    pub(crate) fn renew_all(self: &Arc<Self>, deadlines: &Deadlines) -> Vec<Renewing> {
        let mut state = self.state.lock();
        if !matches!(state.phase, Phase::Live { .. }) {
            return Vec::new();
        }
        let grants = state.grants.iter_mut();
        grants
            .map(|(key, held)| {
                let until = held.grant.terms().safe_until;
                self.reschedule(deadlines, key, held, until);
                held.renewing = true;
                held.renewing(key, None)
            })
            .collect()
    }

    /// The store's clock went forward, so its leases end earlier than they were thought to.
    pub(crate) fn shorten(self: &Arc<Self>, deadlines: &Deadlines, step: Duration, now: Instant) {
        let mut state = self.state.lock();
        for (key, held) in &mut state.grants {
            let mut terms = held.grant.terms();
            terms.safe_until = terms.safe_until.checked_sub(step).unwrap_or(now).max(now);
            held.grant.set_terms(terms);
            self.reschedule(deadlines, key, held, now);
            // Until it is renewed with the new clock.
            held.failing |= terms.watched;
        }
        state.failing = state.grants.values().filter(|held| held.failing).count();
        if state.failing > 0 {
            state.at_risk = true;
            self.news.notify_one();
        }
    }

    pub(crate) fn reschedule(
        self: &Arc<Self>,
        deadlines: &Deadlines,
        key: &GrantKey,
        held: &mut Held,
        at: Instant,
    ) {
        deadlines.remove(held.due);
        held.due = deadlines.insert(at, Due::Grant(Arc::clone(self), key.clone()));
    }

    /// When the watchdog looks at a grant of a live session next, after it was granted or renewed
    /// by a call that was sent then.
    pub(crate) fn due_at(&self, holding: &Holding, sent_at: Instant) -> Instant {
        let terms = holding.terms();
        match holding.lock().map(|grant| grant.mode) {
            Some(Mode::Read) if terms.watched => {
                self.renew_at(sent_at, self.lease.min(READ_LEASE_MAX))
            }
            _ if terms.watched => self.renew_at(sent_at, self.lease),
            Some(Mode::Read) => terms.safe_until.min(sent_at + READ_LOOK_INTERVAL),
            Some(Mode::Exclusive | Mode::Fair | Mode::Write) | None => terms.safe_until,
        }
    }

    /// A third of the lease after it was asked for, or a little earlier at a moment that others
    /// share.
    pub(crate) fn renew_at(&self, sent_at: Instant, lease: Duration) -> Instant {
        let grid = u64::try_from((lease / RENEW_GRID_DIVISOR).as_millis())
            .unwrap_or(u64::MAX)
            .max(1);
        let at = (sent_at + lease / RENEW_DIVISOR).duration_since(self.epoch);
        let millis = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        self.epoch + Duration::from_millis(millis - millis % grid)
    }
}

// === impl State ===

impl State {
    /// Books a successful renewal. True if it ends a time of failing ones.
    pub(crate) fn renewed(
        &mut self,
        session: &Arc<Session>,
        deadlines: &Deadlines,
        key: &GrantKey,
        sent_at: Instant,
        lease: Duration,
    ) -> bool {
        let live = matches!(self.phase, Phase::Live { .. });
        let Some(held) = self.grants.get_mut(key) else {
            return false;
        };
        held.grant.set_terms(Terms {
            lease,
            ..held.grant.terms()
        });
        held.extend(Some(safe_until(sent_at, lease)));
        let at = if live {
            session.due_at(&held.grant, sent_at)
        } else {
            held.grant.terms().safe_until
        };
        session.reschedule(deadlines, key, held, at);
        let was_failing = std::mem::take(&mut held.failing);
        self.failing -= usize::from(was_failing);
        let recovered = was_failing && self.failing == 0;
        if recovered {
            self.recovered = true;
        }
        recovered
    }
}

// === impl Held ===

impl Held {
    pub(crate) fn renewing(&self, key: &GrantKey, due_at: Option<Instant>) -> Renewing {
        let name = key.name.shared();
        let owner = self.grant.owner().shared_field();
        let lease = self.lease;
        let renewal = match &self.grant {
            Holding::Lock(grant) => LeaseRenewal::Lock(Renewal {
                name,
                mode: grant.mode,
                owner,
                lease,
            }),
            Holding::Permits(grant) => LeaseRenewal::Permits(PermitRenewal {
                name,
                owner,
                lease,
                ids: Arc::clone(&grant.ids),
            }),
        };
        Renewing {
            key: key.clone(),
            serial: self.grant.serial(),
            due_at,
            min_replica_acks: self.grant.terms().min_replica_acks,
            renewal,
        }
    }
}
