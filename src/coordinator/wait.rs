//! The wait loop shared by all waits: what ends a wait, and when it tries.

use std::{future::Future, sync::Arc, time::Duration};

use lockkeeper_access::{Counted, Quota};
use lockkeeper_base::spans::TARGET;
use lockkeeper_store::script::CallError;
use rand::RngExt as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Span, field::Empty, trace_span};

use crate::{
    core::Core,
    error::Error,
    lock::outcome::{NotGranted, Waiting},
    metrics::labels::Source,
    progress::{Progress, WaitState},
    session::session::Session,
    types::HolderKnown,
    waiters::{place::QueueStatus, queue::QueueTicket},
};

/// Delay of the re-check after the end of a holder's lease, so that the store agrees that it is
/// over.
const LEASE_OVER_MARGIN: Duration = Duration::from_millis(2);

/// The pause before the last step of a wait is tried again.
const STEP_RETRY: Duration = Duration::from_millis(200);

/// What a wait does next.
pub(crate) enum Next {
    Try,
    Notify,
    End(Result<NotGranted, Error>),
}

/// What ends a wait from outside.
pub(crate) struct WaitContext<'a, P> {
    pub(crate) deadline: Option<Instant>,
    /// Cancelled with the session's stream; none without a session.
    session: Option<CancellationToken>,
    pub(crate) progress: &'a P,
    counted: CountedWait,
    span: Span,
}

/// A wait with its ticket in a line.
pub(crate) struct QueuedWait {
    pub(crate) place: QueueTicket,
    notified: Option<QueueStatus>,
    /// When to try without a hint. None unless this waiter is the head: time spent behind another
    /// head is no reason to try.
    check_at: Option<Instant>,
}

/// What a wait competes for: a lock, several locks, permits.
pub(crate) trait Contest: Send {
    /// What a successful attempt gets.
    type Prize: Send;

    /// The state that the caller is notified of.
    fn state(&self, waiting: Waiting) -> WaitState;

    /// Makes one attempt. None if it was refused; the line then knows.
    fn attempt(
        &mut self,
        line: &mut QueuedWait,
    ) -> impl Future<Output = Result<Option<Self::Prize>, Error>> + Send;

    /// Leaves the line with the prize.
    fn leave(&self, line: &mut QueuedWait, prize: &Self::Prize);
}

/// A wait that counts against its session and its caller's account.
struct CountedWait {
    session: Option<Arc<Session>>,
    _counted: Counted,
}

/// Tries whenever there is reason to, until an attempt succeeds or the wait ends without a grant.
pub(crate) async fn compete<C: Contest, P: Progress>(
    core: &Core,
    contest: &mut C,
    line: &mut QueuedWait,
    stops: &WaitContext<'_, P>,
) -> Result<Result<C::Prize, NotGranted>, Error> {
    // Boxed, because waits are many and trouble is rare.
    let mut trouble: Option<Box<CallError>> = None;
    loop {
        if let Some(end) = line.until_try(core, stops, |it| contest.state(it)).await? {
            return ended(end, trouble.map(|it| *it)).map(Err);
        }
        // Boxed, so that nothing of it remains while the call waits.
        match Box::pin(contest.attempt(line)).await {
            Ok(Some(prize)) => {
                contest.leave(line, &prize);
                return Ok(Ok(prize));
            }
            Ok(None) => trouble = None,
            Err(Error::Store(error)) if error.is_transient() => {
                trouble = Some(Box::new(error));
                line.no_outcome(core);
            }
            Err(error) => return Err(error),
        }
    }
}

/// When a wait that begins now is to end; none if never.
pub(crate) fn end_of(wait: Option<Duration>) -> Option<Instant> {
    wait.and_then(|wait| Instant::now().checked_add(wait))
}

/// How a wait ends. It rides out a store that is down, but reports why its last attempt had no
/// outcome if the deadline passes meanwhile.
pub(crate) fn ended(ended: NotGranted, trouble: Option<CallError>) -> Result<NotGranted, Error> {
    match trouble {
        Some(error) if ended.is_timeout() => Err(error.into()),
        _ => Ok(ended),
    }
}

/// Waits for the first event.
pub(crate) async fn next<P: Progress>(
    core: &Core,
    place: &QueueTicket,
    check_at: Option<Instant>,
    stops: &WaitContext<'_, P>,
) -> Next {
    let timer = check_at.into_iter().chain(stops.deadline).min();
    let time_is_up = || stops.deadline.is_some_and(|at| Instant::now() >= at);
    tokio::select! {
        biased;
        // As in `stopped`, whose future would take more memory in each waiting call.
        () = stops.progress.gone() => Next::End(Ok(NotGranted::cancelled())),
        () = stops.session_ended() => Next::End(Err(stops.why_session_ended())),
        () = core.draining.cancelled() => Next::End(Err(Error::Draining)),
        () = elapsed(timer), if timer.is_some() => {
            if time_is_up() {
                Next::End(Ok(NotGranted::timed_out(place.standing().holder)))
            } else {
                let over = place.standing().holder.until;
                let is_over = over.is_some_and(|until| Instant::now() >= until);
                let source = if is_over { Source::LeaseEnd } else { Source::Poll };
                core.metrics.woken(source);
                // A hint that arrived meanwhile is followed too.
                place.begin_try();
                Next::Try
            }
        }
        // Resolves at once for a hint that arrived while nobody looked.
        () = place.news() => if place.has_ended_in_deadlock() {
            Next::End(Ok(NotGranted::deadlock(place.standing().holder)))
        } else if place.follows_hint() {
            Next::Try
        } else {
            Next::Notify
        },
    }
}

/// Pauses before the last step of a wait is tried again, if the store did not answer, until that
/// time at most: the caller has waited for what it holds by then, and would lose its place. Fails
/// if there is no more attempt. False if the caller goes away.
pub(crate) async fn try_again<P: Progress>(
    core: &Core,
    progress: &P,
    until: Instant,
    error: Error,
) -> Result<bool, Error> {
    let passes = matches!(&error, Error::Store(error) if error.is_transient());
    let retry = Instant::now() + STEP_RETRY;
    if !passes || retry >= until {
        return Err(error);
    }
    tokio::select! {
        biased;
        () = progress.gone() => Ok(false),
        () = core.draining.cancelled() => Err(Error::Draining),
        () = tokio::time::sleep_until(retry) => Ok(true),
    }
}

/// Resolves at that moment. The timer is boxed, because most waiters have none.
async fn elapsed(at: Option<Instant>) {
    match at {
        Some(at) => Box::pin(tokio::time::sleep_until(at)).await,
        None => std::future::pending().await,
    }
}

// === impl Core ===

impl Core {
    /// When the head of a line retries without a hint: when the holder's lease is over, and after
    /// the poll interval at the latest.
    pub(crate) fn check_at(&self, holder_until: Option<Instant>) -> Instant {
        let jitter = self.config.poll_jitter * rand::rng().random_range(-1.0..1.0);
        let poll = Instant::now() + self.config.poll_interval.mul_f64(1.0 + jitter);
        holder_until.map_or(poll, |until| poll.min(until + LEASE_OVER_MARGIN))
    }
}

// === impl WaitContext ===

impl<'a, P: Progress> WaitContext<'a, P> {
    /// Admits a wait: its session, if any, must be live, and counts the wait. The wait no longer
    /// counts as a short operation.
    pub(crate) fn admit(
        core: &Core,
        session: Option<Arc<Session>>,
        deadline: Option<Instant>,
        progress: &'a mut P,
    ) -> Result<Self, Error> {
        let stream = session.as_ref().map(|session| session.live()).transpose()?;
        let max = core.config.limits.waits_per_session_max;
        let counted = CountedWait::begin(session, max, progress)?;
        progress.begin_wait();
        Ok(Self {
            deadline,
            session: stream,
            progress,
            counted,
            span: trace_span!(target: TARGET, "wait", lockkeeper.wait.position = Empty),
        })
    }

    /// Resolves when the wait is to end before its deadline.
    pub(crate) async fn stopped(&self, core: &Core) -> Result<NotGranted, Error> {
        tokio::select! {
            biased;
            () = self.progress.gone() => Ok(NotGranted::cancelled()),
            () = self.session_ended() => Err(self.why_session_ended()),
            () = core.draining.cancelled() => Err(Error::Draining),
        }
    }

    /// Resolves at the deadline.
    pub(crate) async fn timed_out(&self) {
        elapsed(self.deadline).await;
    }

    async fn session_ended(&self) {
        match &self.session {
            Some(session) => session.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// What its session answers to further calls.
    fn why_session_ended(&self) -> Error {
        let session = self.counted.session.as_ref();
        session.map_or(Error::SessionNotFound, |it| it.why_waits_ended())
    }
}

// === impl QueuedWait ===

impl QueuedWait {
    pub(crate) fn at(place: QueueTicket) -> Self {
        Self {
            place,
            notified: None,
            check_at: None,
        }
    }

    /// Waits until there is reason to try, and notifies the caller meanwhile. Otherwise returns how
    /// the wait ended.
    async fn until_try<P: Progress>(
        &mut self,
        core: &Core,
        stops: &WaitContext<'_, P>,
        state: impl Fn(Waiting) -> WaitState,
    ) -> Result<Option<NotGranted>, Error> {
        loop {
            self.notify(core, stops, &state);
            match next(core, &self.place, self.check_at, stops).await {
                Next::Notify => {}
                Next::End(ended) => return ended.map(Some),
                Next::Try => return Ok(None),
            }
        }
    }

    /// Notifies the caller if there is news. Not part of the future that waits.
    fn notify<P: Progress>(
        &mut self,
        core: &Core,
        stops: &WaitContext<'_, P>,
        state: impl Fn(Waiting) -> WaitState,
    ) {
        let standing = self.place.standing();
        if self.place.is_next() {
            self.check_at
                .get_or_insert_with(|| core.check_at(standing.holder.until));
        }
        let news = self
            .notified
            .as_ref()
            .is_none_or(|notified| standing.is_news(notified));
        if news && stops.progress.notify(state(standing.clone().into())) {
            stops
                .span
                .record("lockkeeper.wait.position", standing.position);
            self.notified = Some(standing);
        }
    }

    /// An attempt found the lock held until then; `place` is the position in the store's queue, if
    /// known.
    pub(crate) fn busy_until(&mut self, core: &Core, holder: HolderKnown, place: Option<u32>) {
        let until = holder.until;
        self.place.busy_until(holder, place);
        self.check_at = self.place.is_next().then(|| core.check_at(until));
    }

    /// An attempt had no outcome.
    fn no_outcome(&mut self, core: &Core) {
        self.place.no_outcome();
        self.check_at = Some(core.check_at(None));
    }

    /// Forces a new notification, although the status is unchanged.
    pub(crate) fn notify_anew(&mut self) {
        self.notified = None;
    }

    /// Leaves the line with the lock, as its holder.
    pub(crate) fn leave_granted(&mut self, holder: HolderKnown) {
        self.place.leave_granted(holder);
    }

    /// Leaves the line with permits; none are left if `took_all`.
    pub(crate) fn leave_with_permits(&mut self, took_all: bool) {
        self.place.leave_with_permits(took_all);
    }
}

// === impl CountedWait ===

impl CountedWait {
    fn begin<P: Progress>(
        session: Option<Arc<Session>>,
        max: usize,
        progress: &P,
    ) -> Result<Self, Error> {
        let counted = progress.account().count(Quota::Waiters, 1)?;
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

impl From<QueueStatus> for Waiting {
    fn from(standing: QueueStatus) -> Self {
        Self {
            position: standing.position,
            holder: standing.holder,
        }
    }
}
