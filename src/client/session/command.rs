//! The commands that handles and guards send to the task of their session, and its answers.

use std::{sync::Arc, time::Duration};

use futures::{
    StreamExt as _,
    future::{pending, try_join_all},
    stream::FuturesUnordered,
};
use lockkeeper_api::pb::{OfferRequest, session_request::Request, session_response::Response};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    Error,
    clock::Clock,
    holding::Holding,
    machine::{Ids, NewOperation, closed},
    validity::{Validity, YieldRequest},
};

/// Where the result of a command goes.
pub(super) type Reply<T> = oneshot::Sender<Result<T, Error>>;

pub(super) enum Command {
    Start(Box<NewOperation>, Reply<Answer>),
    /// The caller of this operation no longer waits for its answer.
    Abandon(u64),
    /// Release what this guard holds, by an operation of a caller. Dropped guards need no reply.
    Release(u64, Option<(u64, Reply<Answer>)>),
    /// End the session. The reply follows its end.
    Close(Reply<()>),
}

/// The end of an operation that did not fail.
pub(super) enum Answer {
    /// Dropping it releases it.
    Granted(Held, Vec<Holding>),
    Other(Response),
}

/// A sender to a session's task. The session lives as long as there is one.
#[derive(Clone, Debug)]
pub(crate) struct Commands {
    queue: mpsc::UnboundedSender<Command>,
    pub(super) ids: Ids,
    clock: Clock,
}

/// The task's own sender, which does not keep the session alive.
pub(super) struct WeakCommands {
    queue: mpsc::WeakUnboundedSender<Command>,
    pub(super) ids: Ids,
    clock: Clock,
}

/// What one request acquired. Dropping it releases it.
#[derive(Debug)]
pub(crate) struct Held {
    commands: Commands,
    guard: u64,
    validities: Vec<Arc<Validity>>,
    pub(crate) lost: CancellationToken,
    is_released: bool,
}

/// An operation without an answer. Dropping it abandons it.
struct Pending<'a> {
    commands: &'a Commands,
    op_id: u64,
}

// === impl Commands ===

impl Commands {
    pub(super) fn new(clock: Clock) -> (Self, mpsc::UnboundedReceiver<Command>) {
        let (queue, commands) = mpsc::unbounded_channel();
        let ids = Ids::new();
        (Self { queue, ids, clock }, commands)
    }

    pub(super) fn downgrade(&self) -> WeakCommands {
        WeakCommands {
            queue: self.queue.downgrade(),
            ids: self.ids.clone(),
            clock: self.clock.clone(),
        }
    }

    /// Sends a command. If the session has ended, its reply is dropped.
    pub(super) fn send(&self, command: Command) {
        let _ = self.queue.send(command);
    }

    /// Runs an operation to its end.
    pub(super) async fn run(
        &self,
        request: Request,
        wait_until: Option<Instant>,
        patience: Option<Duration>,
    ) -> Result<Answer, Error> {
        let op_id = self.ids.next();
        let (reply, answer) = oneshot::channel();
        let new = NewOperation {
            op_id,
            request,
            wait_until,
            patience,
        };
        self.send(Command::Start(Box::new(new), reply));
        let pending = Pending {
            commands: self,
            op_id,
        };
        let answer = answer.await;
        std::mem::forget(pending);
        answer.unwrap_or_else(|_| Err(closed()))
    }

    /// Runs an operation that acquires nothing.
    pub(super) async fn call(&self, request: Request) -> Result<Response, Error> {
        match self.run(request, None, None).await? {
            Answer::Other(response) => Ok(response),
            Answer::Granted(..) => Err(unexpected()),
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.commands.send(Command::Abandon(self.op_id));
    }
}

/// Runs an operation that has one kind of response.
macro_rules! call {
    ($commands:expr, $request:expr => $kind:ident) => {
        match $commands.call($request).await? {
            Response::$kind(response) => Ok(response),
            _ => Err($crate::session::unexpected()),
        }
    };
}
pub(super) use call;

// === impl WeakCommands ===

impl WeakCommands {
    /// `None` if all handles and guards are dropped.
    pub(super) fn upgrade(&self) -> Option<Commands> {
        Some(Commands {
            queue: self.queue.upgrade()?,
            ids: self.ids.clone(),
            clock: self.clock.clone(),
        })
    }
}

// === impl Held ===

impl Held {
    pub(super) fn new(commands: Commands, guard: u64, validities: Vec<Arc<Validity>>) -> Self {
        Self {
            commands,
            guard,
            validities,
            lost: CancellationToken::new(),
            is_released: false,
        }
    }

    /// The first loss, if there is one.
    pub(crate) fn loss(&self) -> Option<Error> {
        self.validities.iter().find_map(|it| it.loss())
    }

    /// The earliest end of what is held.
    pub(crate) fn valid_until(&self) -> Instant {
        let until = self.validities.iter().map(|it| it.valid_until()).min();
        until.map_or_else(Instant::now, |until| self.commands.clock.to_tokio(until))
    }

    /// Resolves while a request to release a part of it stands. Cancel safe.
    pub(crate) async fn yield_requested(&self) -> YieldRequest {
        let asked = self
            .validities
            .iter()
            .map(|it| it.asked(&self.commands.clock));
        let mut asked: FuturesUnordered<_> = asked.collect();
        match asked.next().await {
            Some(request) => request,
            None => pending().await,
        }
    }

    pub(crate) fn valid_for(&self) -> Duration {
        if self.lost.is_cancelled() {
            return Duration::ZERO;
        }
        self.valid_until().saturating_duration_since(Instant::now())
    }

    /// An error if it was lost. The owner may hold a newer grant of the same name.
    fn ensure_held(&self) -> Result<(), Error> {
        self.loss().map_or(Ok(()), Err)
    }

    pub(crate) async fn release(mut self) -> Result<(), Error> {
        self.ensure_held()?;
        self.is_released = true;
        let (reply, released) = oneshot::channel();
        let caller = Some((self.commands.ids.next(), reply));
        self.commands.send(Command::Release(self.guard, caller));
        let released = released.await.unwrap_or_else(|_| Err(closed()));
        released.map(drop)
    }

    /// Makes a ticket for it.
    pub(crate) async fn offer(&self, request: OfferRequest) -> Result<String, Error> {
        self.ensure_held()?;
        call!(self.commands, Request::Offer(request) => Offered).map(|it| it.ticket)
    }

    pub(crate) async fn renew(
        &self,
        holdings: Vec<Holding>,
        lease: Option<Duration>,
    ) -> Result<(), Error> {
        self.ensure_held()?;
        let renew = |holding: Holding| self.commands.call(holding.renewal(lease));
        try_join_all(holdings.into_iter().map(renew))
            .await
            .map(drop)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_released {
            self.commands.send(Command::Release(self.guard, None));
        }
    }
}

/// An answer of another kind than its request; a fault of the coordinator.
pub(crate) fn unexpected() -> Error {
    tonic::Status::internal("an answer of another kind than was asked for").into()
}
