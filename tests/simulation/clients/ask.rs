//! One operation, from the request to the final answer or to the moment at which the client loses
//! interest.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use lockkeeper_access::Account;
use lockkeeper_coordinator::{
    Answer, Answered, Delivery, Error, Grant, Operation, Reply, Tried, WaitEnd,
};
use lockkeeper_store::script::CallError;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::{
    history::{History, Holder, Kind, Name, Op, Seen, Told, What},
    world::{Node, World},
};

/// Nothing was done, because the owner would wait for itself.
pub(crate) const SELF_DEADLOCK: &str = "self deadlock";

/// How long the client wants the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    ToTheEnd,
    /// Stops listening.
    LeaveAfter(Duration),
    /// Asks for the end of the wait, and takes what comes then.
    CancelAfter(Duration),
    /// Lets the answer lie for so long and then goes without having read it.
    IgnoreAnswer(Duration),
}

/// The end of an operation; no answer if the client left or the coordinator is gone.
pub(crate) type Done = (Op, Option<Told>);

/// An operation under way. Dropping the future is losing interest.
pub(crate) struct Asking {
    pub(crate) op: Op,
    pub(crate) end: BoxFuture<'static, Done>,
}

/// Records that an operation is not waited for any more, unless it was answered.
struct Interest {
    history: History,
    op: Option<Op>,
}

/// Asks now.
pub(crate) fn ask(
    world: &World,
    node: &Arc<Node>,
    (holder, name, kind): (Holder, Name, Kind),
    operation: Operation,
    repeats: Option<Op>,
    patience: Patience,
) -> Asking {
    let history = world.history.clone();
    let op = history.next_op();
    history.record(What::Invoked {
        op,
        holder,
        name,
        node: node.number,
        kind,
        repeats,
    });
    let (to, answers) = mpsc::channel(3);
    let cancel = CancellationToken::new();
    let reply = Reply {
        op_id: u64::from(op),
        to: to.into(),
        cancel: Some(cancel.clone()),
        slot: None,
        account: Account::default(),
    };
    node.coordinator.submit(operation, reply);
    let interest = Interest {
        history: history.clone(),
        op: Some(op),
    };
    let down = node.down.clone();
    let end = async move {
        let end = tokio::select! {
            biased;
            () = down.cancelled() => None,
            end = listen(answers, op, &cancel, patience, &history) => end,
        };
        let Some(answer) = end else {
            return (op, None);
        };
        let told = read(answer, kind, &history);
        interest.satisfied();
        history.record(What::Told(op, told.clone()));
        (op, Some(told))
    };
    Asking {
        op,
        end: Box::pin(end),
    }
}

async fn listen(
    mut answers: mpsc::Receiver<Answered>,
    op: Op,
    cancel: &CancellationToken,
    patience: Patience,
    history: &History,
) -> Option<Option<Answer>> {
    let (mut leave, mut give_up) = (None, None);
    match patience {
        Patience::LeaveAfter(after) => leave = Some(Instant::now() + after),
        Patience::CancelAfter(after) => give_up = Some(Instant::now() + after),
        Patience::ToTheEnd | Patience::IgnoreAnswer(_) => {}
    }
    let at = |at: Option<Instant>| tokio::time::sleep_until(at.unwrap_or_else(Instant::now));
    let answer = loop {
        tokio::select! {
            biased;
            () = at(leave), if leave.is_some() => return None,
            () = at(give_up), if give_up.is_some() => {
                give_up = None;
                history.record(What::Cancelled(op));
                cancel.cancel();
            }
            answer = answers.recv() => match answer {
                Some((_, answer)) if matches!(*answer, Answer::Waiting(_)) => {}
                answered => break answered.map(|(_, answer)| *answer),
            }
        }
    };
    if let Patience::IgnoreAnswer(after) = patience {
        history.record(What::Unread(op));
        sleep(after).await;
        return None;
    }
    if let Ok((op, more)) = answers.try_recv() {
        let rule = format!("#{op} was answered twice: {answer:?} and {more:?}");
        history.record(What::Broke(rule));
    }
    Some(answer)
}

fn read(answer: Option<Answer>, kind: Kind, history: &History) -> Told {
    match answer {
        None => Told::Nothing,
        Some(Answer::Granted(delivery) | Answer::Tried(Tried::Acquired(delivery))) => {
            take(delivery, history)
        }
        Some(Answer::Tried(Tried::Busy { .. })) => Told::Busy,
        Some(Answer::NotGranted(ended)) if ended.why == WaitEnd::Cancelled => Told::Cancelled,
        Some(Answer::NotGranted(_)) => Told::TimedOut,
        Some(Answer::Released(left)) => Told::Released(left),
        Some(Answer::Renewed(grant)) => Told::Renewed(seen(&grant, history)),
        Some(Answer::Failed(error)) => failed(&error, kind, history),
        Some(answer) => {
            history.record(What::Broke(format!("no answer to {kind:?}: {answer:?}")));
            Told::Nothing
        }
    }
}

fn take(delivery: Delivery, history: &History) -> Told {
    match delivery.take() {
        Ok(grant) => Told::Granted(seen(&grant, history)),
        Err(_) => Told::NotOwner,
    }
}

pub(crate) fn seen(grant: &Grant, history: &History) -> Seen {
    Seen {
        token: grant.fencing_token,
        count: grant.hold_count,
        safe_until: history.millis(grant.safe_until),
        watched: grant.watched,
    }
}

pub(crate) fn failed(error: &Error, kind: Kind, history: &History) -> Told {
    match error {
        Error::NotOwner(_) => Told::NotOwner,
        Error::SessionNotFound => Told::Refused("session not found"),
        Error::SessionDetached => Told::Refused("session detached"),
        Error::SessionSuperseded => Told::Refused("session superseded"),
        Error::SessionEndedByForce(_) => Told::Refused("session ended by force"),
        Error::Draining => Told::Refused("draining"),
        Error::Store(CallError::RequestOver) => Told::Refused("request over"),
        Error::Store(CallError::SelfDeadlock) => Told::Refused(SELF_DEADLOCK),
        // The answer to a repeat is not undone.
        Error::Store(CallError::OutcomeUnknown(_) | CallError::NotReplicated { .. }) => {
            Told::Unknown
        }
        // A wait makes many attempts, and this tells only of the last.
        Error::Store(CallError::Unavailable(_))
            if matches!(kind, Kind::Acquire(_) | Kind::AcquireAll(_)) =>
        {
            Told::Unknown
        }
        Error::Store(CallError::Unavailable(_)) => Told::Refused("unavailable"),
        Error::Invalid(_)
        | Error::ResumeTokenInvalid
        | Error::ResumeTokenExpired
        | Error::SessionEnded
        | Error::LimitReached(_)
        | Error::QuotaReached(_)
        | Error::Forbidden { .. }
        | Error::TicketRefused(_)
        | Error::CandidateNotWaiting
        | Error::SemaphoreNotFound
        | Error::PermitsExceeded { .. }
        | Error::CountExceeded { .. }
        | Error::StoreOf(..)
        | Error::Store(
            CallError::OutOfMemory
            | CallError::WrongKind
            | CallError::CounterOutOfRange
            | CallError::LimitReached(_)
            | CallError::RequestIdReused
            | CallError::Unsupported(_)
            | CallError::Refused(_),
        ) => {
            history.record(What::Broke(format!("{kind:?} failed: {error}")));
            Told::Unknown
        }
    }
}

// === impl Interest ===

impl Interest {
    fn satisfied(mut self) {
        self.op = None;
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        if let Some(op) = self.op {
            self.history.record(What::Dropped(op));
        }
    }
}
