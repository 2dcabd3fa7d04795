//! The session's stream: which endpoint it is on, and how it is resumed.

use std::{future::pending, time::Duration};

use futures::future::BoxFuture;
use lockkeeper_api::pb::{
    ResumeSession, SessionOpened, SessionRequest, session_request::Request,
    session_response::Response,
};
use tokio::time::{Instant, timeout};
use tonic::Code;

use super::{
    SessionEvent, SessionState,
    driver::{Driver, Timer, frame},
    operation::Purpose,
};
use crate::{
    Address, Client, Error, Thing,
    connector::Connector,
    error,
    link::{Link, LinkEvent},
};

/// How long an attempt to open may take.
pub(super) const OPEN_TIMEOUT: Duration = Duration::from_secs(6);

/// How long the first attempts to resume may take; a coordinator that does not answer may hide one
/// that would.
const RESUME_TIMEOUT: Duration = Duration::from_secs(2);

/// Pauses after all endpoints have been tried.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// So that the sessions of a coordinator that died do not come all at once.
const FIRST_PAUSE_MAX: Duration = Duration::from_millis(50);

/// How long a coordinator that goes away may take to end the stream, with the answers that it still
/// has.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(500);

/// For the liveness checks of a connection, if the lease is not known yet.
const LEASE_DEFAULT: Duration = Duration::from_secs(30);

type Attempt = BoxFuture<'static, Result<(Link, SessionOpened), Error>>;

/// Whether there is a stream.
pub(super) enum Connection {
    Up {
        link: Link,
        /// The coordinator goes away.
        leave_at: Option<Instant>,
    },
    Down {
        retry_at: Instant,
        tries: Tries,
    },
    Opening {
        attempt: Attempt,
        /// From before anything was sent.
        sent_at: Instant,
        tries: Tries,
    },
}

/// Attempts in a row that did not succeed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tries {
    failed: usize,
    /// Those of them, the last ones, whose coordinators will not have the session.
    refused: usize,
}

/// What a connection tells.
pub(super) enum Event {
    Link(LinkEvent),
    Attempted(Result<(Link, SessionOpened), Error>),
}

/// Connects and opens or resumes a session.
pub(super) async fn establish(
    connector: Connector,
    address: Address,
    keepalive: Duration,
    first: SessionRequest,
    limit: Duration,
) -> Result<(Link, SessionOpened), Error> {
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

/// Whether a coordinator that answers so will never have the session. Who is asked for credentials
/// may have new ones in a moment: files are replaced.
fn is_over(code: Code) -> bool {
    error::is_final(code) && !matches!(code, Code::Unauthenticated | Code::PermissionDenied)
}

/// So that a dead coordinator is noticed well before the lease is over.
pub(super) fn keepalive(lease: Option<Duration>) -> Duration {
    (lease.unwrap_or(LEASE_DEFAULT) / 6).max(Duration::from_millis(100))
}

// === impl Connection ===

impl Connection {
    /// The next event. May be dropped and asked again.
    pub(super) async fn next(&mut self) -> Event {
        match self {
            Self::Up { link, .. } => Event::Link(link.next().await),
            Self::Opening { attempt, .. } => Event::Attempted(attempt.await),
            Self::Down { .. } => pending().await,
        }
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        match self {
            Self::Up { leave_at, .. } => *leave_at,
            Self::Down { retry_at, .. } => Some(*retry_at),
            Self::Opening { .. } => None,
        }
    }
}

// === impl Driver ===

impl Driver {
    /// The stream has ended, or has to be left.
    pub(super) fn on_link_ended(&mut self, now: Instant, failure: Option<&Error>) {
        if failure.is_none() && self.closing.as_ref().is_some_and(|it| it.is_sent) {
            self.end("it was closed");
            return;
        }
        let is_left = matches!(
            self.connection,
            Connection::Up {
                leave_at: Some(_),
                ..
            }
        );
        let cause = match failure {
            _ if is_left => "the coordinator is stopping".to_owned(),
            Some(failure) => failure.to_string(),
            None => "the coordinator ended the stream".to_owned(),
        };
        tracing::debug!(%cause, "session's stream ended");
        self.over_at.get_or_insert(now + self.lease);
        self.endpoint += 1;
        self.connection = Connection::Down {
            retry_at: now + FIRST_PAUSE_MAX.mul_f64(rand::random()),
            tries: Tries::default(),
        };
        self.operations
            .retain(|_, it| !matches!(it.purpose, Purpose::Renewal(_) | Purpose::Cleanup));
        for operation in self.operations.values_mut() {
            operation.on_broken();
        }
        for holding in self.book.holdings.values_mut() {
            holding.renewal = None;
        }
        let _ = self.state.send(SessionState::Resuming);
        self.tell(SessionEvent::Broken { cause });
    }

    /// The coordinator stops; what it has answered until then comes before the end of the stream.
    pub(super) fn on_going_away(&mut self, now: Instant) {
        if let Connection::Up { leave_at, .. } = &mut self.connection {
            leave_at.get_or_insert(now + LEAVE_TIMEOUT);
        }
    }

    pub(super) fn meet_connection_deadlines(&mut self, now: Instant) {
        match &self.connection {
            Connection::Up { leave_at, .. } if leave_at.is_some_and(|at| at <= now) => {
                self.on_link_ended(now, None);
            }
            Connection::Down { retry_at, tries } if *retry_at <= now => {
                let tries = *tries;
                self.resume(now, tries);
            }
            _ => {}
        }
    }

    fn resume(&mut self, now: Instant, tries: Tries) {
        let (mut grants, permits) = self.book.named();
        for grant in self.doubtful() {
            if self.book.find(&Thing::Lock(grant.clone())).is_none() {
                grants.push(grant);
            }
        }
        let resume = ResumeSession {
            session_id: self.opened.session_id.clone(),
            resume_token: self.opened.resume_token.clone(),
            grants,
            permits,
        };
        let Client {
            connector,
            addresses,
        } = &self.client;
        let address = addresses[self.endpoint % addresses.len()].clone();
        let attempt = establish(
            connector.clone(),
            address,
            self.keepalive,
            frame(0, Request::Resume(resume)),
            self.resume_timeout(tries),
        );
        self.connection = Connection::Opening {
            attempt: Box::pin(attempt),
            sent_at: now,
            tries,
        };
    }

    /// Grows, because a coordinator that many sessions come to at once may need longer, and an
    /// attempt that is broken off costs it as much as one that is not.
    fn resume_timeout(&self, tries: Tries) -> Duration {
        let round = tries.failed / self.client.addresses.len();
        let factor = 2_u32.saturating_pow(u32::try_from(round).unwrap_or(u32::MAX));
        let timeout = RESUME_TIMEOUT.min(self.lease / 6);
        timeout.saturating_mul(factor).min(self.lease / 2)
    }

    pub(super) fn on_attempt_failed(&mut self, now: Instant, failure: &Error) {
        let Connection::Opening { tries, .. } = &self.connection else {
            return;
        };
        let is_refused = failure.status().is_some_and(|it| is_over(it.code()));
        let tries = Tries {
            failed: tries.failed + 1,
            refused: if is_refused { tries.refused + 1 } else { 0 },
        };
        let endpoints = self.client.addresses.len();
        // One that does not know the session may stand beside one that does.
        if tries.refused >= endpoints {
            self.end(&failure.to_string());
            return;
        }
        self.endpoint += 1;
        let round = u32::try_from(tries.failed / endpoints).unwrap_or(u32::MAX);
        let pause = if tries.failed.is_multiple_of(endpoints) {
            let pause = BACKOFF_MIN.saturating_mul(2_u32.saturating_pow(round));
            pause.min(BACKOFF_MAX).mul_f64(rand::random_range(0.5..1.0))
        } else {
            Duration::ZERO
        };
        self.connection = Connection::Down {
            retry_at: now + pause,
            tries,
        };
    }

    /// Each grant that was named was checked by renewing it; those that are gone follow as `lost`.
    pub(super) fn on_resumed(&mut self, now: Instant, link: Link, opened: &SessionOpened) {
        let Connection::Opening { sent_at, .. } = self.connection else {
            return;
        };
        self.connection = Connection::Up {
            link,
            leave_at: None,
        };
        self.over_at = None;
        let _ = self.state.send(SessionState::Connected);
        self.tell(SessionEvent::Resumed);
        let still_held = Thing::resumed(opened);
        for thing in &still_held {
            if let Some(id) = self.book.find(thing) {
                self.renewed(now, id, sent_at, thing.clone());
            }
        }
        if self.closing.is_some() {
            self.send_close();
            return;
        }
        self.settle_doubts(now, &still_held);
        let unsent: Vec<u64> = self.operations.keys().copied().collect();
        for op_id in unsent {
            self.send(now, op_id);
        }
        let holdings: Vec<u64> = self.book.holdings.keys().copied().collect();
        for id in holdings {
            self.timers.insert((now, Timer::Holding(id)));
        }
    }
}
