//! The stream of a session: which endpoint it uses, and how it is resumed there or at the next.

use std::{future::pending, time::Duration};

use futures::future::BoxFuture;
use lockkeeper_api::pb::{
    Grant, OpenSession, PermitGrant, Ping, ResumeSession, SessionOpened, SessionRequest,
    SessionResponse, session_request::Request, session_response::Response,
};
use tokio::time::{Instant, timeout};
use tonic::Code;

use crate::{
    Address, Connector, Error,
    duration::to_std,
    endpoints::Endpoints,
    error,
    link::{Link, LinkEvent},
};

/// The time limit of an attempt to open.
const OPEN_TIMEOUT: Duration = Duration::from_secs(6);

/// The time limit of the first attempts to resume; a coordinator that does not answer may hide one
/// that would.
const RESUME_TIMEOUT: Duration = Duration::from_secs(2);

/// The pause after each endpoint has been tried.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// Spreads the sessions of a coordinator that died.
const FIRST_PAUSE_MAX: Duration = Duration::from_millis(50);

/// How long a coordinator that goes away may take to end the stream, with the answers that it still
/// has.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(500);

/// The lease that keepalives assume before it is known.
const LEASE_DEFAULT: Duration = Duration::from_secs(30);

/// The stream of a session. See the module.
pub(super) struct SessionTransport {
    endpoints: Endpoints,
    /// The endpoint in use, or the next to try.
    endpoint: usize,
    session_id: String,
    resume_token: Vec<u8>,
    pub(super) lease: Duration,
    /// How long a stream may be silent before a ping. `None`: the coordinator answers no pings.
    ping_interval: Option<Duration>,
    connection: Connection,
    /// The session ends if it is not resumed before.
    resume_deadline: Option<Instant>,
}

enum Connection {
    Up {
        link: Link,
        /// When to leave a coordinator that goes away.
        leave_at: Option<Instant>,
        silence: Silence,
    },
    Down {
        retry_at: Instant,
        failed: FailedAttempts,
    },
    Opening {
        attempt: BoxFuture<'static, OpenResult>,
        /// From before anything was sent.
        sent_at: Instant,
        failed: FailedAttempts,
    },
}

/// How long nothing has been received.
#[derive(Clone, Copy, Debug)]
struct Silence {
    since: Instant,
    /// Whether a ping was sent since.
    is_pinged: bool,
}

type OpenResult = Result<(Link, SessionOpened), Error>;

/// Failed attempts in a row.
#[derive(Clone, Copy, Debug, Default)]
struct FailedAttempts {
    count: usize,
    /// The last of them, whose coordinators refuse the session for good.
    refused: usize,
}

/// An event of the transport.
pub(super) enum TransportEvent {
    Frame(SessionResponse),
    /// The stream has ended: without an error, or with this one.
    Ended(Option<Error>),
    /// An attempt to resume has ended.
    Attempted(OpenResult),
}

// === impl SessionTransport ===

impl SessionTransport {
    /// Opens a session at one endpoint.
    pub(super) async fn open(
        endpoints: Endpoints,
        endpoint: usize,
        lease: Option<Duration>,
        open: OpenSession,
    ) -> Result<(Self, SessionOpened), Error> {
        let opened = establish(
            endpoints.connector.clone(),
            endpoints.addresses[endpoint].clone(),
            keepalive(lease.unwrap_or(LEASE_DEFAULT)),
            frame(0, Request::Open(open)),
            OPEN_TIMEOUT,
        );
        let (link, opened) = opened.await?;
        let transport = Self {
            endpoints,
            endpoint,
            session_id: opened.session_id.clone(),
            resume_token: opened.resume_token.clone(),
            lease: to_std(opened.lease),
            ping_interval: ping_interval(&opened),
            connection: Connection::up(link),
            resume_deadline: None,
        };
        Ok((transport, opened))
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.connection, Connection::Up { .. })
    }

    /// Sends a frame if there is a stream.
    pub(super) fn send(&self, frame: SessionRequest) {
        if let Connection::Up { link, .. } = &self.connection {
            link.send(frame);
        }
    }

    /// The next event. Cancel-safe.
    pub(super) async fn next(&mut self) -> TransportEvent {
        match &mut self.connection {
            Connection::Up { link, silence, .. } => match link.next().await {
                LinkEvent::Frame(frame) => {
                    *silence = Silence::begin();
                    TransportEvent::Frame(frame)
                }
                LinkEvent::Ended(failure) => TransportEvent::Ended(failure),
            },
            Connection::Opening { attempt, .. } => TransportEvent::Attempted(attempt.await),
            Connection::Down { .. } => pending().await,
        }
    }

    /// When one of the following four may become due.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        let connection = match &self.connection {
            Connection::Up {
                leave_at, silence, ..
            } => {
                let silent_until = self.ping_interval.map(|it| silence.since + it);
                [*leave_at, silent_until].into_iter().flatten().min()
            }
            Connection::Down { retry_at, .. } => Some(*retry_at),
            Connection::Opening { .. } => None,
        };
        [connection, self.resume_deadline]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether no coordinator could be reached for as long as the lease.
    pub(super) fn is_expired(&self, now: Instant) -> bool {
        self.resume_deadline.is_some_and(|at| at <= now)
    }

    /// Whether to leave a coordinator that goes away, or that has not answered a ping.
    pub(super) fn must_leave(&self, now: Instant) -> bool {
        let Connection::Up {
            leave_at, silence, ..
        } = &self.connection
        else {
            return false;
        };
        leave_at.is_some_and(|at| at <= now) || silence.is_pinged && self.is_silent(silence, now)
    }

    fn is_silent(&self, silence: &Silence, now: Instant) -> bool {
        self.ping_interval
            .is_some_and(|it| silence.since + it <= now)
    }

    /// Sends a ping if nothing was received for long.
    pub(super) fn ping_if_silent(&mut self, now: Instant) {
        let is_due = match &self.connection {
            Connection::Up { silence, .. } => !silence.is_pinged && self.is_silent(silence, now),
            _ => false,
        };
        if is_due {
            self.send(frame(0, Request::Ping(Ping {})));
            if let Connection::Up { silence, .. } = &mut self.connection {
                *silence = Silence {
                    since: now,
                    is_pinged: true,
                };
            }
        }
    }

    /// Whether to start an attempt to resume.
    pub(super) fn must_resume(&self, now: Instant) -> bool {
        matches!(self.connection, Connection::Down { retry_at, .. } if retry_at <= now)
    }

    /// The coordinator goes away; its last answers come before the end of the stream.
    pub(super) fn on_going_away(&mut self, now: Instant) {
        if let Connection::Up { leave_at, .. } = &mut self.connection {
            leave_at.get_or_insert(now + LEAVE_TIMEOUT);
        }
    }

    /// The stream has ended, or has to be left. Returns why, for people.
    pub(super) fn on_ended(&mut self, now: Instant, failure: Option<&Error>) -> String {
        let cause = match (&self.connection, failure) {
            (
                Connection::Up {
                    leave_at: Some(_), ..
                },
                _,
            ) => "the coordinator is stopping".to_owned(),
            (Connection::Up { silence, .. }, None) if silence.is_pinged => {
                "the coordinator did not answer a ping".to_owned()
            }
            (_, Some(failure)) => failure.to_string(),
            (_, None) => "the coordinator ended the stream".to_owned(),
        };
        tracing::debug!(%cause, "session's stream ended");
        self.resume_deadline.get_or_insert(now + self.lease);
        self.endpoint += 1;
        self.connection = Connection::Down {
            retry_at: now + FIRST_PAUSE_MAX.mul_f64(rand::random()),
            failed: FailedAttempts::default(),
        };
        cause
    }

    /// Starts an attempt to resume the session with what it may hold.
    pub(super) fn resume(&mut self, now: Instant, grants: Vec<Grant>, permits: Vec<PermitGrant>) {
        let Connection::Down { failed, .. } = self.connection else {
            return;
        };
        let resume = ResumeSession {
            session_id: self.session_id.clone(),
            resume_token: self.resume_token.clone(),
            grants,
            permits,
        };
        let addresses = &self.endpoints.addresses;
        let attempt = establish(
            self.endpoints.connector.clone(),
            addresses[self.endpoint % addresses.len()].clone(),
            keepalive(self.lease),
            frame(0, Request::Resume(resume)),
            self.resume_timeout(failed),
        );
        self.connection = Connection::Opening {
            attempt: Box::pin(attempt),
            sent_at: now,
            failed,
        };
    }

    /// Grows, because a coordinator that many sessions come to at once may need longer, and an
    /// attempt that is broken off costs it as much as one that is not.
    fn resume_timeout(&self, failed: FailedAttempts) -> Duration {
        let round = failed.count / self.endpoints.addresses.len();
        let factor = 2_u32.saturating_pow(u32::try_from(round).unwrap_or(u32::MAX));
        let timeout = RESUME_TIMEOUT.min(self.lease / 6);
        timeout.saturating_mul(factor).min(self.lease / 2)
    }

    /// An attempt to resume has ended. Returns the session and when the attempt began, or `None` if
    /// there will be another. Fails if every coordinator refuses the session for good.
    pub(super) fn on_attempted(
        &mut self,
        now: Instant,
        attempted: OpenResult,
    ) -> Result<Option<(SessionOpened, Instant)>, Error> {
        let Connection::Opening {
            sent_at, failed, ..
        } = self.connection
        else {
            return Ok(None);
        };
        match attempted {
            Ok((link, opened)) => {
                self.ping_interval = ping_interval(&opened);
                self.connection = Connection::up(link);
                self.resume_deadline = None;
                Ok(Some((opened, sent_at)))
            }
            Err(failure) => self.retry(now, failed, failure).map(|()| None),
        }
    }

    fn retry(&mut self, now: Instant, failed: FailedAttempts, failure: Error) -> Result<(), Error> {
        let is_refused = failure.status().is_some_and(|it| is_refused(it.code()));
        let failed = FailedAttempts {
            count: failed.count + 1,
            refused: if is_refused { failed.refused + 1 } else { 0 },
        };
        let endpoints = self.endpoints.addresses.len();
        // The next endpoint may know a session that this one does not.
        if failed.refused >= endpoints {
            return Err(failure);
        }
        self.endpoint += 1;
        let round = u32::try_from(failed.count / endpoints).unwrap_or(u32::MAX);
        let pause = if failed.count.is_multiple_of(endpoints) {
            let doubled = 2_u32.saturating_pow(round.saturating_sub(1));
            let pause = BACKOFF_MIN.saturating_mul(doubled);
            pause.min(BACKOFF_MAX).mul_f64(rand::random_range(0.5..1.0))
        } else {
            Duration::ZERO
        };
        self.connection = Connection::Down {
            retry_at: now + pause,
            failed,
        };
        Ok(())
    }
}

fn ping_interval(opened: &SessionOpened) -> Option<Duration> {
    opened.ping_interval.map(|it| to_std(Some(it)))
}

// === impl Connection ===

impl Connection {
    fn up(link: Link) -> Self {
        Self::Up {
            link,
            leave_at: None,
            silence: Silence::begin(),
        }
    }
}

// === impl Silence ===

impl Silence {
    fn begin() -> Self {
        Self {
            since: Instant::now(),
            is_pinged: false,
        }
    }
}

/// Connects and opens or resumes a session.
async fn establish(
    connector: Connector,
    address: Address,
    keepalive: Duration,
    first: SessionRequest,
    limit: Duration,
) -> OpenResult {
    let mut link = Link::open(&connector, &address, keepalive, first);
    let cause = match timeout(limit, link.next()).await {
        Ok(LinkEvent::Frame(frame)) => match frame.response {
            Some(Response::Opened(opened)) => return Ok((link, opened)),
            _ => "the coordinator did not say that the session is open",
        },
        Ok(LinkEvent::Ended(Some(error))) => return Err(error),
        Ok(LinkEvent::Ended(None)) => "the coordinator ended the stream",
        Err(_) => "the coordinator does not answer",
    };
    Err(Error::Unreachable {
        address,
        cause: cause.to_owned(),
    })
}

/// Whether a coordinator with this answer will never accept the session. Missing credentials may
/// arrive in a moment: their files are replaced.
fn is_refused(code: Code) -> bool {
    error::is_final(code) && !matches!(code, Code::Unauthenticated | Code::PermissionDenied)
}

/// Notices a dead coordinator well before the lease ends.
fn keepalive(lease: Duration) -> Duration {
    (lease / 6).max(Duration::from_millis(100))
}

pub(super) fn frame(op_id: u64, request: Request) -> SessionRequest {
    SessionRequest {
        op_id,
        request: Some(request),
        ..SessionRequest::default()
    }
}
