//! One session: its stream, its grants, and what it has not been told yet. Everything here happens under one short lock and never asks the store.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    deadlines::{Deadlines, Due, Ticket},
    error::{Error, Limit},
    holding::{Holding, PermitGrant, Terms},
    types::{Grant, LockName, SessionId, safe_until},
};
use crate::script::{CallError, Mode, Ownership, PermitId, PermitRenewal, Renewal};

/// Renewals are asked for after this part of the lease, as Redisson's watchdog does.
const RENEW_DIVISOR: u32 = 3;

/// Renewals of leases of the same length are moved to common moments this part of the lease apart, so that they travel together.
const RENEW_GRID_DIVISOR: u32 = 100;

/// A failed renewal is tried again after this part of the lease, but not later than [`RETRY_MAX`].
const RETRY_DIVISOR: u32 = 20;
const RETRY_MAX: Duration = Duration::from_secs(1);

/// A reader of ours whose lease is fixed is looked at so often, because a Redisson reader's watchdog cuts the whole lock's time to live to its own
/// lease, and then goes on to renew that every 10 s.
const READ_LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// A watched read is renewed as if its lease were no longer than Redisson's, for the same reason.
const READ_LEASE_MAX: Duration = Duration::from_secs(30);

/// Failed renewals of any lease are this far apart.
const RETRY_MIN: Duration = Duration::from_millis(5);

/// Which grant of a session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GrantKey {
    pub(crate) name: LockName,
    pub(crate) slot: Slot,
    /// The owner within the session.
    pub(crate) label: Arc<str>,
}

/// What an owner can hold by one name at the same time: an exclusive or a fair lock; or of a read/write lock both sides; or any number of grants of
/// permits, told apart by the least of their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Slot {
    Sole,
    Read,
    Write,
    Permits(PermitId),
}

/// What happens to the grants when the stream breaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDisconnect {
    /// They stay until their leases end, and the session can be resumed.
    #[default]
    Keep,
    /// They are released at once.
    Release,
}

/// Why a grant is no longer held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostReason {
    /// Its lease ran out, or the store no longer knew of it.
    Expired,
    /// Another owner holds the lock.
    TakenOver,
    /// The store could not be reached until the safe window was over.
    StoreUnreachable,
}

/// What a session is told without having asked.
#[derive(Clone, Debug)]
pub enum Notice {
    /// A grant is no longer held.
    Lost(Box<Grant>, LostReason),
    /// Permits are no longer held.
    PermitsLost(Box<PermitGrant>, LostReason),
    /// Renewals are failing; what is left of the safe window of the grant closest to its end.
    AtRisk(Duration),
    /// Renewals succeed again.
    Recovered,
    /// The coordinator stops.
    GoingAway,
}

/// One session.
#[derive(Debug)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// The lease of its watched grants.
    pub lease: Duration,
    /// The client's name for it.
    pub client_name: String,
    /// What a broken stream does to its grants.
    pub on_disconnect: OnDisconnect,
    epoch: Instant,
    pub(super) state: Mutex<State>,
    news: Notify,
}

#[derive(Debug)]
pub(super) struct State {
    phase: Phase,
    /// In an order of their own, so that a simulation can be repeated.
    pub(super) grants: BTreeMap<GrantKey, Held>,
    lost: VecDeque<(Holding, LostReason)>,
    /// Grants whose last renewal failed.
    failing: usize,
    /// Not told yet, in this order. Each is told once however often it happened meanwhile.
    at_risk: bool,
    recovered: bool,
    going_away: bool,
    waits: usize,
}

#[derive(Debug)]
enum Phase {
    /// A stream serves it.
    Live {
        /// Ends that stream.
        stream: CancellationToken,
        /// Ends the session's waits; another stream that takes over does not.
        waits: CancellationToken,
    },
    /// Its stream broke; it can be resumed until then.
    Detached(Instant),
    /// It was closed, or nobody resumed it.
    Ended,
}

/// What an answer on its way knows its grant by: whether it has been lost, or has ended with its session; a resume that confirmed the grant gives it
/// another one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lost(Arc<AtomicBool>);

#[derive(Debug)]
pub(super) struct Held {
    pub(super) grant: Holding,
    /// Set when the grant is lost, for those who are still to be told of it.
    lost: Lost,
    /// What renewals ask for; zero if they are only to look at it.
    lease: Duration,
    pub(super) due: Ticket,
    failing: bool,
    /// A renewal is under way.
    pub(super) renewing: bool,
    /// A release is under way, so that a renewal that finds nothing is no loss.
    pub(super) releasing: bool,
}

/// A renewal that is due.
#[derive(Clone, Debug)]
pub(crate) struct Renewing {
    pub(crate) key: GrantKey,
    pub(crate) serial: u64,
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
    pub(crate) fn new(
        id: SessionId,
        lease: Duration,
        client_name: String,
        on_disconnect: OnDisconnect,
        epoch: Instant,
    ) -> Self {
        let state = State {
            phase: Phase::Detached(epoch),
            grants: BTreeMap::new(),
            lost: VecDeque::new(),
            failing: 0,
            at_risk: false,
            recovered: false,
            going_away: false,
            waits: 0,
        };
        let (state, news) = (Mutex::new(state), Notify::new());
        Self {
            id,
            lease,
            client_name,
            on_disconnect,
            epoch,
            state,
            news,
        }
    }

    /// Gives the session a stream, which takes the place of an earlier one. The token is cancelled when this stream is to end. None if the session
    /// has ended.
    pub(crate) fn attach(&self) -> Option<CancellationToken> {
        let stream = CancellationToken::new();
        let mut state = self.state.lock();
        let waits = match &state.phase {
            Phase::Live { stream, waits } => {
                stream.cancel();
                waits.clone()
            }
            Phase::Detached(_) => CancellationToken::new(),
            Phase::Ended => return None,
        };
        state.phase = Phase::Live {
            stream: stream.clone(),
            waits,
        };
        Some(stream)
    }

    /// The stream with this token broke: waits end, renewing stops, grants stay. False if it was not the session's stream any more.
    pub(crate) fn detach(&self, stream: &CancellationToken, until: Instant) -> bool {
        let mut state = self.state.lock();
        match &state.phase {
            Phase::Live { waits, .. } if !stream.is_cancelled() => waits.cancel(),
            _ => return false,
        }
        state.phase = Phase::Detached(until);
        stream.cancel();
        true
    }

    /// Ends the session for good and takes its grants. None if it had ended before.
    pub(crate) fn end(&self, deadlines: &Deadlines) -> Option<Vec<Holding>> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut state.phase, Phase::Ended) {
            Phase::Ended => return None,
            Phase::Live { stream, waits } => {
                stream.cancel();
                waits.cancel();
            }
            Phase::Detached(_) => {}
        }
        Some(state.take_grants(deadlines))
    }

    /// Ends a session that nobody resumed until `now`; its grants were left to their leases.
    pub(crate) fn end_if_abandoned(&self, deadlines: &Deadlines, now: Instant) -> bool {
        let mut state = self.state.lock();
        let abandoned = matches!(state.phase, Phase::Detached(until) if until <= now);
        if abandoned {
            state.phase = Phase::Ended;
            state.take_grants(deadlines);
        }
        abandoned
    }

    /// The token that ends the session's waits, or why there can be none.
    pub(crate) fn live(&self) -> Result<CancellationToken, Error> {
        match &self.state.lock().phase {
            Phase::Live { waits, .. } => Ok(waits.clone()),
            Phase::Detached(_) => Err(Error::SessionDetached),
            Phase::Ended => Err(Error::SessionNotFound),
        }
    }

    /// Counts a wait; the limit is the caller's to know.
    pub(crate) fn begin_wait(&self, max: usize) -> Result<(), Error> {
        let mut state = self.state.lock();
        if state.waits >= max {
            return Err(Error::LimitReached(Limit::WaitsPerSession));
        }
        state.waits += 1;
        Ok(())
    }

    pub(crate) fn end_wait(&self) {
        self.state.lock().waits -= 1;
    }

    /// Holds of a grant as the session knows them, and its serial; an error if there is no room for one more grant. Losses that the client
    /// has not read yet take room too, so that they cannot pile up.
    pub(crate) fn holds(&self, key: &GrantKey, max: usize) -> Result<(u32, Option<u64>), Error> {
        let known = self.holds_all(std::slice::from_ref(key), max)?;
        Ok(known.into_iter().next().unwrap_or_default())
    }

    /// The same of several grants: an error if there is no room for all that are new.
    pub(crate) fn holds_all(
        &self,
        keys: &[GrantKey],
        max: usize,
    ) -> Result<Vec<(u32, Option<u64>)>, Error> {
        let state = self.state.lock();
        let held = keys.iter().map(|key| state.grants.get(key)?.grant.lock());
        let known: Vec<_> = held
            .map(|grant| grant.map_or((0, None), |it| (it.hold_count, Some(it.serial))))
            .collect();
        let new = known.iter().filter(|(_, serial)| serial.is_none()).count();
        if new > 0 {
            state.room(new, max)?;
        }
        Ok(known)
    }

    /// Takes a grant in before anybody is told of it. `watched` grants are renewed with the session's lease from now on, others run out.
    /// A grant that adds a hold to another is no grant if that one was lost meanwhile; `adds_to` is its serial.
    /// An error means that the grant must be undone.
    pub(crate) fn register(
        self: &Arc<Self>,
        deadlines: &Deadlines,
        grant: Grant,
        adds_to: Option<u64>,
        sent_at: Instant,
    ) -> Result<(Grant, Lost), Error> {
        let mut state = self.state.lock();
        state.admit(&grant, adds_to)?;
        Ok(self.take_in(&mut state, deadlines, grant, sent_at))
    }

    /// Takes several grants in, each with what it adds to, or none of them.
    pub(crate) fn register_all(
        self: &Arc<Self>,
        deadlines: &Deadlines,
        grants: Vec<(Grant, Option<u64>)>,
        sent_at: Instant,
    ) -> Result<Vec<(Grant, Lost)>, Error> {
        let mut state = self.state.lock();
        for (grant, adds_to) in &grants {
            state.admit(grant, *adds_to)?;
        }
        let grants = grants.into_iter();
        Ok(grants
            .map(|(grant, _)| self.take_in(&mut state, deadlines, grant, sent_at))
            .collect())
    }

    fn take_in(
        self: &Arc<Self>,
        state: &mut State,
        deadlines: &Deadlines,
        mut grant: Grant,
        sent_at: Instant,
    ) -> (Grant, Lost) {
        let key = GrantKey::of(&grant);
        let before = state.grants.get(&key).and_then(|held| held.grant.lock());
        // A fair lock that its owner takes again as an exclusive one still has a queue, whose first the release has to wake.
        if before.is_some_and(|before| before.mode == Mode::Fair) {
            grant.mode = Mode::Fair;
        }
        let holding = Holding::Lock(grant.clone());
        let (terms, lost) = self.enter(state, deadlines, key, holding, sent_at);
        (grant.watched, grant.safe_until) = (terms.watched, terms.safe_until);
        (grant, lost)
    }

    /// Books a holding in the place of what is there by its key.
    pub(super) fn enter(
        self: &Arc<Self>,
        state: &mut State,
        deadlines: &Deadlines,
        key: GrantKey,
        mut grant: Holding,
        sent_at: Instant,
    ) -> (Terms, Lost) {
        let mut lost = Lost::default();
        let mut terms = grant.terms();
        if let Some(before) = state.forget(deadlines, &key) {
            let known = before.grant.terms();
            lost = before.lost;
            terms.watched |= known.watched;
            terms.safe_until = terms.safe_until.max(known.safe_until);
            grant.set_terms(terms);
        }
        let lease = if terms.watched {
            self.lease
        } else {
            Duration::ZERO
        };
        let at = self.due_at(&grant, sent_at);
        let due = deadlines.insert(at, Due::Grant(Arc::clone(self), key.clone()));
        let held = Held {
            grant,
            lost: lost.clone(),
            lease,
            due,
            failing: false,
            renewing: false,
            releasing: false,
        };
        state.grants.insert(key, held);
        (terms, lost)
    }

    /// The grant, if the session holds it.
    pub(crate) fn grant(&self, key: &GrantKey) -> Option<Grant> {
        self.state
            .lock()
            .grants
            .get(key)
            .and_then(|held| held.grant.lock().cloned())
    }

    /// A resuming client was told of the grant, all of its holds included: no answer that nobody took is given back any more.
    pub(crate) fn confirm(&self, key: &GrantKey) {
        if let Some(held) = self.state.lock().grants.get_mut(key) {
            held.lost = Lost::default();
        }
    }

    /// The lock that an answer on its way is about. None if it is over or no lock; an error if it is another one by now, or was confirmed by a resume.
    pub(crate) fn grant_of(&self, key: &GrantKey, lost: &Lost) -> Result<Option<Grant>, ()> {
        match self.state.lock().grants.get(key) {
            None => Ok(None),
            Some(held) if Arc::ptr_eq(&held.lost.0, &lost.0) => Ok(held.grant.lock().cloned()),
            Some(_) => Err(()),
        }
    }

    /// All that the session holds.
    pub(crate) fn grants(&self) -> Vec<Holding> {
        self.state
            .lock()
            .grants
            .values()
            .map(|held| held.grant.clone())
            .collect()
    }

    /// Marks that a release is on its way to the store, or that it did not get there.
    pub(crate) fn set_releasing(&self, key: &GrantKey, releasing: bool) {
        if let Some(held) = self.state.lock().grants.get_mut(key) {
            held.releasing = releasing;
        }
    }

    /// Holds were given back. At 0 the grant is over; otherwise it may have a longer lease now.
    pub(crate) fn set_holds(
        self: &Arc<Self>,
        deadlines: &Deadlines,
        key: &GrantKey,
        hold_count: u32,
        until: Option<Instant>,
    ) {
        let mut state = self.state.lock();
        if hold_count == 0 {
            state.forget(deadlines, key);
        } else if let Some(held) = state.grants.get_mut(key) {
            held.releasing = false;
            if let Holding::Lock(grant) = &mut held.grant {
                grant.hold_count = hold_count;
            }
            held.extend(until);
            if !held.grant.terms().watched {
                let at = self.due_at(&held.grant, Instant::now());
                self.reschedule(deadlines, key, held, at);
            }
        }
    }

    /// A grant turned out to be gone: from now on the session does not hold it, and it will be told.
    pub(crate) fn lose(&self, deadlines: &Deadlines, key: &GrantKey, reason: LostReason) {
        let mut state = self.state.lock();
        if let Some(Held { grant, lost, .. }) = state.forget(deadlines, key) {
            lost.set();
            let token = grant.lock().map(|grant| grant.fencing_token);
            tracing::info!(name = %grant.name(), ?reason, token, "grant lost");
            state.lost.push_back((grant, reason));
            self.news.notify_one();
        }
    }

    /// A grant that a resuming client named is gone: it is told, whether or not the session knew of it.
    pub(crate) fn lose_named(&self, deadlines: &Deadlines, grant: Holding, reason: LostReason) {
        let key = GrantKey::of_holding(&grant);
        let mut state = self.state.lock();
        state.forget(deadlines, &key);
        state.lost.push_back((grant, reason));
        self.news.notify_one();
    }

    /// A resuming client names what it believes to hold and is told anew what of it is lost.
    pub(crate) fn forget_losses(&self) {
        self.state.lock().lost.clear();
    }

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

    /// What the watchdog has to do for a grant that is due: renew it, or nothing because it was lost or is not to be renewed.
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
        // Until the answer is there, the next thing to happen is that the grant is lost.
        self.reschedule(deadlines, key, held, terms.safe_until);
        let reads = |grant: &Grant| grant.mode == Mode::Read;
        let looked_after = terms.watched || held.grant.lock().is_some_and(reads);
        if !live || !looked_after || held.renewing {
            return None;
        }
        held.renewing = true;
        Some(held.renewing(key))
    }

    /// The outcome of a renewal that the watchdog sent.
    pub(crate) fn on_renewal(
        self: &Arc<Self>,
        deadlines: &Deadlines,
        renewing: &Renewing,
        sent_at: Instant,
        outcome: Option<Result<Duration, Ownership>>,
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
                let (own_lease, looked) = (held.grant.terms().lease, held.lease.is_zero());
                let recovered = state.renewed(self, deadlines, key, sent_at, lease);
                if let Some(held) = state.grants.get_mut(key).filter(|_| looked) {
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
            Some(Err(ownership)) => {
                drop(state);
                self.lose(deadlines, key, ownership.into());
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

    /// Every grant of a live session, to be renewed at once; those that are not watched are only looked at.
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
                held.renewing(key)
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

    /// Tells the session that the coordinator stops.
    pub(crate) fn go_away(&self) {
        self.state.lock().going_away = true;
        self.news.notify_one();
    }

    /// The next thing to tell; waits until there is one. What is told is taken from the session's state, so however slow the listener, nothing is
    /// missed and nothing piles up. May be dropped at any instant.
    pub async fn notice(&self) -> Notice {
        loop {
            if let Some(notice) = self.next_notice() {
                return notice;
            }
            self.news.notified().await;
        }
    }

    fn next_notice(&self) -> Option<Notice> {
        let mut state = self.state.lock();
        if let Some((grant, reason)) = state.lost.pop_front() {
            return Some(match grant {
                Holding::Lock(grant) => Notice::Lost(Box::new(grant), reason),
                Holding::Permits(grant) => Notice::PermitsLost(Box::new(grant), reason),
            });
        }
        if std::mem::take(&mut state.at_risk) {
            let first = state
                .grants
                .values()
                .map(|held| held.grant.terms().safe_until)
                .min();
            // If nothing is left, it was lost meanwhile and that has been told.
            if let Some(until) = first {
                return Some(Notice::AtRisk(
                    until.saturating_duration_since(Instant::now()),
                ));
            }
        }
        if std::mem::take(&mut state.recovered) {
            return Some(Notice::Recovered);
        }
        std::mem::take(&mut state.going_away).then_some(Notice::GoingAway)
    }

    fn reschedule(
        self: &Arc<Self>,
        deadlines: &Deadlines,
        key: &GrantKey,
        held: &mut Held,
        at: Instant,
    ) {
        deadlines.remove(held.due);
        held.due = deadlines.insert(at, Due::Grant(Arc::clone(self), key.clone()));
    }

    /// When the watchdog looks at a grant of a live session next, after it was granted or renewed by a call that was sent then.
    fn due_at(&self, holding: &Holding, sent_at: Instant) -> Instant {
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

    /// A third of the lease after it was asked for, or a little earlier at a moment that others share.
    fn renew_at(&self, sent_at: Instant, lease: Duration) -> Instant {
        let grid = u64::try_from((lease / RENEW_GRID_DIVISOR).as_millis())
            .unwrap_or(u64::MAX)
            .max(1);
        let at = (sent_at + lease / RENEW_DIVISOR).duration_since(self.epoch);
        let millis = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        self.epoch + Duration::from_millis(millis - millis % grid)
    }
}

// === impl GrantKey ===

impl GrantKey {
    pub(crate) fn new(name: &LockName, mode: Mode, label: &Arc<str>) -> Self {
        let slot = match mode {
            Mode::Exclusive | Mode::Fair => Slot::Sole,
            Mode::Read => Slot::Read,
            Mode::Write => Slot::Write,
        };
        Self {
            name: name.clone(),
            slot,
            label: Arc::clone(label),
        }
    }

    pub(crate) fn of(grant: &Grant) -> Self {
        Self::new(&grant.name, grant.mode, &grant.owner.label)
    }

    pub(crate) fn of_permits(grant: &PermitGrant) -> Self {
        let least = grant.ids.iter().min().copied().unwrap_or_default();
        Self {
            name: grant.name.clone(),
            slot: Slot::Permits(least),
            label: Arc::clone(&grant.owner.label),
        }
    }

    pub(crate) fn of_holding(holding: &Holding) -> Self {
        match holding {
            Holding::Lock(grant) => Self::of(grant),
            Holding::Permits(grant) => Self::of_permits(grant),
        }
    }
}

// === impl LostReason ===

impl From<Ownership> for LostReason {
    /// What it means for somebody who held the lock that the store says this.
    fn from(ownership: Ownership) -> Self {
        match ownership {
            Ownership::HeldByAnother => Self::TakenOver,
            Ownership::Expired | Ownership::NeverHeld | Ownership::HeldInAnotherMode => {
                Self::Expired
            }
        }
    }
}

// === impl State ===

impl State {
    pub(super) fn live(&self) -> Result<(), Error> {
        match self.phase {
            Phase::Live { .. } => Ok(()),
            Phase::Detached(_) => Err(Error::SessionDetached),
            Phase::Ended => Err(Error::SessionNotFound),
        }
    }

    /// Whether a grant may be taken in, which is no grant if the one it adds a hold to was lost meanwhile.
    fn admit(&self, grant: &Grant, adds_to: Option<u64>) -> Result<(), Error> {
        self.live()?;
        if adds_to == Some(grant.serial) && !self.grants.contains_key(&GrantKey::of(grant)) {
            let why = "the grant was lost while a hold was added to it".to_owned();
            return Err(CallError::OutcomeUnknown(why).into());
        }
        Ok(())
    }

    /// Whether so many more grants may be taken in.
    pub(super) fn room(&self, new: usize, max: usize) -> Result<(), Error> {
        if self.grants.len() + self.lost.len() + new > max {
            return Err(Error::LimitReached(Limit::GrantsPerSession));
        }
        Ok(())
    }

    pub(super) fn forget(&mut self, deadlines: &Deadlines, key: &GrantKey) -> Option<Held> {
        let held = self.grants.remove(key)?;
        deadlines.remove(held.due);
        self.failing -= usize::from(held.failing);
        Some(held)
    }

    fn take_grants(&mut self, deadlines: &Deadlines) -> Vec<Holding> {
        let keys: Vec<GrantKey> = self.grants.keys().cloned().collect();
        keys.iter()
            .filter_map(|key| self.forget(deadlines, key))
            .map(|held| {
                held.lost.set();
                held.grant
            })
            .collect()
    }

    /// Books a successful renewal. True if it ends a time of failing ones.
    fn renewed(
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

// === impl Lost ===

impl Lost {
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

// === impl Held ===

impl Held {
    /// The safe window never moves back.
    fn extend(&mut self, until: Option<Instant>) {
        let mut terms = self.grant.terms();
        terms.safe_until = until.map_or(terms.safe_until, |until| until.max(terms.safe_until));
        self.grant.set_terms(terms);
    }

    fn renewing(&self, key: &GrantKey) -> Renewing {
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
            renewal,
        }
    }
}
