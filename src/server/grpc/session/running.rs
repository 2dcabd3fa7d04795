//! The operations of one stream that do not wait, until they are answered. The stream's reader runs
//! them all without a task for each, so answers that the store batches stay together.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures::{
    FutureExt as _,
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt as _},
};
use lockkeeper_base::tasks::DetachOnDrop;
use lockkeeper_coordinator::{Answer, Answered};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// See [`Running::poll_drive`].
pub(super) struct Running {
    operations: FuturesUnordered<Stage>,
    answers: mpsc::Sender<Answered>,
}

/// The slot is freed with the answer.
pub(super) type Slot = Option<OwnedSemaphorePermit>;

enum Stage {
    Asked {
        op_id: u64,
        answer: DetachOnDrop<Box<Answer>>,
        slot: Slot,
    },
    /// The queue of answers is full.
    Telling(BoxFuture<'static, ()>),
}

// === impl Running ===

impl Running {
    pub(super) fn new(answers: mpsc::Sender<Answered>) -> Self {
        Self {
            operations: FuturesUnordered::new(),
            answers,
        }
    }

    /// Runs an operation and queues its answer.
    pub(super) fn ask(&mut self, op_id: u64, answer: DetachOnDrop<Box<Answer>>, slot: Slot) {
        self.operations.push(Stage::Asked {
            op_id,
            answer,
            slot,
        });
    }

    /// Runs the operations, and queues the answers of those that have ended; ready when all have.
    pub(super) fn poll_drive(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(ended) = ready!(self.operations.poll_next_unpin(cx)) {
            if let Some((op_id, answer, slot)) = ended {
                self.tell(op_id, answer, slot);
            }
        }
        Poll::Ready(())
    }

    /// Queues an answer as soon as there is room.
    pub(super) fn tell(&mut self, op_id: u64, answer: Box<Answer>, slot: Slot) {
        // A closed queue drops the answer, which releases a grant in it.
        if let Err(mpsc::error::TrySendError::Full(answered)) =
            self.answers.try_send((op_id, answer))
        {
            let answers = self.answers.clone();
            let telling = async move {
                let _ = answers.send(answered).await;
                drop(slot);
            };
            self.operations.push(Stage::Telling(telling.boxed()));
        }
    }
}

// === impl Stage ===

impl Future for Stage {
    type Output = Option<(u64, Box<Answer>, Slot)>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Asked {
                op_id,
                answer,
                slot,
            } => answer
                .poll_unpin(cx)
                .map(|answer| Some((*op_id, answer, slot.take()))),
            Self::Telling(telling) => telling.poll_unpin(cx).map(|()| None),
        }
    }
}
