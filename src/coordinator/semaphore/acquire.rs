//! The life of an acquire of permits: like that of a lock, but a granted waiter may leave permits
//! for the next.

use std::{sync::Arc, time::Duration};

use crate::{
    core::Core,
    error::Error,
    lock::outcome::Waiting,
    progress::{Progress, WaitState},
    semaphore::{
        attempt::{Attempted, PermitDelivery, attempt},
        outcome::{PermitsNotGranted, TriedPermits, WaitingForPermits},
        request::AcquirePermits,
    },
    types::{Goal, WaitEnd},
    wait::{Contest, QueuedWait, WaitContext, compete, end_of},
};

/// A wait for permits.
struct Permits<'a> {
    core: &'a Arc<Core>,
    request: &'a AcquirePermits,
    /// Free permits when the store was last asked.
    available: u32,
}

/// Takes permits if they are free now.
pub(crate) async fn try_acquire(
    core: &Arc<Core>,
    request: &AcquirePermits,
) -> Result<TriedPermits, Error> {
    core.check_serving()?;
    let record_refusal = request.request_id.is_some();
    Ok(match attempt(core, request, record_refusal).await? {
        Attempted::Granted(delivery) => TriedPermits::Acquired(delivery),
        Attempted::Busy { available, .. } => TriedPermits::Busy { available },
    })
}

/// Runs an acquire to its end and notifies the caller of its wait.
pub(crate) async fn acquire<P: Progress>(
    core: &Arc<Core>,
    request: &AcquirePermits,
    progress: &mut P,
) -> Result<Result<PermitDelivery, PermitsNotGranted>, Error> {
    let deadline = end_of(request.wait);
    core.check_serving()?;
    let (available, next_end) = match attempt(core, request, false).await? {
        Attempted::Granted(delivery) => return Ok(Ok(delivery)),
        Attempted::Busy {
            available,
            next_end,
        } => (available, next_end),
    };
    if request.wait == Some(Duration::ZERO) {
        return Ok(Err(PermitsNotGranted {
            why: WaitEnd::TimedOut,
            available,
        }));
    }
    let stops = WaitContext::admit(core, core.session_of(&request.owner)?, deadline, progress)?;
    let caller = (request.owner.clone(), &request.account);
    let place = core
        .waiters
        .join(&request.name, Goal::Permits, caller, next_end.into(), None)?;
    let mut permits = Permits {
        core,
        request,
        available,
    };
    let ended = compete(core, &mut permits, &mut QueuedWait::at(place), &stops).await?;
    Ok(ended.map_err(|ended| PermitsNotGranted {
        why: ended.why,
        available: permits.available,
    }))
}

// === impl Permits ===

impl Contest for Permits<'_> {
    type Prize = PermitDelivery;

    fn state(&self, waiting: Waiting) -> WaitState {
        WaitState::Permits(WaitingForPermits {
            position: waiting.position,
            available: self.available,
            next_end: waiting.holder.until,
        })
    }

    async fn attempt(&mut self, line: &mut QueuedWait) -> Result<Option<PermitDelivery>, Error> {
        match attempt(self.core, self.request, false).await? {
            Attempted::Granted(delivery) => Ok(Some(delivery)),
            Attempted::Busy {
                available,
                next_end,
            } => {
                if available != self.available {
                    self.available = available;
                    line.notify_anew();
                }
                line.busy_until(self.core, next_end.into(), None);
                Ok(None)
            }
        }
    }

    fn leave(&self, line: &mut QueuedWait, delivery: &PermitDelivery) {
        line.leave_with_permits(delivery.available() == 0);
    }
}
