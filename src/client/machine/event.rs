//! What goes in and what comes out.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lockkeeper_api::pb::{
    SessionOpened, SessionRequest, SessionResponse, session_request::Request,
    session_response::Response,
};
use tokio::time::Instant;

use crate::{Address, Error, holding::Holding, session::SessionEvent, validity::Validity};

/// What happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// A frame of the stream that the last [`Effect::Connect`] asked for.
    Received(SessionResponse),
    /// That stream could not be opened, or has ended: without an error, or with this one.
    StreamEnded(Option<Error>),
    /// A caller starts an operation, which [`Effect::Done`] ends.
    Start(NewOperation),
    /// The caller of this operation no longer waits for its end.
    Abandon(u64),
    /// A guard is released, even if it is lost.
    Release {
        guard: u64,
        /// The operation that a caller waits for; `None` for a dropped guard.
        op_id: Option<u64>,
    },
    /// The session is to be closed.
    Close,
    /// The time of [`Machine::wake_at`](super::Machine::wake_at) has come. The first opens the
    /// session.
    Tick,
}

/// What to do, in this order.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Open a stream in place of any other, and send this frame first.
    Connect {
        address: Address,
        first: SessionRequest,
    },
    /// Break the stream.
    Disconnect,
    /// Send a frame on the stream.
    Send(SessionRequest),
    /// The session is open, or could not be opened.
    Opened(Result<SessionOpened, Error>),
    /// The operation of a caller has ended.
    Done {
        op_id: u64,
        result: Result<Completion, Error>,
    },
    /// A guard has lost what it holds, or a part of it.
    Lost(u64),
    /// The user may see this.
    Publish(SessionEvent),
}

/// An operation of a caller.
#[derive(Debug)]
pub(crate) struct NewOperation {
    /// Of [`Ids::next`].
    pub(crate) op_id: u64,
    pub(crate) request: Request,
    /// The end of a wait with a limit.
    pub(crate) wait_until: Option<Instant>,
    /// How long to retry while the store does not answer. `None`: for the session's lease.
    pub(crate) patience: Option<Duration>,
}

/// The end of an operation that did not fail.
#[derive(Debug)]
pub(crate) enum Completion {
    Granted {
        /// To be released once.
        guard: u64,
        holdings: Vec<Holding>,
        /// Until when each is valid, which the machine keeps up to date.
        validities: Vec<Arc<Validity>>,
    },
    Other(Response),
}

/// Numbers operations, guards and holdings of one session.
#[derive(Clone, Debug)]
pub(crate) struct Ids(Arc<AtomicU64>);

// === impl Ids ===

impl Ids {
    pub(crate) fn new() -> Self {
        Self(Arc::new(1.into()))
    }

    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// The error of operations of a session that was closed.
pub(crate) fn closed() -> Error {
    Error::SessionEnded("it was closed".to_owned())
}
