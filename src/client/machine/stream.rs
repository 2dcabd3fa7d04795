//! The state of the stream: which endpoint it uses, and how it is opened and resumed there or at
//! the next.

use std::{sync::Arc, time::Duration};

use lockkeeper_api::pb::{
    Grant, OpenSession, PermitGrant, Ping, ResumeSession, SessionOpened, session_request::Request,
};
use rand::{RngExt as _, rngs::StdRng};
use tokio::time::Instant;
use tonic::{Code, Status};

use super::{event::Effect, operation::frame};
use crate::{Address, Error, duration::to_std, error};

/// The time limit of an attempt to open.
pub(super) const OPEN_TIMEOUT: Duration = Duration::from_secs(6);

/// The time limit of the first attempts to resume; a coordinator that does not answer may hide one
/// that would.
pub(super) const RESUME_TIMEOUT: Duration = Duration::from_secs(2);

/// The pause after each endpoint has been tried.
pub(super) const BACKOFF_MIN: Duration = Duration::from_millis(50);
pub(super) const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// Spreads the sessions of a coordinator that died.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// How long a coordinator that goes away may take to end the stream, with the answers that it still
/// has.
pub(super) const LEAVE_TIMEOUT: Duration = Duration::from_millis(500);

/// The lease that is assumed before it is known.
const LEASE_DEFAULT: Duration = Duration::from_secs(30);

/// The stream of a session. See the module.
#[derive(Debug)]
pub(super) struct Stream {
    addresses: Arc<[Address]>,
    /// The endpoint in use, or the next to try.
    endpoint: usize,
    open: OpenSession,
    /// How the session is resumed, once it is open.
    session: Option<ResumeSession>,
    pub(super) lease: Duration,
    /// How long a stream may be silent before a ping. `None`: the coordinator answers no pings.
    ping_interval: Option<Duration>,
    pub(super) state: State,
    failed: FailedAttempts,
    /// When the last stream opened.
    opened_at: Instant,
    /// Streams that ended since the last progress: an answer, or a stream that lasted.
    fruitless: usize,
    /// Where the last attempt failed or the last stream broke, and why.
    fault: (Address, String),
    /// The session ends if it is not resumed before.
    resume_deadline: Option<Instant>,
    random: StdRng,
}

/// The states of a stream.
#[derive(Debug)]
pub(super) enum State {
    Up {
        /// When the last frame arrived, or a ping was sent since.
        heard_at: Instant,
        is_pinged: bool,
        /// When to leave a coordinator that goes away.
        leave_at: Option<Instant>,
        /// Whether the coordinator was asked to close the session.
        is_closing: bool,
    },
    Down {
        retry_at: Instant,
    },
    Opening {
        /// From before anything was sent.
        sent_at: Instant,
        deadline: Instant,
    },
    Ended {
        why: String,
    },
}

/// Failed attempts in a row.
#[derive(Clone, Copy, Debug, Default)]
struct FailedAttempts {
    count: usize,
    /// The last of them, whose coordinators refuse the session for good.
    refused: usize,
}

/// What the time asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// To open or to resume the session.
    Connect,
    /// To give up an attempt.
    GiveUp,
    Ping,
    /// To leave a coordinator that goes away or does not answer a ping.
    Leave,
    /// To end the session: no coordinator could be reached for as long as the lease.
    End,
}

// === impl Stream ===

impl Stream {
    /// A stream that is to be opened now. There is at least one address.
    pub(super) fn new(
        now: Instant,
        addresses: Arc<[Address]>,
        open: OpenSession,
        random: StdRng,
    ) -> Self {
        let lease = open.lease.map(|it| to_std(Some(it)));
        Self {
            endpoint: 0,
            fault: (addresses[0].clone(), "it has not answered yet".to_owned()),
            addresses,
            open,
            session: None,
            lease: lease.unwrap_or(LEASE_DEFAULT),
            ping_interval: None,
            state: State::Down { retry_at: now },
            failed: FailedAttempts::default(),
            opened_at: now,
            fruitless: 0,
            resume_deadline: None,
            random,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    /// Whether operations can be sent.
    pub(super) fn can_send(&self) -> bool {
        let State::Up {
            leave_at,
            is_closing,
            ..
        } = self.state
        else {
            return false;
        };
        leave_at.is_none() && !is_closing
    }

    pub(super) fn ended(&self) -> Option<&str> {
        match &self.state {
            State::Ended { why } => Some(why),
            _ => None,
        }
    }

    /// Whether the session was never open.
    pub(super) fn is_new(&self) -> bool {
        self.session.is_none()
    }

    fn address(&self) -> &Address {
        &self.addresses[self.endpoint % self.addresses.len()]
    }

    /// The error of this endpoint.
    pub(super) fn unreachable(&self, cause: &str) -> Error {
        Error::Unreachable {
            address: self.address().clone(),
            cause: cause.to_owned(),
        }
    }

    /// The error of a wait that ends without a stream.
    pub(super) fn last_fault(&self) -> Error {
        let (address, cause) = self.fault.clone();
        Error::Unreachable { address, cause }
    }

    /// When silence is due to be broken by a ping, or to end the stream.
    fn silent_until(&self) -> Option<Instant> {
        let State::Up {
            heard_at,
            is_pinged,
            ..
        } = self.state
        else {
            return None;
        };
        let interval = self.ping_interval.filter(|_| is_pinged || self.can_send());
        interval.map(|it| heard_at + it)
    }

    /// When something becomes [`due`](Self::due).
    pub(super) fn wake_at(&self) -> Option<Instant> {
        let state = match self.state {
            State::Up { leave_at, .. } => leave_at,
            State::Down { retry_at } => Some(retry_at),
            State::Opening { deadline, .. } => Some(deadline),
            State::Ended { .. } => return None,
        };
        let all = [state, self.silent_until(), self.resume_deadline];
        all.into_iter().flatten().min()
    }

    pub(super) fn due(&self, now: Instant) -> Due {
        let is_past = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        match self.state {
            State::Ended { .. } => Due::Nothing,
            _ if is_past(self.resume_deadline) => Due::End,
            State::Down { retry_at } if retry_at <= now => Due::Connect,
            State::Opening { deadline, .. } if deadline <= now => Due::GiveUp,
            State::Up { leave_at, .. } if is_past(leave_at) => Due::Leave,
            State::Up { is_pinged, .. } if is_past(self.silent_until()) => {
                if is_pinged {
                    Due::Leave
                } else {
                    Due::Ping
                }
            }
            _ => Due::Nothing,
        }
    }

    pub(super) fn ping(&mut self, now: Instant) -> Effect {
        if let State::Up {
            heard_at,
            is_pinged,
            ..
        } = &mut self.state
        {
            (*heard_at, *is_pinged) = (now, true);
        }
        Effect::Send(frame(0, Request::Ping(Ping {})))
    }

    /// Starts an attempt to open the session, or to resume it with what it may hold.
    pub(super) fn connect(
        &mut self,
        now: Instant,
        grants: Vec<Grant>,
        permits: Vec<PermitGrant>,
    ) -> Effect {
        let (first, limit) = match &self.session {
            None => (Request::Open(self.open.clone()), OPEN_TIMEOUT),
            Some(session) => {
                let resume = ResumeSession {
                    grants,
                    permits,
                    ..session.clone()
                };
                (Request::Resume(resume), self.resume_timeout())
            }
        };
        self.state = State::Opening {
            sent_at: now,
            deadline: now + limit,
        };
        Effect::Connect {
            address: self.address().clone(),
            first: frame(0, first),
        }
    }

    /// Grows, because a coordinator that many sessions come to at once may need longer, and an
    /// attempt that is broken off costs it as much as one that is not.
    fn resume_timeout(&self) -> Duration {
        let timeout = RESUME_TIMEOUT.min(self.lease / 6);
        let factor = doubled(self.failed.count / self.addresses.len());
        timeout.saturating_mul(factor).min(self.lease / 2)
    }

    /// The coordinator accepts the session. Returns whether that is new.
    pub(super) fn on_opened(&mut self, now: Instant, opened: &SessionOpened) -> bool {
        let is_new = self.is_new();
        if is_new {
            self.session = Some(ResumeSession {
                session_id: opened.session_id.clone(),
                sends_pings: true,
                sends_close: true,
                ..ResumeSession::default()
            });
            self.lease = to_std(opened.lease);
        }
        self.keep_resume_token(opened);
        let ping_interval = Some(to_std(opened.ping_interval));
        self.ping_interval = ping_interval.filter(|it| !it.is_zero());
        self.failed = FailedAttempts::default();
        self.opened_at = now;
        self.resume_deadline = None;
        self.state = State::Up {
            heard_at: now,
            is_pinged: false,
            leave_at: None,
            is_closing: false,
        };
        is_new
    }

    /// Each token replaces the earlier one.
    pub(super) fn keep_resume_token(&mut self, opened: &SessionOpened) {
        if let Some(session) = &mut self.session {
            session.resume_token.clone_from(&opened.resume_token);
        }
    }

    /// A frame has arrived.
    pub(super) fn on_heard(&mut self, now: Instant) {
        if let State::Up {
            heard_at,
            is_pinged,
            ..
        } = &mut self.state
        {
            (*heard_at, *is_pinged) = (now, false);
        }
    }

    /// The coordinator goes away; its last answers come before the end of the stream.
    pub(super) fn on_going_away(&mut self, now: Instant) {
        if let State::Up { leave_at, .. } = &mut self.state {
            leave_at.get_or_insert(now + LEAVE_TIMEOUT);
        }
    }

    /// The stream has ended, or has to be left. Returns why, for people.
    pub(super) fn on_broken(&mut self, now: Instant, failure: Option<&Error>) -> String {
        let cause = match (&self.state, failure) {
            (
                State::Up {
                    leave_at: Some(_), ..
                },
                _,
            ) => "the coordinator is stopping".to_owned(),
            (State::Up { is_pinged, .. }, None) if *is_pinged => {
                "the coordinator did not answer a ping".to_owned()
            }
            (_, Some(failure)) => failure.to_string(),
            (_, None) => "the coordinator ended the stream".to_owned(),
        };
        tracing::debug!(%cause, "session's stream ended");
        self.fault = (self.address().clone(), cause.clone());
        self.resume_deadline.get_or_insert(now + self.lease);
        self.endpoint += 1;
        self.state = State::Down {
            retry_at: now + self.pause_after_stream(now),
        };
        cause
    }

    /// Grows if streams end again and again without progress, as by what ends each of them.
    fn pause_after_stream(&mut self, now: Instant) -> Duration {
        if now >= self.opened_at + BACKOFF_MAX {
            self.fruitless = 0;
        }
        self.fruitless += 1;
        match self.fruitless {
            1 => FIRST_PAUSE.mul_f64(self.random.random()),
            more => self.backoff(more - 2).min(self.lease / 6),
        }
    }

    /// The pause after this many others.
    fn backoff(&mut self, others: usize) -> Duration {
        let pause = BACKOFF_MIN.saturating_mul(doubled(others));
        let pause = pause.min(BACKOFF_MAX);
        pause.mul_f64(self.random.random_range(0.5..1.0))
    }

    /// An operation was answered.
    pub(super) fn on_progress(&mut self) {
        self.fruitless = 0;
    }

    /// An attempt has failed. Returns the error if there is no other: every coordinator refuses the
    /// session for good, or a new one could not be opened.
    pub(super) fn on_attempt_failed(&mut self, now: Instant, failure: Error) -> Result<(), Error> {
        let cause = match &failure {
            Error::Unreachable { cause, .. } => cause.clone(),
            other => other.to_string(),
        };
        self.fault = (self.address().clone(), cause);
        let is_refused = failure.status().is_some_and(is_refused);
        self.failed = FailedAttempts {
            count: self.failed.count + 1,
            refused: if is_refused {
                self.failed.refused + 1
            } else {
                0
            },
        };
        let endpoints = self.addresses.len();
        let is_over = match &self.session {
            None => !failure.is_retryable() || self.failed.count >= endpoints,
            // The next endpoint may know a session that this one does not.
            Some(_) => self.failed.refused >= endpoints,
        };
        if is_over {
            return Err(failure);
        }
        self.endpoint += 1;
        let pause = if self.failed.count.is_multiple_of(endpoints) {
            self.backoff(self.failed.count / endpoints - 1)
        } else {
            Duration::ZERO
        };
        self.state = State::Down {
            retry_at: now + pause,
        };
        Ok(())
    }
}

/// 2 to the power of `rounds`.
fn doubled(rounds: usize) -> u32 {
    2_u32.saturating_pow(u32::try_from(rounds).unwrap_or(u32::MAX))
}

/// Whether a coordinator with this answer will never accept the session. Missing credentials may
/// arrive in a moment: their files are replaced. Only a coordinator gives a reason: a proxy without
/// a route answers UNIMPLEMENTED, too.
fn is_refused(status: &Status) -> bool {
    let of_credentials = [Code::Unauthenticated, Code::PermissionDenied].contains(&status.code());
    error::is_final(status.code()) && !of_credentials && error::reason(status).is_some()
}
