//! Sessions: what their handles offer. [`driver`] has the task that does it.

mod answers;
mod book;
mod closing;
mod command;
mod connection;
mod doubts;
mod driver;
mod event;
mod holding;
mod operation;
mod requests;
mod semaphore;
mod taken;

use std::time::Duration;

use lockkeeper_api::pb::{
    CheckTokenRequest, CheckTokenResponse, DescribeRequest, DescribeResponse, OnDisconnect,
    OpenSession, session_request::Request, session_response::Response,
};
use tokio::sync::{broadcast, oneshot, watch};

pub(super) use self::command::{Command, Commands, ended_already, unexpected};
use self::{
    connection::{Connection, OPEN_TIMEOUT, establish, keepalive},
    driver::{Driver, frame},
};
pub use self::{
    event::{SessionEvent, SessionEvents},
    requests::{LockRequest, LocksRequest, PermitsRequest},
    semaphore::{Latch, Semaphore},
};
use super::{Client, Error};

/// A session, to be opened.
#[derive(Clone, Debug)]
#[must_use = "nothing is opened before `open`"]
pub struct SessionBuilder {
    client: Client,
    lease: Option<Duration>,
    client_name: String,
    on_disconnect: OnDisconnect,
}

/// A session. Its clones are handles of the same one. It ends with [`Session::close`], or when the
/// last handle and the last guard are dropped; then everything it holds is released.
#[derive(Clone, Debug)]
pub struct Session {
    commands: Commands,
    id: String,
    lease: Duration,
    state: watch::Receiver<SessionState>,
    events: broadcast::WeakSender<SessionEvent>,
}

/// How a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionState {
    /// Its stream is open.
    Connected,
    /// Its coordinator says that renewals are failing: if that goes on, everything will be lost.
    AtRisk,
    /// Its stream broke. What it holds is valid as long as its guards say.
    Resuming,
    /// It is over, and nothing is held.
    Ended,
}

// === impl SessionBuilder ===

impl SessionBuilder {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            lease: None,
            client_name: String::new(),
            on_disconnect: OnDisconnect::Keep,
        }
    }

    /// How long what is held outlives this process, and how long a broken stream may take to be
    /// resumed. Without it the coordinator decides (30 s).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Shown to people who ask who holds a lock.
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.client_name = name.into();
        self
    }

    /// Whether what is held is released at once when the stream breaks. By default it stays until
    /// its lease ends, because this process may still be at work. Such a session can be resumed
    /// only on the same coordinator, and only if that has not noticed yet.
    pub fn release_on_disconnect(mut self, release: bool) -> Self {
        self.on_disconnect = if release {
            OnDisconnect::Release
        } else {
            OnDisconnect::Keep
        };
        self
    }

    /// Opens it at the first endpoint that answers. Fails as the last one did.
    pub async fn open(self) -> Result<Session, Error> {
        let lease = self.lease.map(prost_types::Duration::try_from).transpose();
        let lease = lease.map_err(|_| Error::Misconfigured("the lease is too long".to_owned()))?;
        let open = OpenSession {
            lease,
            client_name: self.client_name,
            on_disconnect: self.on_disconnect.into(),
        };
        let Client {
            connector,
            addresses,
        } = &self.client;
        let mut failed = None;
        for (endpoint, address) in addresses.iter().enumerate() {
            let opened = establish(
                connector.clone(),
                address.clone(),
                keepalive(self.lease),
                frame(0, Request::Open(open.clone())),
                OPEN_TIMEOUT,
            );
            match opened.await {
                Ok((link, opened)) => {
                    let leave_at = None;
                    let connection = Connection::Up { link, leave_at };
                    let id = opened.session_id.clone();
                    let (driver, commands) =
                        Driver::new(self.client.clone(), endpoint, connection, opened);
                    let session = Session {
                        commands,
                        id,
                        lease: driver.lease,
                        state: driver.state.subscribe(),
                        events: driver.events.downgrade(),
                    };
                    crate::task::spawn_detached("client-session", driver.run());
                    return Ok(session);
                }
                Err(error) if error.is_retryable() => failed = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(failed.unwrap_or_else(super::no_endpoint))
    }
}

// === impl Session ===

impl Session {
    /// The id. Whoever knows it can act as this session: keep it secret.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The lease of what is acquired without one of its own.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// How the session is, now and whenever it changes.
    pub fn state(&self) -> watch::Receiver<SessionState> {
        self.state.clone()
    }

    /// What happens to the session from now on, for who wants to tell people or write a log. Nobody
    /// needs it to be safe: guards say what is lost.
    pub fn events(&self) -> SessionEvents {
        SessionEvents::of(&self.events)
    }

    /// A lock, to be acquired.
    pub fn lock(&self, name: impl Into<String>) -> LockRequest {
        LockRequest::new(self.commands.clone(), name.into())
    }

    /// Several locks, to be acquired all or none.
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

    /// Who holds a lock, and who waits for it.
    pub async fn describe(&self, name: impl Into<String>) -> Result<DescribeResponse, Error> {
        let request = Request::Describe(DescribeRequest { name: name.into() });
        match self.commands.ask_plainly(request).await? {
            Response::Described(description) => Ok(description),
            _ => Err(unexpected()),
        }
    }

    /// Whether a fencing token is that of the newest grant: for a resource that cannot compare by
    /// itself.
    pub async fn check_token(
        &self,
        name: impl Into<String>,
        fencing_token: u64,
    ) -> Result<CheckTokenResponse, Error> {
        let request = Request::CheckToken(CheckTokenRequest {
            name: name.into(),
            fencing_token,
        });
        match self.commands.ask_plainly(request).await? {
            Response::TokenChecked(checked) => Ok(checked),
            _ => Err(unexpected()),
        }
    }

    /// Ends the session: everything it holds is released, and its guards are told so as of a loss.
    /// Fails if no coordinator has answered for 2 s: what is held is left to its lease.
    pub async fn close(self) -> Result<(), Error> {
        let (done, closed) = oneshot::channel();
        self.commands.send(Command::Close(done));
        // No answer: it had ended before.
        closed.await.unwrap_or(Ok(()))
    }
}
