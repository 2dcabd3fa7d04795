//! The watchdog's work on a session's grants: renewing watched ones, inspecting others, and
//! detecting losses.

use std::{sync::Arc, time::Duration};

use lockkeeper_store::script::{Mode, PermitRenewal, Renewal};
use tokio::time::Instant;

use crate::{
    session::{
        held::{Held, Place},
        session::{Deadlines, Due, Phase, Session, State},
    },
    types::{Grant, GrantKey, Holding, LostReason, Terms, safe_until},
};

/// Renewals are sent after this part of the lease, as by Redisson's watchdog.
pub(crate) const RENEW_DIVISOR: u32 = 3;

/// Renewals of equal leases move to common moments this part of the lease apart, so that they share
/// calls.
const RENEW_GRID_DIVISOR: u32 = 100;

/// A failed renewal is retried after this part of the lease, at most [`RETRY_MAX`] later.
pub(crate) const RETRY_DIVISOR: u32 = 20;
const RETRY_MAX: Duration = Duration::from_secs(1);

/// Interval at which a read grant with a fixed lease is inspected. A Redisson reader's watchdog
/// cuts the whole lock's time to live to its own lease, and then renews that every 10 s.
const READ_LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// For the same reason, a watched read is renewed as if its lease were at most Redisson's.
const READ_LEASE_MAX: Duration = Duration::from_secs(30);

/// Minimum pause between failed renewals of any lease.
const RETRY_MIN: Duration = Duration::from_millis(5);

/// A renewal that is due.
#[derive(Clone, Debug)]
pub(crate) struct Renewing {
    pub(crate) key: GrantKey,
    place: Place,
    pub(crate) serial: u64,
    /// When it was due; none if it is sent early.
    pub(crate) due_at: Option<Instant>,
    /// Replicas that must acknowledge it, whatever the configuration says.
    pub(crate) min_replica_acks: u32,
    pub(crate) renewal: LeaseRenewal,
}

/// The renewal of a lock or of permits; each has its own script.
#[derive(Clone, Debug)]
pub(crate) enum LeaseRenewal {
    Lock(Renewal),
    Permits(PermitRenewal),
}

// === impl Session ===

impl Session {
    /// Records a successful renewal by the client. None if the grant with this serial has ended
    /// meanwhile.
    pub(crate) fn renewed_by_client(
        self: &Arc<Self>,
        deadlines: &Deadlines,
        (key, serial): (&GrantKey, u64),
        sent_at: Instant,
        lease: Duration,
    ) -> Option<Holding> {
        let mut state = self.state.lock();
        let live = matches!(state.phase, Phase::Live { .. });
        let held = state.grants.get_mut(key);
        let held = held.filter(|held| held.grant.serial() == serial)?;
        let was_failing = self.renewed(deadlines, held, live, (sent_at, lease));
        let holding = held.grant.clone();
        state.failing -= usize::from(was_failing);
        self.tell_if_safe(&state);
        Some(holding)
    }

    /// A renewal by the client has found nothing: the grant with this serial is lost, unless a
    /// release is on its way.
    pub(crate) fn not_renewed_by_client(
        &self,
        deadlines: &Deadlines,
        (key, serial): (&GrantKey, u64),
        reason: LostReason,
    ) {
        let is_gone = |held: &Held| held.grant.serial() == serial && !held.releasing;
        self.lose_if(is_gone, deadlines, key, reason);
    }

    /// The watchdog's work for a grant that is due: a renewal; none if it was lost or is not to be
    /// renewed.
    pub(crate) fn on_due(
        self: &Arc<Self>,
        deadlines: &Deadlines,
        place: Place,
        now: Instant,
    ) -> Option<Renewing> {
        let mut state = self.state.lock();
        let live = matches!(state.phase, Phase::Live { .. });
        let held = state.grants.at(place)?;
        let terms = held.grant.terms();
        let end = if live { held.end() } else { terms.safe_until };
        if now >= end {
            let unreachable = held.failing || held.renewing;
            let reason = if held.in_doubt_until.is_some() {
                LostReason::ClockStepped
            } else if unreachable {
                LostReason::StoreUnreachable
            } else {
                LostReason::Expired
            };
            let (key, serial) = (GrantKey::of_holding(&held.grant), held.grant.serial());
            drop(state);
            self.lose_if(|it| it.grant.serial() == serial, deadlines, &key, reason);
            return None;
        }
        let due_at = deadlines.due_at(held.due);
        // Until the answer arrives, the next event is the loss of the grant.
        self.reschedule(deadlines, held, end);
        let reads = |grant: &Grant| grant.mode == Mode::Read;
        let looked_after = terms.watched
            || held.failing
            || held.in_doubt_until.is_some()
            || held.grant.lock().is_some_and(reads);
        if !live || !looked_after || held.renewing {
            return None;
        }
        held.renewing = true;
        Some(held.renewing(Some(due_at)))
    }

    /// Applies the outcome of a renewal by the watchdog.
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
        let Some(held) = state.grants.find(renewing.place, key) else {
            return;
        };
        // Released and acquired again meanwhile: the answer is about another grant.
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
                let was_failing = self.renewed(deadlines, held, live, (sent_at, lease));
                if looked {
                    let lease = own_lease;
                    held.grant.set_terms(Terms {
                        lease,
                        ..held.grant.terms()
                    });
                }
                state.failing -= usize::from(was_failing);
                self.tell_if_safe(&state);
            }
            Some(Err(_)) if held.releasing => {}
            Some(Err(reason)) => {
                let reason = match reason {
                    LostReason::Expired if held.in_doubt_until.is_some() => {
                        LostReason::ClockStepped
                    }
                    reason => reason,
                };
                drop(state);
                let is_it = |held: &Held| held.grant.serial() == renewing.serial;
                self.lose_if(is_it, deadlines, key, reason);
            }
            None => {
                let terms = held.grant.terms();
                let retry =
                    Instant::now() + (terms.lease / RETRY_DIVISOR).clamp(RETRY_MIN, RETRY_MAX);
                let at = if live {
                    retry.min(held.end())
                } else {
                    terms.safe_until
                };
                self.reschedule(deadlines, held, at);
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

    /// Records a successful renewal. Returns whether those before it failed.
    fn renewed(
        self: &Arc<Self>,
        deadlines: &Deadlines,
        held: &mut Held,
        live: bool,
        (sent_at, lease): (Instant, Duration),
    ) -> bool {
        held.in_doubt_until = None;
        held.grant.set_terms(Terms {
            lease,
            ..held.grant.terms()
        });
        held.extend(Some(safe_until(sent_at, lease)));
        let at = if live {
            self.due_at(&held.grant, sent_at)
        } else {
            held.grant.terms().safe_until
        };
        self.reschedule(deadlines, held, at);
        std::mem::take(&mut held.failing)
    }

    /// Every grant of a live session, to renew at once; unwatched ones are only inspected.
    pub(crate) fn renew_all(self: &Arc<Self>, deadlines: &Deadlines) -> Vec<Renewing> {
        let mut state = self.state.lock();
        if !matches!(state.phase, Phase::Live { .. }) {
            return Vec::new();
        }
        let grants = state.grants.values_mut();
        grants
            .map(|held| {
                let until = held.grant.terms().safe_until;
                self.reschedule(deadlines, held, until);
                held.renewing = true;
                held.renewing(None)
            })
            .collect()
    }

    /// A renewal, to send at once, of a grant with this token, which another grant of the lock puts
    /// in doubt. None if the session does not count on it, or asks for it already.
    pub(crate) fn renew_doubted(
        self: &Arc<Self>,
        deadlines: &Deadlines,
        key: &GrantKey,
        token: u64,
    ) -> Option<Renewing> {
        let mut state = self.state.lock();
        if !matches!(state.phase, Phase::Live { .. }) {
            return None;
        }
        let held = state.grants.get_mut(key)?;
        let is_it = |grant: &Grant| grant.fencing_token == token;
        if held.releasing || held.renewing || !held.grant.lock().is_some_and(is_it) {
            return None;
        }
        self.reschedule(deadlines, held, held.grant.terms().safe_until);
        held.renewing = true;
        Some(held.renewing(None))
    }

    /// The store's clock stepped forward, so its leases end earlier than expected. Those that were
    /// granted after the step do not, and nothing here tells which these are: a renewal of each
    /// finds out.
    pub(crate) fn shorten(self: &Arc<Self>, deadlines: &Deadlines, step: Duration, now: Instant) {
        let mut state = self.state.lock();
        let live = matches!(state.phase, Phase::Live { .. });
        for held in state.grants.values_mut() {
            let mut terms = held.grant.terms();
            if live {
                held.in_doubt_until = Some(held.end());
            }
            terms.safe_until = terms.safe_until.checked_sub(step).unwrap_or(now).max(now);
            held.grant.set_terms(terms);
            self.reschedule(deadlines, held, now);
            // Until it is renewed with the new clock.
            held.failing |= terms.watched;
        }
        state.failing = state.grants.values().filter(|held| held.failing).count();
        if state.failing > 0 {
            state.at_risk = true;
            self.news.notify_one();
        }
    }

    /// Has the client notified if no renewal fails any more, for whatever reason.
    pub(crate) fn tell_if_safe(&self, state: &State) {
        if state.is_safe_again() {
            self.news.notify_one();
        }
    }

    pub(crate) fn reschedule(
        self: &Arc<Self>,
        deadlines: &Deadlines,
        held: &mut Held,
        at: Instant,
    ) {
        deadlines.remove(held.due);
        held.due = deadlines.insert(at, Due::Grant(Arc::clone(self), held.place));
    }

    /// When the watchdog next looks at a grant of a live session, after a grant or renewal that was
    /// sent then.
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

    /// A third of the lease after the request, or slightly earlier at a shared moment.
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
    /// Whether the client was notified of failing renewals, and none fails any more.
    pub(crate) fn is_safe_again(&self) -> bool {
        self.told_at_risk && self.failing == 0
    }
}

// === impl Held ===

impl Held {
    pub(crate) fn renewing(&self, due_at: Option<Instant>) -> Renewing {
        let name = self.grant.name().shared();
        let lease = self.lease;
        let renewal = match &self.grant {
            Holding::Lock(grant) => LeaseRenewal::Lock(Renewal {
                name,
                mode: grant.mode,
                owner: grant.shared_field(),
                lease,
                noted: grant.note.is_some(),
            }),
            Holding::Permits(grant) => LeaseRenewal::Permits(PermitRenewal {
                name,
                owner: grant.owner.shared_field(),
                lease,
                ids: Arc::clone(&grant.ids),
            }),
        };
        Renewing {
            key: GrantKey::of_holding(&self.grant),
            place: self.place,
            serial: self.grant.serial(),
            due_at,
            min_replica_acks: self.grant.terms().min_replica_acks,
            renewal,
        }
    }
}
