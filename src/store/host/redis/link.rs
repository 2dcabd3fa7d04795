//! A shared connection to one server that repairs itself.
//!
//! Its rules, in the order in which a caller meets them:
//!
//! - never connected yet, or just lost: the caller waits for the outcome of the attempt that is
//!   under way;
//! - the last attempt failed: the call fails at once, while attempts go on in the background;
//! - the server has not answered in time: the connection is *kept*, because what is sent over it
//!   later runs after what was sent before, whenever the server goes on. Only a few more calls are
//!   sent meanwhile; the rest fails at once. The connection is replaced when the server answers on
//!   a new one.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use deadpool_redis::redis::{PushInfo, Value, aio::SendError};
use futures::TryFutureExt as _;
use lockkeeper_base::tasks::spawn_detached;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, sleep_until, timeout_at},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    brief::{Brief, CLOSED_AT_ONCE, RECONNECT_INTERVAL},
    endpoint::Endpoint,
    queue::Failure,
    reply,
    resp::put,
    saved::Dialect,
    stall::Stall,
    target::{self, Target},
    wire::Wire,
};
use crate::host::{HostError, metrics::Purpose};

/// A connection is not replaced on suspicion before it is this old.
const SUSPECT_AFTER: Duration = Duration::from_secs(1);

/// For so long a silent connection is given the benefit of the doubt, before and after a new one
/// was answered.
const SECOND_OPINION_AFTER: Duration = Duration::from_secs(1);

/// A shared connection that repairs itself. Dropping it closes the connection.
#[derive(Debug)]
pub(super) struct Link {
    state: watch::Receiver<State>,
    _keeper: AbortOnDropHandle<()>,
}

/// The connections of a link, one after the other.
pub(super) struct Ups {
    state: watch::Receiver<State>,
    last: Weak<Live>,
}

/// What a link is at an instant.
#[derive(Clone, Debug)]
enum State {
    /// The outcome of an attempt will be known soon.
    Connecting,
    /// Can be used.
    Up(Arc<Live>),
    /// The last attempt failed, and why.
    Down(Arc<str>),
}

/// A connection while it lives.
#[derive(Debug)]
pub(super) struct Live {
    wire: Wire,
    /// Which process it leads to; none if the server does not allow to ask.
    run_id: Option<Arc<str>>,
    /// How the server takes a saved hash.
    pub(super) dialect: Dialect,
    loss: Arc<Loss>,
    stall: Stall,
}

/// Tells the keeper that a connection has to be replaced.
#[derive(Debug, Default)]
struct Loss {
    certain: AtomicBool,
    noticed: Notify,
}

// === impl Link ===

impl Link {
    /// Starts connecting.
    pub(super) fn open(target: Target) -> Self {
        let (states, state) = watch::channel(State::Connecting);
        let keeper = spawn_detached("redis-link", keep(target, states));
        Self {
            state,
            _keeper: AbortOnDropHandle::new(keeper),
        }
    }

    /// The connection to use now.
    pub(super) async fn live(&self, deadline: Instant) -> Result<Arc<Live>, HostError> {
        if let Some(known) = self.state.borrow().known() {
            return known;
        }
        // Boxed, as it is rare: every call would carry its state otherwise.
        Box::pin(self.settled(deadline)).await
    }

    /// Resolves when it has connected or failed to.
    pub(super) async fn first_attempt(&self) {
        let mut state = self.state.clone();
        let _ = state.wait_for(|state| state.known().is_some()).await;
    }

    async fn settled(&self, deadline: Instant) -> Result<Arc<Live>, HostError> {
        let mut state = self.state.clone();
        let settled = state.wait_for(|state| !matches!(state, State::Connecting));
        match timeout_at(deadline, settled).await {
            Ok(Ok(settled)) => settled.known().unwrap_or_else(not_connected),
            Ok(Err(_)) | Err(_) => not_connected(),
        }
    }

    /// Whether it is up, and the server has not refused commands without a script.
    pub(super) fn runs_commands(&self) -> bool {
        match &*self.state.borrow() {
            State::Up(live) => live.dialect.get().is_some(),
            State::Connecting | State::Down(_) => false,
        }
    }

    /// Which process it leads to, if it is up and that is known.
    pub(super) fn run_id(&self) -> Option<Arc<str>> {
        match &*self.state.borrow() {
            State::Up(live) => live.run_id(),
            State::Connecting | State::Down(_) => None,
        }
    }

    /// When the link is up. Does not keep the link open.
    pub(super) fn ups(&self) -> Ups {
        Ups {
            state: self.state.clone(),
            last: Weak::new(),
        }
    }
}

// === impl Ups ===

impl Ups {
    /// Resolves when the link has another connection than at the last call, or still the same when
    /// this time has passed; false if the link was closed.
    pub(super) async fn next(&mut self, at_most: Duration) -> bool {
        let known = |live: &Arc<Live>, last: &Weak<Live>| Weak::as_ptr(last) == Arc::as_ptr(live);
        let last = self.last.clone();
        let other = |state: &State| matches!(state, State::Up(live) if !known(live, &last));
        let any = |state: &State| matches!(state, State::Up(_));
        let same = tokio::time::timeout(at_most, self.state.wait_for(other))
            .await
            .map(|found| found.is_ok());
        let is_up = match same {
            Ok(is_up) => is_up,
            Err(_elapsed) => self.state.wait_for(any).await.is_ok(),
        };
        if let State::Up(live) = &*self.state.borrow() {
            self.last = Arc::downgrade(live);
        }
        is_up
    }
}

fn not_connected<T>() -> Result<T, HostError> {
    Err(HostError::Unavailable("not connected".into()))
}

// === impl State ===

impl State {
    fn known(&self) -> Option<Result<Arc<Live>, HostError>> {
        match self {
            Self::Connecting => None,
            Self::Up(live) => Some(Ok(live.clone())),
            Self::Down(error) => Some(Err(HostError::Unavailable(error.to_string()))),
        }
    }
}

/// Connects, and again whenever the connection is lost, until the link is dropped.
async fn keep(target: Target, states: watch::Sender<State>) {
    let mut next_attempt = Instant::now();
    let mut failure: Option<Arc<str>> = None;
    let mut brief = Brief::default();
    // A call before that waits, as for the first attempt itself.
    target.first_named().await;
    loop {
        sleep_until(next_attempt).await;
        next_attempt = Instant::now() + RECONNECT_INTERVAL;
        match connect(&target).await {
            Ok((endpoint, live)) => {
                let _open = endpoint.opened(Purpose::Calls);
                failure = None;
                let live = Arc::new(live);
                states.send_replace(State::Up(live.clone()));
                let lost = async {
                    tokio::select! {
                        () = live.until_lost(&endpoint) => {}
                        () = target.superseded(&endpoint) => live.loss.declare(),
                    }
                };
                brief.until(lost, &endpoint).await;
                next_attempt = next_attempt.max(Instant::now() + brief.pause());
                states.send_replace(if brief.is_usual() {
                    State::Down(CLOSED_AT_ONCE.into())
                } else {
                    State::Connecting
                });
            }
            Err(error) => {
                let error = target.explain(error);
                if failure.as_deref() != Some(&error) {
                    let is_told = failure.is_some_and(|it| reply::is_same_failure(&it, &error));
                    if !is_told {
                        tracing::warn!(?target, error, "cannot connect, retrying");
                    }
                    let error: Arc<str> = error.into();
                    failure = Some(error.clone());
                    states.send_replace(State::Down(error));
                }
            }
        }
    }
}

async fn connect(target: &Target) -> Result<(Endpoint, Live), String> {
    let endpoint = target.endpoint()?;
    let loss = Arc::new(Loss::default());
    let declared = loss.clone();
    let wire = endpoint
        .open_wire(move || declared.declare())
        .await
        .map_err(|error| reply::connect_failure(&error))?;
    let questions = target::questions();
    let asked = wire.send(questions.len(), None, |out| {
        out.extend(questions.get_packed_pipeline());
    });
    let asked = asked.map_err(|failure| failure.to_string());
    let run_id = target.check(&endpoint, asked).await?;
    target.confirm(&endpoint).await?;
    endpoint.load_scripts(&wire).await;
    let live = Live {
        wire,
        run_id,
        dialect: Dialect::default(),
        loss,
        stall: Stall::default(),
    };
    Ok((endpoint, live))
}

// === impl Live ===

impl Live {
    /// Which process the connection leads to, if that is known.
    pub(super) fn run_id(&self) -> Option<Arc<str>> {
        self.run_id.clone()
    }

    /// Sends the command that `write` writes, and waits for its answer. An error says whether it
    /// may have been executed.
    pub(super) async fn call(
        &self,
        deadline: Instant,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Value, HostError> {
        let mut answers = self.call_all(1, deadline, write).await?;
        self.answer(answers.pop())
    }

    /// Sends several commands in one write, and returns the answer of each, which may be an error.
    pub(super) async fn call_all(
        &self,
        commands: usize,
        deadline: Instant,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Vec<Value>, HostError> {
        self.admit()?;
        let sent = self.wire.send(commands, Some(deadline), write);
        sent.await.map_err(|failure| self.failed(&failure))
    }

    /// The same in a transaction, which commands of other callers may share. If the server refuses
    /// one of them, it carries out none, and an error is returned as the answer of each.
    pub(super) async fn call_in_transaction(
        &self,
        commands: usize,
        deadline: Instant,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Vec<Value>, HostError> {
        self.admit()?;
        let sent = self
            .wire
            .send_in_transaction(commands, Some(deadline), write);
        sent.await.map_err(|failure| self.failed(&failure))
    }

    /// The same after `ASKING`, with nothing in between: so a node takes a command for a slot that
    /// is about to become its own.
    pub(super) async fn call_asking(
        &self,
        deadline: Instant,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Value, HostError> {
        let both = self.call_all(2, deadline, |out| {
            put(out, [b"ASKING"]);
            write(out);
        });
        self.answer(both.await?.pop())
    }

    /// Whether one more command may be sent.
    fn admit(&self) -> Result<(), HostError> {
        if self.loss.certain.load(Ordering::Acquire) {
            return Err(HostError::Unavailable("the connection was lost".into()));
        }
        if !self.stall.admits() {
            return Err(HostError::Unavailable(
                "the server has stopped answering".into(),
            ));
        }
        Ok(())
    }

    /// What a server's answer comes to.
    fn answer(&self, answer: Option<Value>) -> Result<Value, HostError> {
        match answer {
            Some(Value::ServerError(error)) => {
                if reply::is_demoted(&error) {
                    self.loss.noticed.notify_one();
                }
                Err(reply::refusal(&error))
            }
            answer => Ok(answer.unwrap_or(Value::Nil)),
        }
    }

    /// What a call comes to that was not answered.
    fn failed(&self, failure: &Failure) -> HostError {
        match failure {
            Failure::Closed | Failure::Lost(_) => self.loss.declare(),
            Failure::NoRoom | Failure::Silent => self.stall.begins(),
        }
        let why = failure.to_string();
        if failure.was_sent() {
            // From here on there is no way to know how far the commands came.
            HostError::OutcomeUnknown(why)
        } else {
            HostError::Unavailable(why)
        }
    }

    /// Resolves when the connection has to be replaced. Meanwhile finds out when a server that had
    /// stopped answering has caught up.
    async fn until_lost(&self, endpoint: &Endpoint) {
        let opened = Instant::now();
        let lost = async {
            loop {
                self.loss.noticed.notified().await;
                if self.loss.certain.load(Ordering::Acquire) || opened.elapsed() >= SUSPECT_AFTER {
                    return;
                }
            }
        };
        let probes = async {
            loop {
                self.stall.begun().await;
                // The answer comes after those to all earlier calls.
                let ping = self.wire.send(1, None, |out| put(out, [b"PING"]));
                tokio::select! {
                    answer = ping => match answer {
                        Ok(_) => self.stall.ends(),
                        Err(_) => self.loss.declare(),
                    },
                    () = answered_elsewhere(endpoint) => self.loss.declare(),
                }
            }
        };
        tokio::select! {
            () = lost => {}
            () = probes => {}
        }
    }
}

/// Resolves if it is not the server that has stopped answering, but a connection to it: a new one
/// works, and the old one stays silent still. A frozen server does not answer on a new connection
/// either.
async fn answered_elsewhere(endpoint: &Endpoint) {
    loop {
        sleep(SECOND_OPINION_AFTER).await;
        if endpoint
            .connect(|_: PushInfo| Ok::<(), SendError>(()))
            .await
            .is_ok()
        {
            sleep(SECOND_OPINION_AFTER).await;
            return;
        }
    }
}

// === impl Loss ===

impl Loss {
    fn declare(&self) {
        self.certain.store(true, Ordering::Release);
        self.noticed.notify_one();
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
