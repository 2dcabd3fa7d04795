//! The life of an acquire of permits: as that of a lock, but whoever gets what it wants may leave some for the next.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        Core,
        acquire::{CountedWait, Next, Stops, next},
        error::Error,
        operation::{Answer, Reply},
        waiters::{Goal, Place, Standing},
    },
    AcquirePermits, PermitAnswer, PermitsNotGranted, WaitingForPermits,
    attempt::{Attempted, attempt},
};
use crate::script::CallError;

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
    let session = request
        .owner
        .session
        .as_ref()
        .map(|id| core.sessions.get(id))
        .transpose()?;
    let stream = session
        .as_ref()
        .map_or_else(|| Ok(CancellationToken::new()), |s| s.live())?;
    let _counted = CountedWait::begin(session, core.config.limits.waits_per_session_max)?;
    let owner = request.owner.clone();
    let place = core
        .waiters
        .join(&request.name, Goal::Permits, owner, next_end, None)
        .map_err(Error::LimitReached)?;
    reply.slot = None;
    let stops = Stops {
        deadline,
        session: stream,
        reply,
    };
    wait(core, request, place, available, &stops).await
}

async fn wait(
    core: &Arc<Core>,
    request: &AcquirePermits,
    place: Place,
    mut available: u32,
    stops: &Stops<'_>,
) -> Result<PermitAnswer, Error> {
    let mut told: Option<(Standing, u32)> = None;
    // Why the last attempt had no outcome; a wait rides out a store that is down, but says so if its time runs out meanwhile.
    let mut trouble: Option<CallError> = None;
    let mut check_at = None;
    loop {
        let standing = place.standing();
        if place.is_next() {
            check_at.get_or_insert_with(|| core.check_at(standing.holder_until));
        }
        let news = told.is_none_or(|(before, seen)| standing.is_news(before) || seen != available);
        let waiting = WaitingForPermits {
            position: standing.position,
            available,
            next_end: standing.holder_until,
        };
        if news
            && stops
                .reply
                .tell(Answer::Permits(PermitAnswer::Waiting(waiting)))
        {
            told = Some((standing, available));
        }
        match next(core, &place, check_at, stops).await {
            Next::Tell => continue,
            Next::End(ended) => {
                let cancelled = ended?.cancelled;
                return match trouble {
                    Some(error) if !cancelled => Err(error.into()),
                    _ => Ok(PermitAnswer::NotGranted(PermitsNotGranted {
                        cancelled,
                        available,
                    })),
                };
            }
            Next::Try => {}
        }
        match attempt(core, request, false).await {
            Ok(Attempted::Granted(delivery)) => {
                place.leave_with_permits(delivery.available() == 0);
                return Ok(PermitAnswer::Granted(delivery));
            }
            Ok(Attempted::Busy {
                available: left,
                next_end,
            }) => {
                trouble = None;
                available = left;
                place.busy_until(next_end, None);
                check_at = Some(core.check_at(next_end));
            }
            Err(Error::Store(
                error @ (CallError::Unavailable(_) | CallError::OutcomeUnknown(_)),
            )) => {
                trouble = Some(error);
                check_at = Some(core.check_at(None));
            }
            Err(error) => return Err(error),
        }
    }
}
