//! The destination of an operation's answers.

use lockkeeper_access::Account;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;

use crate::{
    answer::Answer,
    error::Error,
    mailbox::{MailboxWriter, mailbox},
    progress::{Progress, WaitState},
};

/// The destination of the answers. The operation counts as unwanted once it is cancelled or nobody
/// listens.
#[derive(Debug)]
pub struct Reply {
    /// Repeated in each answer.
    pub op_id: u64,
    /// The receiver of the answers.
    pub to: AnswersTo,
    /// Cancels the wait.
    pub cancel: Option<CancellationToken>,
    /// The operation's share of a bound on short operations; returned with the answer, or when a
    /// wait begins.
    pub slot: Option<OwnedSemaphorePermit>,
    /// The account that the wait counts against.
    pub account: Account,
}

/// The receiver of an operation's answers.
#[derive(Debug)]
pub enum AnswersTo {
    /// A queue for many operations. Only a notification of a wait needs a second free slot; the
    /// last answer takes any.
    Queue(mpsc::Sender<(u64, Answer)>),
    /// A mailbox for this operation.
    Mailbox(MailboxWriter<Answer>),
}

// === impl Reply ===

impl Reply {
    /// A reply without a receiver.
    pub(crate) fn unheard() -> Self {
        Self {
            op_id: 0,
            to: AnswersTo::Mailbox(mailbox().0),
            cancel: None,
            slot: None,
            account: Account::default(),
        }
    }

    fn tell(&self, answer: Answer) -> bool {
        match &self.to {
            AnswersTo::Queue(queue) => {
                queue.capacity() > 1 && queue.try_send((self.op_id, answer)).is_ok()
            }
            AnswersTo::Mailbox(mailbox) => mailbox.tell(answer),
        }
    }

    /// Sends the last answer. If nobody listens, it is dropped, and a grant in it is given back.
    pub(crate) async fn finish(self, answer: Result<Answer, Error>) {
        let answer = answer.unwrap_or_else(Answer::Failed);
        match &self.to {
            AnswersTo::Queue(queue) => drop(queue.send((self.op_id, answer)).await),
            AnswersTo::Mailbox(mailbox) => mailbox.finish(answer),
        }
    }
}

impl Progress for Reply {
    fn notify(&self, state: WaitState) -> bool {
        self.tell(match state {
            WaitState::Lock(waiting) => Answer::Waiting(waiting),
            WaitState::OneOf(name, waiting) => Answer::WaitingForAll(name, waiting),
            WaitState::Permits(waiting) => Answer::WaitingForPermits(waiting),
            WaitState::Latch(count) => Answer::WaitingForLatch(count),
        })
    }

    async fn gone(&self) {
        match &self.cancel {
            None => self.to.closed().await,
            Some(cancel) => tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = self.to.closed() => {}
            },
        }
    }

    fn account(&self) -> &Account {
        &self.account
    }

    fn begin_wait(&mut self) {
        self.slot = None;
    }
}

// === impl AnswersTo ===

impl From<mpsc::Sender<(u64, Answer)>> for AnswersTo {
    fn from(queue: mpsc::Sender<(u64, Answer)>) -> Self {
        Self::Queue(queue)
    }
}

impl AnswersTo {
    async fn closed(&self) {
        match self {
            Self::Queue(queue) => queue.closed().await,
            Self::Mailbox(mailbox) => mailbox.closed().await,
        }
    }
}
