//! The life of an acquire of several locks.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use lockkeeper_access::Account;
use lockkeeper_store::script::{CallError, Refusal};
use tokio::time::Instant;

use crate::{
    core::Core,
    error::Error,
    lock::{
        acquire::leave,
        outcome::{NotGranted, Waiting},
    },
    multi::{
        attempt::{AttemptedAll, attempt_all},
        in_order,
        outcome::TriedAll,
        request::AcquireAll,
        undo::DeliveryAll,
    },
    progress::{Progress, WaitState},
    types::{Goal, LockName, Owner},
    wait::{Contest, QueuedWait, WaitContext, compete, end_of},
    waiters::queue::QueueTicket,
};

/// The locks whose attempts were refused, and which may thus have the mark of a writer.
type Refused = BTreeSet<usize>;

/// A wait for several locks that one script takes together.
struct AllLocks<'a> {
    core: &'a Arc<Core>,
    request: &'a AcquireAll,
    /// The lock in whose line it waits.
    awaited: usize,
    refused: &'a mut Refused,
}

/// Takes several locks if all of them are free now.
pub(crate) async fn try_acquire_all(
    core: &Arc<Core>,
    request: &AcquireAll,
) -> Result<TriedAll, Error> {
    core.check_serving()?;
    check_modes(core, request)?;
    let refusal = if request.request_id.is_some() {
        Refusal::Recorded
    } else {
        Refusal::Forgotten
    };
    try_once(core, request, refusal).await
}

/// Runs an acquire of several locks to its end; the caller is notified of its wait.
pub(crate) async fn acquire_all<P: Progress>(
    core: &Arc<Core>,
    request: &AcquireAll,
    progress: &mut P,
) -> Result<Result<DeliveryAll, NotGranted>, Error> {
    let deadline = end_of(request.wait);
    core.check_serving()?;
    check_modes(core, request)?;
    if request.wait == Some(Duration::ZERO) {
        return Ok(match try_once(core, request, Refusal::Forgotten).await? {
            TriedAll::Acquired(delivery) => Ok(delivery),
            TriedAll::Busy { holder, .. } => Err(NotGranted::timed_out(holder)),
        });
    }
    if is_in_order(core, request) {
        return in_order::acquire(core, request, deadline, progress).await;
    }
    let mut refused = Refused::new();
    let ended = acquire_together(core, request, deadline, progress, &mut refused).await;
    // A grant has removed the marks.
    if !matches!(ended, Ok(Ok(_))) {
        for which in refused {
            leave(core, &request.member(which, None, None));
        }
    }
    ended
}

/// Whether the locks are taken one after the other.
fn is_in_order(core: &Core, request: &AcquireAll) -> bool {
    let names = request.locks.iter().map(|(name, _)| name.store_key());
    request.locks.has_fair() || !core.scripts.takes_together(names)
}

/// Refuses a mode that the store does not support, before anything is taken.
fn check_modes(core: &Core, request: &AcquireAll) -> Result<(), Error> {
    for (name, mode) in request.locks.iter() {
        let checked = core.scripts.check_mode(mode);
        checked.map_err(|error| Error::from(error).of(name))?;
    }
    Ok(())
}

async fn try_once(
    core: &Arc<Core>,
    request: &AcquireAll,
    refusal: Refusal,
) -> Result<TriedAll, Error> {
    if is_in_order(core, request) {
        return in_order::try_acquire(core, request, refusal).await;
    }
    Ok(match attempt_all(core, request, refusal).await? {
        AttemptedAll::Granted(delivery) => TriedAll::Acquired(delivery),
        AttemptedAll::Busy { which, holder } => TriedAll::Busy {
            name: request.locks.name(which).clone(),
            holder,
        },
    })
}

/// Tries, and waits in the line of one lock that another owner holds, while it holds none.
async fn acquire_together<P: Progress>(
    core: &Arc<Core>,
    request: &AcquireAll,
    deadline: Option<Instant>,
    progress: &mut P,
    refused: &mut Refused,
) -> Result<Result<DeliveryAll, NotGranted>, Error> {
    let mut contest = AllLocks {
        core,
        request,
        awaited: 0,
        refused,
    };
    let holder = match contest.attempt_all().await? {
        AttemptedAll::Granted(delivery) => return Ok(Ok(delivery)),
        AttemptedAll::Busy { which, holder } => {
            contest.awaited = which;
            holder
        }
    };
    let stops = WaitContext::admit(core, core.session_of(&request.owner)?, deadline, progress)?;
    let (name, goal, caller) = contest.awaited();
    let place = core.waiters.join(name, goal, caller, holder, None)?;
    let mut line = queued(request, place);
    compete(core, &mut contest, &mut line, &stops).await
}

fn queued(request: &AcquireAll, place: QueueTicket) -> QueuedWait {
    if request.end_on_deadlock {
        place.end_on_deadlock();
    }
    QueuedWait::at(place)
}

// === impl AllLocks ===

impl AllLocks<'_> {
    /// The lock in whose line it waits, and who waits there.
    fn awaited(&self) -> (&LockName, Goal, (Owner, &Account)) {
        let (name, mode) = self.request.locks.get(self.awaited);
        let caller = (self.request.owner.clone(), &self.request.account);
        (name, mode.into(), caller)
    }

    async fn attempt_all(&mut self) -> Result<AttemptedAll, Error> {
        let attempted = attempt_all(self.core, self.request, Refusal::Waits).await;
        match &attempted {
            Ok(AttemptedAll::Busy { which, .. }) => drop(self.refused.insert(*which)),
            Err(Error::Store(CallError::OutcomeUnknown(_))) => {
                self.refused.extend(0..self.request.locks.len());
            }
            Ok(AttemptedAll::Granted(_)) | Err(_) => {}
        }
        attempted
    }
}

impl Contest for AllLocks<'_> {
    type Prize = DeliveryAll;

    fn state(&self, waiting: Waiting) -> WaitState {
        WaitState::OneOf(self.request.locks.name(self.awaited).clone(), waiting)
    }

    async fn attempt(&mut self, line: &mut QueuedWait) -> Result<Option<DeliveryAll>, Error> {
        match self.attempt_all().await? {
            AttemptedAll::Granted(delivery) => return Ok(Some(delivery)),
            AttemptedAll::Busy { which, holder } if which == self.awaited => {
                line.busy_until(self.core, holder, None);
            }
            AttemptedAll::Busy { which, holder } => {
                self.awaited = which;
                // The next waiter in the line that was left tries.
                let (name, goal, caller) = self.awaited();
                let place = self.core.waiters.move_to(name, goal, caller, holder)?;
                *line = queued(self.request, place);
            }
        }
        Ok(None)
    }

    fn leave(&self, line: &mut QueuedWait, delivery: &DeliveryAll) {
        line.leave_granted(delivery.holder(self.awaited));
    }
}
