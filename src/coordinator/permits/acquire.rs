//! The life of an acquire of permits: as that of a lock, but whoever gets what it wants may leave
//! some for the next.

use std::{sync::Arc, time::Duration};

use lockkeeper_store::script::CallError;
use tokio::time::Instant;

use crate::{
    Core,
    acquire::{InLine, Stops},
    error::Error,
    operation::{Answer, NotGranted, Reply, Waiting},
    permits::{
        AcquirePermits, PermitAnswer, PermitsNotGranted, WaitingForPermits,
        attempt::{Attempted, attempt},
    },
    types::Goal,
    waiters::Place,
};

/// Runs an acquire to its end; the answers before the last go to `reply`.
pub(super) async fn acquire(
    core: &Arc<Core>,
    request: &AcquirePermits,
    reply: &mut Reply,
) -> Result<PermitAnswer, Error> {
    let deadline = request
        .wait
        .and_then(|wait| Instant::now().checked_add(wait));
    if core.draining.is_cancelled() {
        return Err(Error::Draining);
    }
    let (available, next_end) = match attempt(core, request, false).await? {
        Attempted::Granted(delivery) => return Ok(PermitAnswer::Granted(delivery)),
        Attempted::Busy {
            available,
            next_end,
        } => (available, next_end),
    };
    if request.wait == Some(Duration::ZERO) {
        return Ok(PermitAnswer::NotGranted(PermitsNotGranted {
            cancelled: false,
            available,
        }));
    }
    let stops = Stops::admit(core, core.session_of(&request.owner)?, deadline, reply)?;
    let owner = request.owner.clone();
    let place = core
        .waiters
        .join(&request.name, Goal::Permits, owner, next_end, None)
        .map_err(Error::LimitReached)?;
    wait(core, request, place, available, &stops).await
}

async fn wait(
    core: &Arc<Core>,
    request: &AcquirePermits,
    place: Place,
    mut available: u32,
    stops: &Stops<'_>,
) -> Result<PermitAnswer, Error> {
    let mut line = InLine::at(place);
    // Why the last attempt had no outcome; a wait rides out a store that is down, but says so if
    // its time runs out meanwhile.
    let mut trouble: Option<CallError> = None;
    loop {
        let tell = |waiting: Waiting| {
            let waiting = PermitAnswer::Waiting(WaitingForPermits {
                position: waiting.position,
                available,
                next_end: waiting.holder_until,
            });
            stops.reply.tell(Answer::Permits(waiting))
        };
        if let Some(NotGranted { cancelled, .. }) = line.until_try(core, stops, tell).await? {
            return match trouble {
                Some(error) if !cancelled => Err(error.into()),
                _ => Ok(PermitAnswer::NotGranted(PermitsNotGranted {
                    cancelled,
                    available,
                })),
            };
        }
        match attempt(core, request, false).await {
            Ok(Attempted::Granted(delivery)) => {
                line.leave_with_permits(delivery.available() == 0);
                return Ok(PermitAnswer::Granted(delivery));
            }
            Ok(Attempted::Busy {
                available: left,
                next_end,
            }) => {
                trouble = None;
                if left != available {
                    available = left;
                    line.tell_anew();
                }
                line.busy_until(core, next_end, None);
            }
            Err(Error::Store(
                error @ (CallError::Unavailable(_) | CallError::OutcomeUnknown(_)),
            )) => {
                trouble = Some(error);
                line.no_outcome(core);
            }
            Err(error) => return Err(error),
        }
    }
}
