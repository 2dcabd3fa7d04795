//! What handles ask of a session's task, and what it answers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lockkeeper_api::pb::{session_request::Request, session_response::Response};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use crate::{Error, Thing, guard::Held};

/// What a handle wants.
pub(crate) enum Command {
    /// An operation.
    Ask(Ask),
    /// Nobody waits for the answer to this operation any more.
    Abandon(u64),
    /// What this guard holds is to be given back. Dropped guards do not ask for an answer.
    Release(u64, Option<oneshot::Sender<Result<(), Error>>>),
    /// The session is to end. Answered when it has.
    Close(oneshot::Sender<Result<(), Error>>),
}

/// An operation as it is asked for.
pub(crate) struct Ask {
    pub(super) op_id: u64,
    pub(super) request: Request,
    /// When a wait with a limit ends.
    pub(super) wait_until: Option<Instant>,
    /// How long to go on asking a store that does not answer. None: as long as the session's lease.
    pub(super) patience: Option<Duration>,
    pub(super) answer: oneshot::Sender<Result<Answer, Error>>,
}

/// How an operation has ended.
pub(crate) enum Answer {
    /// Something is held now. Dropping it gives it back.
    Held(Held, Vec<Thing>),
    /// Anything else.
    Other(Response),
}

/// The way to a session's task. As long as one is there, the session lives.
#[derive(Clone, Debug)]
pub(crate) struct Commands {
    pub(crate) queue: mpsc::UnboundedSender<Command>,
    pub(super) ids: Arc<AtomicU64>,
}

/// An operation under way. Dropping it abandons it.
struct Pending<'a> {
    commands: &'a Commands,
    op_id: u64,
}

// === impl Commands ===

impl Commands {
    /// Sends something; if the session has ended, whoever waits for the answer sees that.
    pub(crate) fn send(&self, command: Command) {
        let _ = self.queue.send(command);
    }

    /// A number that no other operation or guard of the session has.
    pub(super) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Asks, and waits for the end of it.
    pub(crate) async fn ask(
        &self,
        request: Request,
        wait_until: Option<Instant>,
    ) -> Result<Answer, Error> {
        self.ask_with(request, wait_until, None).await
    }

    pub(super) async fn ask_with(
        &self,
        request: Request,
        wait_until: Option<Instant>,
        patience: Option<Duration>,
    ) -> Result<Answer, Error> {
        let op_id = self.next_id();
        let (answer, answered) = oneshot::channel();
        self.send(Command::Ask(Ask {
            op_id,
            request,
            wait_until,
            patience,
            answer,
        }));
        let pending = Pending {
            commands: self,
            op_id,
        };
        let ended = answered.await;
        std::mem::forget(pending);
        ended.unwrap_or_else(|_| Err(ended_already()))
    }

    /// Asks for what is answered by one message.
    pub(super) async fn ask_plainly(&self, request: Request) -> Result<Response, Error> {
        match self.ask(request, None).await? {
            Answer::Other(response) => Ok(response),
            Answer::Held(..) => Err(unexpected()),
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.commands.send(Command::Abandon(self.op_id));
    }
}

pub(crate) fn ended_already() -> Error {
    Error::SessionEnded("it was closed".to_owned())
}

/// An answer of another kind than was asked for; a fault of the coordinator.
pub(crate) fn unexpected() -> Error {
    tonic::Status::internal("an answer of another kind than was asked for").into()
}
