//! Calls of one connection, from when they are made until they are answered.
//!
//! A transaction takes the commands of several callers: `MULTI` and `EXEC` are a sixth of what a
//! release costs Redis, and every caller would pay them otherwise.

use std::{collections::VecDeque, io, mem};

use deadpool_redis::redis::Value;
use tokio::{sync::oneshot, time::Instant};

// As they are written.
const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// Callers of one transaction, during which Redis answers nobody else.
pub(super) const CALLERS_MAX: usize = 64;

/// The answer of each command, which may be an error.
pub(super) type Outcome = Result<Vec<Value>, Failure>;

/// Resolves to the outcome of a call; to nothing if the queue is dropped.
pub(super) type Answers = oneshot::Receiver<Outcome>;

/// Why a call has no answer.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum Failure {
    /// It was not sent, because the connection is closed.
    #[error("the connection was lost")]
    Closed,
    /// It was not sent, because the server takes nothing.
    #[error("the server has stopped answering")]
    NoRoom,
    /// It was sent, and the answer did not come in time.
    #[error("no answer in time")]
    Silent,
    /// It was sent, and then the connection was lost.
    #[error("{0}")]
    Lost(String),
}

/// Calls that are not answered yet.
#[derive(Default)]
pub(super) struct Queue {
    /// What is not taken yet to be written, but for `joinable`.
    unsent: Vec<u8>,
    /// The transaction that further callers may join. It is written behind `unsent`.
    joinable: Transaction,
    /// In the order in which the server answers.
    calls: VecDeque<Sent>,
    /// No caller that still waits has an earlier deadline.
    earliest: Option<Instant>,
    is_closed: bool,
}

#[derive(Default)]
struct Transaction {
    commands: Vec<u8>,
    callers: Vec<Caller>,
}

/// Commands that are answered together.
pub(super) struct Sent {
    commands: usize,
    answers: Vec<Value>,
    callers: Callers,
}

enum Callers {
    One(Caller),
    OfTransaction(Vec<Caller>),
}

struct Caller {
    commands: usize,
    deadline: Option<Instant>,
    /// None once it has an outcome: its answers are still to come.
    outcome: Option<oneshot::Sender<Outcome>>,
}

// === impl Failure ===

impl Failure {
    /// Whether the server may have the commands.
    pub(super) fn was_sent(&self) -> bool {
        matches!(self, Self::Silent | Self::Lost(_))
    }
}

// === impl Queue ===

impl Queue {
    /// Adds the commands that `write` writes.
    pub(super) fn push(
        &mut self,
        commands: usize,
        deadline: Option<Instant>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Answers, Failure> {
        let (caller, answers) = self.caller(commands, deadline)?;
        write(&mut self.unsent);
        self.calls
            .push_back(Sent::new(commands, Callers::One(caller)));
        Ok(answers)
    }

    /// Adds the commands that `write` writes as a transaction, or as a part of one.
    pub(super) fn push_in_transaction(
        &mut self,
        commands: usize,
        deadline: Option<Instant>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Answers, Failure> {
        let (caller, answers) = self.caller(commands, deadline)?;
        write(&mut self.joinable.commands);
        self.joinable.callers.push(caller);
        if self.joinable.callers.len() == CALLERS_MAX {
            self.end_transaction();
        }
        Ok(answers)
    }

    fn caller(
        &mut self,
        commands: usize,
        deadline: Option<Instant>,
    ) -> Result<(Caller, Answers), Failure> {
        if self.is_closed {
            return Err(Failure::Closed);
        }
        let earlier = deadline.filter(|it| self.earliest.is_none_or(|earliest| *it < earliest));
        self.earliest = earlier.or(self.earliest);
        let (outcome, answers) = oneshot::channel();
        let caller = Caller {
            commands,
            deadline,
            outcome: Some(outcome),
        };
        Ok((caller, answers))
    }

    /// No more callers join the transaction, if there is one, and no later call overtakes it.
    pub(super) fn end_transaction(&mut self) {
        let Transaction { commands, callers } = &mut self.joinable;
        if callers.is_empty() {
            return;
        }
        self.unsent.extend_from_slice(MULTI);
        self.unsent.append(commands);
        self.unsent.extend_from_slice(EXEC);
        let callers = mem::take(callers);
        let commands = 2 + callers.iter().map(|it| it.commands).sum::<usize>();
        let callers = Callers::OfTransaction(callers);
        self.calls.push_back(Sent::new(commands, callers));
    }

    /// How much is to be written.
    pub(super) fn unsent(&self) -> usize {
        self.unsent.len() + self.joinable.commands.len()
    }

    /// Takes what is to be written, in exchange for an empty buffer.
    pub(super) fn take_unsent(&mut self, empty: &mut Vec<u8>) {
        self.end_transaction();
        mem::swap(&mut self.unsent, empty);
    }

    /// Takes no calls any more. Returns those that it has.
    pub(super) fn close(&mut self) -> VecDeque<Sent> {
        self.is_closed = true;
        self.end_transaction();
        self.unsent = Vec::new();
        mem::take(&mut self.calls)
    }

    /// Adds an answer to those of the oldest call. Returns the call if that was its last.
    pub(super) fn answered(&mut self, answer: Value) -> io::Result<Option<Sent>> {
        let unasked = || io::Error::other("the server has answered what it was not asked");
        let call = self.calls.front_mut().ok_or_else(unasked)?;
        call.answers.push(answer);
        let is_last = call.answers.len() == call.commands;
        Ok(if is_last {
            self.calls.pop_front()
        } else {
            None
        })
    }

    /// The earliest deadline, or one before it.
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.earliest
    }

    /// Ends the calls whose time is over. Their answers are still to come.
    pub(super) fn expire(&mut self, now: Instant) {
        // What such a caller does next is not to overtake what it has done.
        self.end_transaction();
        self.earliest = None;
        for caller in self.calls.iter_mut().flat_map(Sent::callers) {
            let Some(deadline) = caller.deadline.filter(|_| caller.outcome.is_some()) else {
                continue;
            };
            if deadline <= now {
                caller.ends(Err(Failure::Silent));
            } else if self.earliest.is_none_or(|earliest| deadline < earliest) {
                self.earliest = Some(deadline);
            }
        }
    }
}

// === impl Sent ===

impl Sent {
    fn new(commands: usize, callers: Callers) -> Self {
        Self {
            commands,
            answers: Vec::with_capacity(commands),
            callers,
        }
    }

    fn callers(&mut self) -> &mut [Caller] {
        match &mut self.callers {
            Callers::One(caller) => std::slice::from_mut(caller),
            Callers::OfTransaction(callers) => callers,
        }
    }

    /// Hands the answers out, which are complete.
    pub(super) fn succeeds(mut self) {
        match &mut self.callers {
            Callers::One(caller) => caller.ends(Ok(self.answers)),
            Callers::OfTransaction(callers) => hand_out(self.answers, callers),
        }
    }

    /// There will be no answers any more.
    pub(super) fn fails(mut self, why: &Failure) {
        for caller in self.callers() {
            caller.ends(Err(why.clone()));
        }
    }
}

/// Gives each caller the answers to its commands. If none were carried out, each is an error: why
/// the server refused one of this caller, or else the transaction.
fn hand_out(answers: Vec<Value>, callers: &mut [Caller]) {
    let mut queued = answers.into_iter();
    let (begun, ended) = (queued.next(), queued.next_back());
    let mut results = match (begun, ended) {
        // Without a transaction they were carried out one after the other.
        (Some(Value::ServerError(_)), _) => Ok(mem::take(&mut queued)),
        (_, Some(Value::Array(results))) => Ok(results.into_iter()),
        (_, aborted) => Err(aborted.unwrap_or(Value::Nil)),
    };
    for caller in callers {
        let own = match &mut results {
            Ok(results) => results.take(caller.commands).collect(),
            Err(aborted) => {
                let queued: Vec<_> = queued.by_ref().take(caller.commands).collect();
                let mut refused = queued.into_iter().filter(is_error);
                vec![refused.next().unwrap_or_else(|| aborted.clone()); caller.commands]
            }
        };
        caller.ends(Ok(own));
    }
}

fn is_error(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(_))
}

// === impl Caller ===

impl Caller {
    fn ends(&mut self, outcome: Outcome) {
        if let Some(sender) = self.outcome.take() {
            // It may not wait any more.
            let _ = sender.send(outcome);
        }
    }
}
