//! One session: its stream, its grants, and its unread notices. One short lock guards all of it,
//! and nothing here calls the store.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use lockkeeper_access::{Account, Counted};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    deadlines::{DeadlineQueue, Ticket},
    error::{Error, Limit},
    events::{Event, Events, What},
    metrics::families::{SessionTally, Shared},
    resume_token::Claims,
    session::{grants::Grants, held::Place, peer::PeerAddress},
    types::{Holding, LostReason, OnDisconnect, SessionId},
};

/// An item that is due.
#[derive(Clone, Debug)]
pub(crate) enum Due {
    /// A grant to renew, or lost.
    Grant(Arc<Session>, Place),
    /// A session whose stream broke and that nobody has resumed.
    Session(Arc<Session>),
}

/// The moments at which the watchdog must look at a grant or a session.
pub(crate) type Deadlines = DeadlineQueue<Due>;

/// One session.
#[derive(Debug)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// The lease of its watched grants.
    pub lease: Duration,
    /// Its client name.
    pub client_name: String,
    /// The effect of a broken stream on its grants.
    pub on_disconnect: OnDisconnect,
    /// Its owner; no other account can use it.
    pub account: Account,
    /// The room for its grants.
    pub(crate) grants_max: usize,
    /// How often it was resumed, at least.
    pub(crate) generation: AtomicU32,
    /// The generation of the last resume here that all coordinators have heard of.
    pub(crate) announced: AtomicU32,
    pub(crate) epoch: Instant,
    /// When this coordinator first knew it.
    pub(crate) since: Instant,
    pub(crate) events: Arc<Events>,
    pub(crate) state: Mutex<State>,
    pub(crate) news: Notify,
    pub(crate) metrics: Shared,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) phase: Phase,
    /// Its use of the quota of sessions, until it ends.
    pub(crate) counted: Counted,
    pub(crate) peer: Option<PeerAddress>,
    /// When the session is checked for a resume.
    abandoned: Option<Ticket>,
    pub(crate) grants: Grants,
    pub(crate) lost: VecDeque<(Holding, LostReason)>,
    /// Grants that were released by force, and until when their locks stay closed for it.
    pub(crate) closed: Vec<(Holding, Instant)>,
    /// Grants whose last renewal failed.
    pub(crate) failing: usize,
    /// Whether the client is to know that renewals fail, and whether it knows.
    pub(crate) at_risk: bool,
    pub(crate) told_at_risk: bool,
    /// An undelivered notice.
    pub(crate) going_away: bool,
    /// What has ended it, if its client did not.
    pub(crate) ended_by: Option<EndedBy>,
    pub(crate) waits: usize,
}

#[derive(Debug)]
pub(crate) enum EndedBy {
    /// An operator, for this reason.
    Operator(Arc<str>),
    /// A resume at another coordinator.
    Resume,
}

#[derive(Debug)]
pub(crate) enum Phase {
    /// Served by a stream.
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

// === impl Session ===

impl Session {
    pub(crate) fn new(
        id: SessionId,
        Claims {
            lease,
            on_disconnect,
            client_name,
        }: Claims,
        (account, counted): (Account, Counted),
        grants_max: usize,
        epoch: Instant,
        events: Arc<Events>,
        metrics: Shared,
    ) -> Self {
        let state = State {
            phase: Phase::Detached(epoch),
            counted,
            peer: None,
            abandoned: None,
            grants: Grants::default(),
            lost: VecDeque::new(),
            closed: Vec::new(),
            failing: 0,
            at_risk: false,
            told_at_risk: false,
            going_away: false,
            ended_by: None,
            waits: 0,
        };
        let (state, news) = (Mutex::new(state), Notify::new());
        Self {
            id,
            lease,
            client_name,
            on_disconnect,
            account,
            grants_max,
            generation: AtomicU32::new(0),
            announced: AtomicU32::new(0),
            epoch,
            since: Instant::now(),
            events,
            state,
            news,
            metrics,
        }
    }

    /// Attaches a stream, which replaces an earlier one. The token is cancelled when this stream
    /// must end. None if the session has ended.
    pub(crate) fn attach(&self, deadlines: &Deadlines) -> Option<CancellationToken> {
        let stream = CancellationToken::new();
        let mut state = self.state.lock();
        state.is_awaited_no_more(deadlines);
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
        state.ask_again();
        Some(stream)
    }

    /// The stream with this token broke: waits end, renewals stop, grants stay. False if it was no
    /// longer the session's stream.
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

    /// Schedules the end of a session whose stream broke, unless it is resumed by then. However
    /// often streams break, there is only one such deadline.
    pub(crate) fn await_resume(self: &Arc<Self>, deadlines: &Deadlines, until: Instant) {
        let mut state = self.state.lock();
        state.is_awaited_no_more(deadlines);
        if matches!(state.phase, Phase::Detached(_)) {
            state.abandoned = Some(deadlines.insert(until, Due::Session(Arc::clone(self))));
        }
    }

    /// Ends the session for good and takes its grants. None if it had ended before.
    pub(crate) fn end(&self, deadlines: &Deadlines) -> Option<Vec<Holding>> {
        let mut state = self.state.lock();
        state.end(deadlines).then_some(())?;
        let grants = self.take_grants(&mut state, deadlines);
        for grant in &grants {
            self.events
                .tell(|| Event::of(What::Released, grant).holding(0));
        }
        Some(grants)
    }

    /// Counts a resume here, of which no other coordinator has heard yet.
    pub(crate) fn count_resume(&self, generation: u32) {
        self.announced.store(0, Ordering::Relaxed);
        self.generation.fetch_max(generation, Ordering::Relaxed);
    }

    /// Ends the session here, because another coordinator has resumed it, and has its grants now.
    /// False if it was resumed here since, or had ended before. Of two resumes with the same token,
    /// that one counts which the coordinators heard of last.
    pub(crate) fn end_if_moved(&self, deadlines: &Deadlines, generation: u32) -> bool {
        let mut state = self.state.lock();
        let own = self.generation.load(Ordering::Relaxed);
        let is_announced = own > 0 && self.announced.load(Ordering::Relaxed) == own;
        let is_later = generation > own || (generation == own && is_announced);
        if !is_later || !state.end(deadlines) {
            return false;
        }
        state.ended_by = Some(EndedBy::Resume);
        self.take_grants(&mut state, deadlines);
        true
    }

    /// Ends a session that nobody resumed until `now`; its grants were left to their leases.
    pub(crate) fn end_if_abandoned(&self, deadlines: &Deadlines, now: Instant) -> bool {
        let mut state = self.state.lock();
        let abandoned = matches!(state.phase, Phase::Detached(until) if until <= now);
        if abandoned {
            state.ends();
            for grant in self.take_grants(&mut state, deadlines) {
                self.events.tell(|| Event::of(What::Abandoned, &grant));
            }
        }
        abandoned
    }

    /// Ends a session without a stream and without a reason to come back. Its client can still
    /// resume it: the token carries everything.
    pub(crate) fn end_if_empty(&self, deadlines: &Deadlines) -> bool {
        let mut state = self.state.lock();
        let is_detached = matches!(state.phase, Phase::Detached(_)) && state.abandoned.is_some();
        let is_empty = is_detached && state.grants.is_empty() && state.lost.is_empty();
        if is_empty {
            state.is_awaited_no_more(deadlines);
            state.ends();
        }
        is_empty
    }

    /// The token that ends the session's waits, or the reason why it admits none.
    pub(crate) fn live(&self) -> Result<CancellationToken, Error> {
        match &self.state.lock().phase {
            Phase::Live { waits, .. } => Ok(waits.clone()),
            Phase::Detached(_) => Err(Error::SessionDetached),
            Phase::Ended => Err(Error::SessionNotFound),
        }
    }

    /// Why its waits have ended.
    pub(crate) fn why_waits_ended(&self) -> Error {
        let state = self.state.lock();
        match (&state.phase, &state.ended_by) {
            (Phase::Ended, Some(EndedBy::Operator(reason))) => {
                Error::SessionEndedByForce(Arc::clone(reason))
            }
            (Phase::Ended, Some(EndedBy::Resume)) => Error::SessionSuperseded,
            (Phase::Ended, None) => Error::SessionNotFound,
            // It may have been resumed since.
            (Phase::Live { .. } | Phase::Detached(_), _) => Error::SessionDetached,
        }
    }

    /// Whether it was closed, or has ended here otherwise.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state.lock().phase, Phase::Ended)
    }

    /// An error if no stream serves it here.
    pub(crate) fn expect_live(&self) -> Result<(), Error> {
        self.state.lock().live()
    }

    /// Whether another coordinator may have served it before.
    pub(crate) fn was_resumed(&self) -> bool {
        self.generation.load(Ordering::Relaxed) > 0
    }

    /// Counts a wait; the caller supplies the limit.
    pub(crate) fn begin_wait(&self, max: usize) -> Result<(), Error> {
        let mut state = self.state.lock();
        if state.waits >= max {
            return Err(Error::LimitReached(Limit::WaitsPerSession));
        }
        state.waits += 1;
        Ok(())
    }

    /// Adds this session and its holdings to the tally.
    pub(crate) fn count_in(&self, tally: &mut SessionTally) {
        let state = self.state.lock();
        match state.phase {
            Phase::Live { .. } => tally.live += 1,
            Phase::Detached(_) => tally.detached += 1,
            Phase::Ended => {}
        }
        tally.grants += state.grants.len();
        tally.at_risk += usize::from(state.failing > 0);
    }

    pub(crate) fn end_wait(&self) {
        self.state.lock().waits -= 1;
    }
}

// === impl State ===

impl State {
    pub(crate) fn is_awaited_no_more(&mut self, deadlines: &Deadlines) {
        if let Some(ticket) = self.abandoned.take() {
            deadlines.remove(ticket);
        }
    }

    /// Ends the session, its stream and its waits. False if it had ended before.
    fn end(&mut self, deadlines: &Deadlines) -> bool {
        self.is_awaited_no_more(deadlines);
        match self.ends() {
            Phase::Ended => return false,
            Phase::Live { stream, waits } => {
                stream.cancel();
                waits.cancel();
            }
            Phase::Detached(_) => {}
        }
        true
    }

    /// Ends the session, which no longer counts against a quota, whatever is still done for it.
    /// Returns what it was before.
    pub(crate) fn ends(&mut self) -> Phase {
        self.counted = Counted::default();
        std::mem::replace(&mut self.phase, Phase::Ended)
    }

    pub(crate) fn live(&self) -> Result<(), Error> {
        match self.phase {
            Phase::Live { .. } => Ok(()),
            Phase::Detached(_) => Err(Error::SessionDetached),
            Phase::Ended => Err(Error::SessionNotFound),
        }
    }
}
