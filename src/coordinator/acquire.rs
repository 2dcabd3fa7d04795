//! The life of an acquire: try, queue up, try again when there is reason to, and end in exactly one way.
//!
//! An attempt always runs to its end; only between attempts the wait looks at whether it should go on. So it may be stopped at any instant
//! and leaves neither a place in the queue nor a hold behind.

use std::{sync::Arc, time::Duration};

use rand::RngExt as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    Core,
    attempt::{Attempted, attempt},
    error::Error,
    operation::{Acquire, Answer, NotGranted, Reply, Waiting},
    session::Session,
    waiters::{Place, Standing},
};
use crate::script::{CallError, Mode, Refusal};

/// The re-check after a holder's lease comes this much later than its end, so that the store agrees that it is over.
const LEASE_OVER_MARGIN: Duration = Duration::from_millis(2);

/// What a wait does next.
enum Next {
    Try,
    Tell,
    End(Result<NotGranted, Error>),
}

/// What ends a wait from outside.
struct Stops<'a> {
    deadline: Option<Instant>,
    /// The session's stream; a token that is never cancelled without a session.
    session: CancellationToken,
    reply: &'a Reply,
}

/// A wait that its session counts.
struct CountedWait(Option<Arc<Session>>);

/// Runs an acquire to its end; the answers before the last go to `reply`.
pub(super) async fn acquire(
    core: &Arc<Core>,
    request: &Acquire,
    reply: &mut Reply,
) -> Result<Answer, Error> {
    let deadline = request
        .wait
        .and_then(|wait| Instant::now().checked_add(wait));
    if core.draining.is_cancelled() {
        return Err(Error::Draining);
    }
    if request.wait == Some(Duration::ZERO) {
        return Ok(match attempt(core, request, Refusal::Forgotten).await? {
            Attempted::Granted(delivery) => Answer::Granted(delivery),
            Attempted::Busy { holder_until, .. } => {
                Answer::NotGranted(NotGranted::timed_out(holder_until))
            }
        });
    }
    let first = attempt(core, request, Refusal::Waits).await;
    let (holder_until, place) = match first {
        Ok(Attempted::Busy {
            holder_until,
            place,
        }) => (holder_until, place),
        Ok(Attempted::Granted(delivery)) => return Ok(Answer::Granted(delivery)),
        Err(error) => {
            if let Error::Store(CallError::OutcomeUnknown(_)) = error {
                leave(core, request).await;
            }
            return Err(error);
        }
    };
    let answer = queue_up(core, request, reply, deadline, (holder_until, place)).await;
    // A grant has taken away what the wait left in the store.
    if !matches!(answer, Ok(Answer::Granted(_))) {
        leave(core, request).await;
    }
    answer
}

/// Waits in line. The place is that in the store's queue, if it is known.
async fn queue_up(
    core: &Arc<Core>,
    request: &Acquire,
    reply: &mut Reply,
    deadline: Option<Instant>,
    (holder_until, place): (Option<Instant>, Option<u32>),
) -> Result<Answer, Error> {
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
    let place = core
        .waiters
        .join(
            &request.name,
            request.mode,
            request.owner.clone(),
            holder_until,
            place,
        )
        .map_err(Error::LimitReached)?;
    reply.slot = None;
    let stops = Stops {
        deadline,
        session: stream,
        reply,
    };
    wait(core, request, place, &stops).await
}

/// Takes away what a wait has left in the store: a place in a queue, or the mark of a writer. Returns when nothing else of this owner can come in
/// between; the store is told in the background.
async fn leave(core: &Arc<Core>, request: &Acquire) {
    let (name, owner) = (&request.name, &request.owner);
    if !matches!(request.mode, Mode::Fair | Mode::Write) {
        return;
    }
    let turn = core.turns.take(name, owner).await;
    if core.waiters.others_want(name, request.mode, owner) {
        return;
    }
    let (core, request) = (Arc::clone(core), request.clone());
    core.tasks.clone().spawn("leave", async move {
        let config = core.scripts.config();
        // After that the store forgets it by itself.
        let at_most = config.fair_waiter_timeout.max(2 * config.writer_hold_back);
        let leave = || core.scripts.leave(request.hold());
        core.until_answered(at_most, leave).await;
        drop(turn);
    });
}

async fn wait(
    core: &Arc<Core>,
    request: &Acquire,
    place: Place,
    stops: &Stops<'_>,
) -> Result<Answer, Error> {
    let mut told: Option<Standing> = None;
    // Why the last attempt had no outcome; a wait rides out a store that is down, but says so if its time runs out meanwhile.
    let mut trouble: Option<CallError> = None;
    // When to try without a hint; none as long as somebody else is the head, because time spent behind it is no reason to try.
    let mut check_at = None;
    loop {
        let standing = place.standing();
        if place.is_next() {
            check_at.get_or_insert_with(|| core.check_at(standing.holder_until));
        }
        let news = told.is_none_or(|told| standing.is_news(told));
        if news && stops.reply.waiting(Waiting::from(standing)) {
            told = Some(standing);
        }
        match next(core, &place, check_at, stops).await {
            Next::Tell => continue,
            Next::End(ended) => {
                let not_granted = ended?;
                return match trouble {
                    Some(error) if not_granted.is_timeout() => Err(error.into()),
                    _ => Ok(Answer::NotGranted(not_granted)),
                };
            }
            Next::Try => {}
        }
        match attempt(core, request, Refusal::Waits).await {
            Ok(Attempted::Granted(delivery)) => {
                place.leave_granted(delivery.grant().safe_until);
                return Ok(Answer::Granted(delivery));
            }
            Ok(Attempted::Busy {
                holder_until,
                place: in_store,
            }) => {
                trouble = None;
                place.busy_until(holder_until, in_store);
                check_at = place.is_next().then(|| core.check_at(holder_until));
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

/// Waits for whatever comes first.
async fn next(core: &Core, place: &Place, check_at: Option<Instant>, stops: &Stops<'_>) -> Next {
    let deadline = stops.deadline.unwrap_or_else(Instant::now);
    tokio::select! {
        biased;
        () = stops.reply.gone() => Next::End(Ok(NotGranted::cancelled())),
        () = stops.session.cancelled() => Next::End(Err(Error::SessionNotFound)),
        () = core.draining.cancelled() => Next::End(Err(Error::Draining)),
        () = tokio::time::sleep_until(deadline), if stops.deadline.is_some() => {
            Next::End(Ok(NotGranted::timed_out(place.standing().holder_until)))
        }
        () = follow(place, check_at) => {
            if place.take_hint() || check_at.is_some_and(|at| Instant::now() >= at) {
                Next::Try
            } else {
                Next::Tell
            }
        }
    }
}

/// Resolves when there may be something to do: at once for a hint that came while nobody looked.
async fn follow(place: &Place, check_at: Option<Instant>) {
    tokio::select! {
        biased;
        () = place.news() => {}
        () = tokio::time::sleep_until(check_at.unwrap_or_else(Instant::now)), if check_at.is_some() => {}
    }
}

// === impl Core ===

impl Core {
    /// When the head of a queue tries again without a hint: when the holder's lease is over, and at the latest after the poll interval.
    fn check_at(&self, holder_until: Option<Instant>) -> Instant {
        let jitter = self.config.poll_jitter * rand::rng().random_range(-1.0..1.0);
        let poll = Instant::now() + self.config.poll_interval.mul_f64(1.0 + jitter);
        holder_until.map_or(poll, |until| poll.min(until + LEASE_OVER_MARGIN))
    }
}

// === impl CountedWait ===

impl CountedWait {
    fn begin(session: Option<Arc<Session>>, max: usize) -> Result<Self, Error> {
        if let Some(session) = &session {
            session.begin_wait(max)?;
        }
        Ok(Self(session))
    }
}

impl Drop for CountedWait {
    fn drop(&mut self) {
        if let Some(session) = &self.0 {
            session.end_wait();
        }
    }
}

impl From<Standing> for Waiting {
    fn from(standing: Standing) -> Self {
        Self {
            position: standing.position,
            holder_until: standing.holder_until,
        }
    }
}
