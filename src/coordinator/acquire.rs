//! The life of an acquire: try, queue up, try again when there is reason to, and end in exactly one
//! way.
//!
//! An attempt always runs to its end; only between attempts the wait looks at whether it should go
//! on. So it may be stopped at any instant and leaves neither a place in the queue nor a hold
//! behind.

use std::{sync::Arc, time::Duration};

use futures::FutureExt as _;
use lockkeeper_access::{Counted, Quota};
use lockkeeper_store::script::{CallError, Mode, Refusal};
use rand::RngExt as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Span;

use super::attempt::{Attempted, attempt};
use crate::{
    Core,
    error::Error,
    metrics::Source,
    operation::{Acquire, Answer, NotGranted, Reply, Waiting},
    session::Session,
    spans,
    types::GrantKey,
    waiters::{Place, Standing, hand_on::Awaited},
};

/// The re-check after a holder's lease comes this much later than its end, so that the store agrees
/// that it is over.
const LEASE_OVER_MARGIN: Duration = Duration::from_millis(2);

/// What a wait does next.
pub(super) enum Next {
    Try,
    Tell,
    End(Result<NotGranted, Error>),
}

/// What ends a wait from outside.
pub(super) struct Stops<'a> {
    pub(super) deadline: Option<Instant>,
    /// Ends with the session's stream; none without a session.
    session: Option<CancellationToken>,
    pub(super) reply: &'a Reply,
    _counted: CountedWait,
    span: Span,
}

/// A wait at its place in a line.
pub(super) struct InLine {
    place: Place,
    told: Option<Standing>,
    /// When to try without a hint; none as long as somebody else is the head, because time spent
    /// behind it is no reason to try.
    check_at: Option<Instant>,
}

/// A wait that its session counts, and its caller's account.
struct CountedWait {
    session: Option<Arc<Session>>,
    _counted: Counted,
}

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
        let only = Box::pin(attempt(core, request, Refusal::Forgotten, None));
        return Ok(match only.await? {
            Attempted::Granted(delivery) => Answer::Granted(delivery),
            Attempted::Busy { holder_until, .. } => {
                Answer::NotGranted(NotGranted::timed_out(holder_until))
            }
        });
    }
    if let Some(Awaited { holder_until }) = behind_others(core, request) {
        return queue_up(core, request, reply, deadline, (holder_until, None)).await;
    }
    // Attempts are in boxes, so that nothing is left of them while the call waits.
    let first = Box::pin(attempt(core, request, Refusal::Waits, None)).await;
    let (holder_until, place) = match first {
        Ok(Attempted::Busy {
            holder_until,
            place,
        }) => (holder_until, place),
        Ok(Attempted::Granted(delivery)) => return Ok(Answer::Granted(delivery)),
        Err(error) => {
            if let Error::Store(store) = &error
                && core.scripts.may_have_run(store)
            {
                leave(core, request);
            }
            return Err(error);
        }
    };
    let answer = queue_up(core, request, reply, deadline, (holder_until, place)).await;
    // A grant has taken away what the wait left in the store.
    if !matches!(answer, Ok(Answer::Granted(_))) {
        leave(core, request);
    }
    answer
}

/// Whether an attempt could only push in, because others wait here for the same exclusive lock and
/// the owner does not hold it; then what they know.
fn behind_others(core: &Core, request: &Acquire) -> Option<Awaited> {
    let Acquire { name, owner, .. } = request;
    if request.mode != Mode::Exclusive || request.request_id.is_some() {
        return None;
    }
    let awaited = core.waiters.awaited(name)?;
    if !owner.is_new() {
        let session = core.session_of(owner).ok()??;
        // Whoever has the owner's turn may be getting the lock for it.
        let _turn = core.turns.take(name, owner).now_or_never()?;
        let key = GrantKey::new(name, request.mode, &owner.label);
        let known = session.holds(&key, core.config.limits.grants_per_session_max);
        known.ok().filter(|(holds, _)| *holds == 0)?;
    }
    Some(awaited)
}

/// Waits in line. The place is that in the store's queue, if it is known.
async fn queue_up(
    core: &Arc<Core>,
    request: &Acquire,
    reply: &mut Reply,
    deadline: Option<Instant>,
    (holder_until, place): (Option<Instant>, Option<u32>),
) -> Result<Answer, Error> {
    let stops = Stops::admit(core, core.session_of(&request.owner)?, deadline, reply)?;
    let place = core
        .waiters
        .join(
            &request.name,
            request.mode.into(),
            request.owner.clone(),
            holder_until,
            place,
        )
        .map_err(Error::LimitReached)?;
    wait(core, request, place, &stops).await
}

/// Takes away what a wait has left in the store: a place in a queue, or the mark of a writer. The
/// store is told in the background, in the owner's turn: nothing that the owner asks for after this
/// comes before it.
pub(super) fn leave(core: &Arc<Core>, request: &Acquire) {
    if !matches!(request.mode, Mode::Fair | Mode::Write) {
        return;
    }
    let (core, request) = (Arc::clone(core), request.clone());
    let turns = Arc::clone(&core.turns);
    let (name, owner) = (request.name.clone(), request.owner.clone());
    let mut turn = Box::pin(async move { turns.take(&name, &owner).await });
    // Asks for the turn now, and waits for it in the background: an attempt that is in doubt may
    // have it for long.
    let at_once = turn.as_mut().now_or_never();
    core.tasks.clone().spawn("leave", async move {
        let turn = match at_once {
            Some(turn) => turn,
            None => turn.await,
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
        drop(turn);
    });
}

async fn wait(
    core: &Arc<Core>,
    request: &Acquire,
    place: Place,
    stops: &Stops<'_>,
) -> Result<Answer, Error> {
    let mut line = InLine::at(place);
    if request.request_id.is_none() && request.owner.holds_are_known() {
        line.place.take_offers();
    }
    // Why the last attempt had no outcome; a wait rides out a store that is down, but says so if
    // its time runs out meanwhile.
    let mut trouble: Option<CallError> = None;
    loop {
        let tell = |waiting| stops.reply.waiting(waiting);
        if let Some(ended) = line.until_try(core, stops, tell).await? {
            return ended_in(trouble, ended);
        }
        let from = Some(&line.place);
        match Box::pin(attempt(core, request, Refusal::Waits, from)).await {
            Ok(Attempted::Granted(delivery)) => {
                line.leave_granted(delivery.grant().safe_until);
                return Ok(Answer::Granted(delivery));
            }
            Ok(Attempted::Busy {
                holder_until,
                place,
            }) => {
                trouble = None;
                line.busy_until(core, holder_until, place);
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

/// The answer of a wait that ended without a grant, in trouble if its last attempt had no outcome.
pub(super) fn ended_in(trouble: Option<CallError>, ended: NotGranted) -> Result<Answer, Error> {
    match trouble {
        Some(error) if ended.is_timeout() => Err(error.into()),
        _ => Ok(Answer::NotGranted(ended)),
    }
}

/// Waits for whatever comes first.
pub(super) async fn next(
    core: &Core,
    place: &Place,
    check_at: Option<Instant>,
    stops: &Stops<'_>,
) -> Next {
    let timer = check_at.into_iter().chain(stops.deadline).min();
    let time_is_up = || stops.deadline.is_some_and(|at| Instant::now() >= at);
    tokio::select! {
        biased;
        () = stops.reply.gone() => Next::End(Ok(NotGranted::cancelled())),
        () = stops.session_ended() => Next::End(Err(Error::SessionNotFound)),
        () = core.draining.cancelled() => Next::End(Err(Error::Draining)),
        () = elapsed(timer), if timer.is_some() => {
            if time_is_up() {
                Next::End(Ok(NotGranted::timed_out(place.standing().holder_until)))
            } else {
                let over = place.standing().holder_until;
                let is_over = over.is_some_and(|until| Instant::now() >= until);
                let source = if is_over { Source::LeaseEnd } else { Source::Poll };
                core.metrics.woken(source);
                // A hint that came meanwhile is followed as well.
                place.begin_try();
                Next::Try
            }
        }
        // At once for a hint that came while nobody looked.
        () = place.news() => if place.follows_hint() { Next::Try } else { Next::Tell },
    }
}

/// Resolves at that moment. Its timer is in a box, because most of those who wait have none.
async fn elapsed(at: Option<Instant>) {
    match at {
        Some(at) => Box::pin(tokio::time::sleep_until(at)).await,
        None => std::future::pending().await,
    }
}

// === impl Core ===

impl Core {
    /// When the head of a queue tries again without a hint: when the holder's lease is over, and at
    /// the latest after the poll interval.
    pub(super) fn check_at(&self, holder_until: Option<Instant>) -> Instant {
        let jitter = self.config.poll_jitter * rand::rng().random_range(-1.0..1.0);
        let poll = Instant::now() + self.config.poll_interval.mul_f64(1.0 + jitter);
        holder_until.map_or(poll, |until| poll.min(until + LEASE_OVER_MARGIN))
    }
}

// === impl Stops ===

impl<'a> Stops<'a> {
    /// Lets a wait begin: its session, if it has one, must live, and counts it from now on. It no
    /// longer counts as a short operation.
    pub(super) fn admit(
        core: &Core,
        session: Option<Arc<Session>>,
        deadline: Option<Instant>,
        reply: &'a mut Reply,
    ) -> Result<Self, Error> {
        let stream = session.as_ref().map(|session| session.live()).transpose()?;
        let counted = CountedWait::begin(session, core.config.limits.waits_per_session_max, reply)?;
        reply.slot = None;
        Ok(Self {
            deadline,
            session: stream,
            reply,
            _counted: counted,
            span: spans::of_wait(),
        })
    }

    async fn session_ended(&self) {
        match &self.session {
            Some(session) => session.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

// === impl InLine ===

impl InLine {
    pub(super) fn at(place: Place) -> Self {
        Self {
            place,
            told: None,
            check_at: None,
        }
    }

    /// Waits until there is reason to try, and tells of the wait meanwhile; `tell` says whether it
    /// could. Otherwise how the wait ended.
    pub(super) async fn until_try(
        &mut self,
        core: &Core,
        stops: &Stops<'_>,
        tell: impl Fn(Waiting) -> bool,
    ) -> Result<Option<NotGranted>, Error> {
        loop {
            let standing = self.place.standing();
            if self.place.is_next() {
                self.check_at
                    .get_or_insert_with(|| core.check_at(standing.holder_until));
            }
            let news = self.told.is_none_or(|told| standing.is_news(told));
            if news && tell(Waiting::from(standing)) {
                stops
                    .span
                    .record("lockkeeper.wait.position", standing.position);
                self.told = Some(standing);
            }
            match next(core, &self.place, self.check_at, stops).await {
                Next::Tell => {}
                Next::End(ended) => return ended.map(Some),
                Next::Try => return Ok(None),
            }
        }
    }

    /// An attempt found the lock held until then, and its own place in the store's queue if that is
    /// known.
    pub(super) fn busy_until(
        &mut self,
        core: &Core,
        holder_until: Option<Instant>,
        place: Option<u32>,
    ) {
        self.place.busy_until(holder_until, place);
        self.check_at = self.place.is_next().then(|| core.check_at(holder_until));
    }

    /// An attempt had no outcome.
    pub(super) fn no_outcome(&mut self, core: &Core) {
        self.place.no_outcome();
        self.check_at = Some(core.check_at(None));
    }

    /// There is something new to tell, although the standing is the same.
    pub(super) fn tell_anew(&mut self) {
        self.told = None;
    }

    /// Leaves with the lock, which is held until then at the least.
    pub(super) fn leave_granted(self, holder_until: Instant) {
        self.place.leave_granted(holder_until);
    }

    /// Leaves with permits, after which none are left if `took_all`.
    pub(super) fn leave_with_permits(self, took_all: bool) {
        self.place.leave_with_permits(took_all);
    }
}

// === impl CountedWait ===

impl CountedWait {
    fn begin(session: Option<Arc<Session>>, max: usize, reply: &Reply) -> Result<Self, Error> {
        let counted = reply.account.count(Quota::Waiters)?;
        if let Some(session) = &session {
            session.begin_wait(max)?;
        }
        Ok(Self {
            session,
            _counted: counted,
        })
    }
}

impl Drop for CountedWait {
    fn drop(&mut self) {
        if let Some(session) = &self.session {
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
