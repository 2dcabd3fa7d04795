//! Several locks taken one after the other, in the order of their names. A fair lock requires it,
//! because only the head of its queue gets it. Locks in different parts of the store require it,
//! because no script can take them together.
//!
//! Each wait is that for a single lock, while the previous locks are held. Since all calls take
//! locks in the same order, no two can each hold what the other waits for. If a later lock cannot
//! be had, the previous ones are given back; if one is lost meanwhile, all begins again.

use std::{sync::Arc, time::Duration};

use lockkeeper_access::{Account, Counted};
use lockkeeper_store::script::{CallError, Refusal, Renewal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    core::Core,
    error::Error,
    lock::{
        acquire::acquire as acquire_one,
        attempt::{Attempted, attempt},
        delivery::Delivery,
        outcome::NotGranted,
        request::Acquire,
    },
    multi::{outcome::TriedAll, request::AcquireAll, undo::DeliveryAll},
    progress::{Progress, WaitState},
    session::{
        session::Session,
        watched::{RENEW_DIVISOR, RETRY_DIVISOR},
    },
    types::{Grant, GrantKey, LockName, safe_until},
    wait::try_again,
    watchdog::RENEWALS_PER_CALL,
};

/// A lease of which this part has passed when the last lock is granted is renewed before delivery.
const STALE_DIVISOR: u32 = 10;

/// The end of taking locks one after the other.
enum Ended {
    Granted,
    Not(NotGranted),
    /// A lock already taken was lost during the wait for the others.
    Lost,
}

/// The locks taken so far.
struct Taken<'a> {
    core: &'a Arc<Core>,
    session: Option<Arc<Session>>,
    deliveries: Vec<Delivery>,
    /// When the first was requested.
    since: Instant,
}

/// The progress of the wait for one of several locks, reported as that of the whole wait.
struct OfMember<'a, P> {
    name: &'a LockName,
    all: &'a mut P,
    /// Ends the wait because a lock already taken is lost.
    cancel: CancellationToken,
}

/// Takes the locks if each is free now.
pub(crate) async fn try_acquire(
    core: &Arc<Core>,
    request: &AcquireAll,
    refusal: Refusal,
) -> Result<TriedAll, Error> {
    let mut taken = Taken::none(core, request)?;
    let id = request.id_of_each();
    for which in 0..request.locks.len() {
        let name = request.locks.name(which);
        let member = request.member(which, None, id.clone());
        let ended = match attempt(core, &member, refusal, None).await {
            Ok(Attempted::Granted(delivery)) => {
                taken.deliveries.push(delivery);
                continue;
            }
            Ok(Attempted::Busy { holder, .. }) => Ok(TriedAll::Busy {
                name: name.clone(),
                holder,
            }),
            Err(error) => Err(error.of(name)),
        };
        taken.give_back().await;
        return ended;
    }
    Ok(TriedAll::Acquired(DeliveryAll::in_order(taken.deliveries)))
}

/// Waits for one lock after the other.
pub(crate) async fn acquire<P: Progress>(
    core: &Arc<Core>,
    request: &AcquireAll,
    deadline: Option<Instant>,
    progress: &mut P,
) -> Result<Result<DeliveryAll, NotGranted>, Error> {
    loop {
        let mut taken = Taken::none(core, request)?;
        let ended = match acquire_each(&mut taken, request, deadline, progress).await {
            Ok(Ended::Granted) => {
                return Ok(Ok(DeliveryAll::in_order(taken.deliveries)));
            }
            Ok(Ended::Not(ended)) => Some(Ok(Err(ended))),
            Ok(Ended::Lost) => None,
            Err(error) => Some(Err(error)),
        };
        taken.give_back().await;
        if let Some(ended) = ended {
            return ended;
        }
    }
}

async fn acquire_each<P: Progress>(
    taken: &mut Taken<'_>,
    request: &AcquireAll,
    deadline: Option<Instant>,
    progress: &mut P,
) -> Result<Ended, Error> {
    let id = request.id_of_each();
    for which in 0..request.locks.len() {
        let wait = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let member = request.member(which, wait, id.clone());
        let (ended, lost) = acquire_next(taken, &member, progress).await;
        match ended.map_err(|error| error.of(&member.name))? {
            Ok(delivery) => taken.deliveries.push(delivery),
            Err(_) if lost => return Ok(Ended::Lost),
            Err(ended) => return Ok(Ended::Not(ended)),
        }
    }
    let valid = Instant::now() + taken.shortest();
    let until = deadline.map_or(valid, |deadline| deadline.min(valid));
    loop {
        let error = match taken.refresh().await {
            Ok(true) => return Ok(Ended::Granted),
            Ok(false) => return Ok(Ended::Lost),
            Err(error) => error.into(),
        };
        if !try_again(taken.core, progress, until, error).await? {
            return Ok(Ended::Not(NotGranted::cancelled()));
        }
    }
}

/// Waits for one lock as a call for it alone would, and keeps the locks already taken. The second
/// value says that one of those was lost.
async fn acquire_next<P: Progress>(
    taken: &mut Taken<'_>,
    member: &Acquire,
    progress: &mut P,
) -> (Result<Result<Delivery, NotGranted>, Error>, bool) {
    let cancel = CancellationToken::new();
    let mut one = OfMember {
        name: &member.name,
        all: progress,
        cancel: cancel.clone(),
    };
    let core = Arc::clone(taken.core);
    let acquire = acquire_one(&core, member, &mut one);
    let kept = taken.keep();
    tokio::pin!(acquire, kept);
    let mut lost = false;
    loop {
        // The attempts of the wait must run to their ends, so it is cancelled and not dropped.
        tokio::select! {
            biased;
            ended = &mut acquire => return (ended, lost),
            () = &mut kept, if !lost => {
                lost = true;
                cancel.cancel();
            }
        }
    }
}

// === impl OfMember ===

impl<P: Progress> Progress for OfMember<'_, P> {
    fn notify(&self, state: WaitState) -> bool {
        self.all.notify(match state {
            WaitState::Lock(waiting) => WaitState::OneOf(self.name.clone(), waiting),
            other => other,
        })
    }

    async fn gone(&self) {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => {}
            () = self.all.gone() => {}
        }
    }

    fn account(&self) -> &Account {
        self.all.account()
    }

    fn begin_wait(&mut self) {
        self.all.begin_wait();
    }
}

// === impl Taken ===

impl<'a> Taken<'a> {
    fn none(core: &'a Arc<Core>, request: &AcquireAll) -> Result<Self, Error> {
        Ok(Self {
            core,
            session: core.session_of(&request.owner)?,
            deliveries: Vec::new(),
            since: Instant::now(),
        })
    }

    /// Gives everything back, and waits until the store knows or is known not to answer.
    async fn give_back(mut self) {
        let backwards = self.deliveries.iter_mut().rev();
        let tasks: Vec<_> = backwards.filter_map(Delivery::give_back).collect();
        let all = futures::future::join_all(tasks);
        let _ = tokio::time::timeout(self.core.config.call_timeout, all).await;
    }

    /// Resolves when a lock already taken is lost. Keeps them until then: the watchdog does not
    /// renew grants with a lease of their own.
    async fn keep(&mut self) {
        let Some(lease) = self.deliveries.iter().map(|one| one.grant().lease).min() else {
            return std::future::pending().await;
        };
        let mut pause = lease / RENEW_DIVISOR;
        loop {
            tokio::time::sleep(pause).await;
            pause = match self.renew().await {
                Ok(true) => lease / RENEW_DIVISOR,
                Ok(false) => return,
                Err(_unavailable) => lease / RETRY_DIVISOR,
            };
        }
    }

    /// Updates the grants after a wait. False if one of them is lost.
    async fn refresh(&mut self) -> Result<bool, CallError> {
        if self.since.elapsed() > self.shortest() / STALE_DIVISOR {
            return self.renew().await;
        }
        Ok(self.are_held())
    }

    /// The shortest lease.
    fn shortest(&self) -> Duration {
        let leases = self.deliveries.iter().map(|one| one.grant().lease);
        leases.min().unwrap_or_default()
    }

    fn are_held(&self) -> bool {
        let now = Instant::now();
        let mut all = self.deliveries.iter();
        all.all(|one| !one.is_lost() && one.grant().safe_until > now)
    }

    /// Renews the grants that the watchdog does not, and copies the others from the session's grant
    /// table. False if one of them is lost.
    async fn renew(&mut self) -> Result<bool, CallError> {
        let own: Vec<usize> = (0..self.deliveries.len())
            .filter(|at| !self.deliveries[*at].grant().watched)
            .collect();
        for batch in own.chunks(RENEWALS_PER_CALL) {
            let grants = batch.iter().map(|at| self.deliveries[*at].grant());
            let renewals: Vec<Renewal> = grants.map(renewal).collect();
            let sent_at = Instant::now();
            let min_replica_acks = batch.iter().map(|at| self.deliveries[*at].grant());
            let min_replica_acks = min_replica_acks.map(|grant| grant.min_replica_acks).max();
            let (scripts, acks) = self.core.replicated(min_replica_acks.unwrap_or(0));
            let answered = scripts.renew(&renewals).await;
            acks.acknowledged()?;
            for (at, outcome) in batch.iter().zip(answered.outcomes) {
                let delivery = &mut self.deliveries[*at];
                let renewed = match outcome {
                    Some(Ok(renewed)) => renewed,
                    Some(Err(_lost)) => return Ok(false),
                    None => continue,
                };
                let mut grant = delivery.grant().clone();
                if renewed.serial != grant.serial {
                    return Ok(false);
                }
                if let Some(session) = &self.session {
                    let which = (&GrantKey::of(&grant), grant.serial);
                    session.renewed_by_client(&self.core.deadlines, which, sent_at, renewed.lease);
                }
                grant.lease = renewed.lease;
                grant.safe_until = safe_until(sent_at, renewed.lease);
                if self.session.is_none() {
                    self.core.sessionless.hold(&grant, Counted::default());
                }
                delivery.set_grant(grant);
            }
            if let Some(error) = answered.error {
                return Err(error);
            }
        }
        for delivery in &mut self.deliveries {
            if let Some(session) = &self.session {
                let Some(grant) = delivery.booked(session) else {
                    return Ok(false);
                };
                delivery.set_grant(grant);
            }
        }
        Ok(self.are_held())
    }
}

fn renewal(grant: &Grant) -> Renewal {
    Renewal {
        name: grant.name.shared(),
        mode: grant.mode,
        owner: grant.shared_field(),
        lease: grant.lease,
        noted: grant.note.is_some(),
    }
}

#[cfg(test)]
#[path = "in_order_tests.rs"]
mod tests;
