//! The handle of a session.

use std::time::Duration;

use lockkeeper_api::pb::{
    CheckTokenRequest, CheckTokenResponse, DescribeRequest, DescribeResponse, ExplainRequest,
    ExplainResponse, session_request::Request, session_response::Response,
};
use tokio::sync::{broadcast, oneshot, watch};

use super::{
    SessionEvent, SessionEvents, SessionState,
    command::{Command, Commands, call},
    election::Election,
    latch::Latch,
    requests::{LockRequest, LocksRequest, claim},
    semaphore::Semaphore,
};
use crate::{Error, Guard};

/// A session. Clones are handles of the same session. It ends with [`Session::close`], or when the
/// last handle and the last guard are dropped; everything it holds is released then. It also ends
/// if no coordinator can be reached for as long as its [`lease`](Session::lease).
#[derive(Clone, Debug)]
pub struct Session {
    pub(super) commands: Commands,
    pub(super) id: String,
    pub(super) lease: Duration,
    pub(super) state: watch::Receiver<SessionState>,
    pub(super) events: broadcast::WeakSender<SessionEvent>,
}

// === impl Session ===

impl Session {
    /// The id. It is a secret: anyone who knows it can act as this session.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The lease of holdings that were acquired without one of their own.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// The state of the session, and each change of it.
    pub fn state(&self) -> watch::Receiver<SessionState> {
        self.state.clone()
    }

    /// The events of the session from now on, for logs and people. Safety does not depend on them:
    /// guards report what is lost.
    pub fn events(&self) -> SessionEvents {
        SessionEvents::of(&self.events)
    }

    /// A lock to be acquired.
    pub fn lock(&self, name: impl Into<String>) -> LockRequest {
        LockRequest::new(self.commands.clone(), name.into())
    }

    /// Takes over a lock that another session has offered, see [`Guard::offer`]. The guard has a
    /// new, larger fencing token, and at no moment was the lock free.
    ///
    /// Fails with [`Error::Refused`] if the ticket is none, is too old, or was claimed, or if the
    /// grant has ended, with [`Error::Lost`] if the lock was lost before it could be confirmed, and
    /// with [`Error::SessionEnded`].
    pub async fn claim(
        &self,
        name: impl Into<String>,
        ticket: impl Into<String>,
    ) -> Result<Guard, Error> {
        claim(self.commands.clone(), name.into(), ticket.into()).await
    }

    /// Several locks to be acquired together, all or none.
    pub fn locks<N: Into<String>>(&self, names: impl IntoIterator<Item = N>) -> LocksRequest {
        let names = names.into_iter().map(Into::into);
        LocksRequest::new(self.commands.clone(), names)
    }

    /// A semaphore.
    pub fn semaphore(&self, name: impl Into<String>) -> Semaphore {
        Semaphore::new(self.commands.clone(), name.into())
    }

    /// A latch.
    pub fn latch(&self, name: impl Into<String>) -> Latch {
        Latch::new(self.commands.clone(), name.into())
    }

    /// An election.
    pub fn election(&self, name: impl Into<String>) -> Election {
        Election::new(self.commands.clone(), name.into())
    }

    /// The holders of a lock, and how many wait for it.
    ///
    /// Fails with [`Error::Refused`] and [`Error::SessionEnded`].
    pub async fn describe(&self, name: impl Into<String>) -> Result<DescribeResponse, Error> {
        let request = DescribeRequest { name: name.into() };
        call!(self.commands, Request::Describe(request) => Described)
    }

    /// Why a lock is waited for: its holders, what they wait for, and so on; and the deadlocks
    /// among them. Takes up to two seconds if there is a cycle.
    ///
    /// Fails with [`Error::Refused`] and [`Error::SessionEnded`].
    pub async fn explain(&self, name: impl Into<String>) -> Result<ExplainResponse, Error> {
        let request = ExplainRequest { name: name.into() };
        call!(self.commands, Request::Explain(request) => Explained)
    }

    /// Whether a fencing token is that of the lock's newest grant, for a resource that cannot
    /// compare tokens itself.
    ///
    /// Fails with [`Error::Refused`] and [`Error::SessionEnded`].
    pub async fn check_token(
        &self,
        name: impl Into<String>,
        fencing_token: u64,
    ) -> Result<CheckTokenResponse, Error> {
        let request = CheckTokenRequest {
            name: name.into(),
            fencing_token,
        };
        call!(self.commands, Request::CheckToken(request) => TokenChecked)
    }

    /// Ends the session: everything it holds is released, and its guards are lost.
    ///
    /// Fails with [`Error::SessionEnded`] if no coordinator answers within 2 s; everything stays
    /// held until its lease ends then.
    pub async fn close(self) -> Result<(), Error> {
        let (reply, closed) = oneshot::channel();
        self.commands.send(Command::Close(reply));
        // No reply: it had ended before.
        closed.await.unwrap_or(Ok(()))
    }
}
