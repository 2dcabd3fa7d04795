//! The life of an acquire: try, queue, retry on a reason, and end in exactly one way.
//!
//! An attempt always runs to its end; the wait checks whether to go on only between attempts. So a
//! wait may be stopped at any instant and leaves neither a queue ticket nor a hold behind.

use std::{sync::Arc, time::Duration};

use futures::FutureExt as _;
use lockkeeper_store::script::{Mode, Refusal};
use tokio::time::Instant;
use tokio_util::sync::DropGuard;

use crate::{
    core::Core,
    error::Error,
    lock::{
        attempt::{Attempted, Giver, attempt},
        delivery::Delivery,
        outcome::{NotGranted, Tried, Waiting},
        preferred::prefer,
        request::Acquire,
    },
    progress::{Progress, WaitState},
    types::{GrantKey, HolderKnown},
    wait::{Contest, QueuedWait, WaitContext, compete, end_of},
    waiters::handover::Awaited,
};

/// A wait for one lock.
struct OneLock<'a> {
    core: &'a Arc<Core>,
    request: &'a Acquire,
    _preferred: Option<DropGuard>,
}

/// Takes a lock if it is free now.
pub(crate) async fn try_acquire(core: &Arc<Core>, request: &Acquire) -> Result<Tried, Error> {
    core.check_serving()?;
    let refusal = if request.request_id.is_some() {
        Refusal::Recorded
    } else {
        Refusal::Forgotten
    };
    Ok(match attempt(core, request, refusal, None).await? {
        Attempted::Granted(delivery) => Tried::Acquired(delivery),
        Attempted::Busy { holder, .. } => Tried::Busy { holder },
    })
}

/// Runs an acquire to its end and notifies the caller of its wait.
pub(crate) async fn acquire<P: Progress>(
    core: &Arc<Core>,
    request: &Acquire,
    progress: &mut P,
) -> Result<Result<Delivery, NotGranted>, Error> {
    let deadline = end_of(request.wait);
    core.check_serving()?;
    if request.wait == Some(Duration::ZERO) {
        let only = Box::pin(attempt(core, request, Refusal::Forgotten, None));
        return Ok(match only.await? {
            Attempted::Granted(delivery) => Ok(delivery),
            Attempted::Busy { holder, .. } => Err(NotGranted::timed_out(holder)),
        });
    }
    let (holder, place) = match behind_others(core, request) {
        Some(Awaited { holder }) => (holder, None),
        // Attempts are boxed, so that nothing of them remains while the call waits.
        None => match Box::pin(attempt(core, request, Refusal::Waits, None)).await {
            Ok(Attempted::Busy { holder, place }) => (holder, place),
            Ok(Attempted::Granted(delivery)) => return Ok(Ok(delivery)),
            Err(error) => {
                if let Error::Store(store) = &error
                    && core.scripts.may_have_run(store)
                {
                    leave(core, request);
                }
                return Err(error);
            }
        },
    };
    let ended = {
        let queued = queue_up(core, request, progress, deadline, (holder, place));
        let (stops, mut line, mut lock) = queued.inspect_err(|_| leave(core, request))?;
        compete(core, &mut lock, &mut line, &stops).await
    };
    // A grant has removed what the wait left in the store.
    if !matches!(ended, Ok(Ok(_))) {
        leave(core, request);
    }
    ended
}

/// Whether an attempt could only push in: others wait here for the same exclusive lock, and the
/// owner does not hold it. Returns what those waiters know.
fn behind_others(core: &Core, request: &Acquire) -> Option<Awaited> {
    let Acquire { name, owner, .. } = request;
    if request.mode != Mode::Exclusive || request.request_id.is_some() {
        return None;
    }
    let awaited = core.waiters.awaited(name)?;
    core.has_room(&request.account).then_some(())?;
    if !owner.is_new() {
        let session = core.session_of(owner).ok()??;
        // The holder of the owner lock may be acquiring the lock for this owner.
        let _owner_lock = core.owner_locks.take(name, owner).now_or_never()?;
        let key = GrantKey::new(name, request.mode, &owner.label);
        let known = session.holds(&key).ok();
        known.filter(|(holds, _)| *holds == 0)?;
    }
    Some(awaited)
}

/// Joins the line; `place` is the position in the store's queue, if known. Not part of the future
/// that waits, which would keep the arguments.
fn queue_up<'a, P: Progress>(
    core: &'a Arc<Core>,
    request: &'a Acquire,
    progress: &'a mut P,
    deadline: Option<Instant>,
    (holder, place): (HolderKnown, Option<u32>),
) -> Result<(WaitContext<'a, P>, QueuedWait, OneLock<'a>), Error> {
    let stops = WaitContext::admit(core, core.session_of(&request.owner)?, deadline, progress)?;
    let caller = (request.owner.clone(), &request.account);
    let goal = request.mode.into();
    let place = core
        .waiters
        .join(&request.name, goal, caller, holder, place)?;
    if request.end_on_deadlock {
        place.end_on_deadlock();
    }
    if request.is_bare() {
        place.take_offers();
    }
    let holder = || place.standing().holder;
    let lock = OneLock {
        core,
        request,
        _preferred: request.preferred.then(|| prefer(core, request, &holder())),
    };
    Ok((stops, QueuedWait::at(place), lock))
}

/// Removes what a wait left in the store: a queue entry, or the mark of a writer. Runs in the
/// background under the owner lock, so no later request of the owner overtakes it.
pub(crate) fn leave(core: &Arc<Core>, request: &Acquire) {
    if !matches!(request.mode, Mode::Fair | Mode::Write) {
        return;
    }
    let (core, request) = (Arc::clone(core), request.clone());
    let owner_locks = Arc::clone(&core.owner_locks);
    let (name, owner) = (request.name.clone(), request.owner.clone());
    let mut owner_lock = Box::pin(async move { owner_locks.take(&name, &owner).await });
    // Requests the owner lock now and waits for it in the background: an attempt in doubt may hold
    // it for long.
    let at_once = owner_lock.as_mut().now_or_never();
    core.tasks.clone().spawn("leave", async move {
        let owner_lock = match at_once {
            Some(owner_lock) => owner_lock,
            None => owner_lock.await,
        };
        let (name, owner) = (&request.name, &request.owner);
        if core.waiters.others_want(name, request.mode, owner) {
            return;
        }
        let config = core.scripts.config();
        // After that the store forgets it by itself.
        let at_most = config.fair_waiter_timeout.max(2 * config.writer_hold_back);
        let leave = || core.scripts.leave(request.hold());
        core.until_answered(at_most, leave).await;
        drop(owner_lock);
    });
}

// === impl OneLock ===

impl Contest for OneLock<'_> {
    type Prize = Delivery;

    fn state(&self, waiting: Waiting) -> WaitState {
        WaitState::Lock(waiting)
    }

    async fn attempt(&mut self, line: &mut QueuedWait) -> Result<Option<Delivery>, Error> {
        let giver = Some(Giver::Line(&line.place));
        match attempt(self.core, self.request, Refusal::Waits, giver).await? {
            Attempted::Granted(delivery) => Ok(Some(delivery)),
            Attempted::Busy { holder, place } => {
                line.busy_until(self.core, holder, place);
                Ok(None)
            }
        }
    }

    fn leave(&self, line: &mut QueuedWait, delivery: &Delivery) {
        line.leave_granted(delivery.grant().holder());
    }
}
