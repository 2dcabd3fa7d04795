//! Where the answers of an operation go.

use lockkeeper_access::Account;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;

use crate::{
    error::Error,
    latch::LatchAnswer,
    mailbox::{MailboxWriter, mailbox},
    operation::Answer,
    progress::{Progress, WaitState},
    semaphore::outcome::PermitAnswer,
};

/// Where the answers go. The operation counts as unwanted when it is cancelled or when nobody
/// listens any more.
#[derive(Debug)]
pub struct Reply {
    /// Repeated in each answer.
    pub op_id: u64,
    /// Whom to answer.
    pub to: AnswersTo,
    /// Ends a wait.
    pub cancel: Option<CancellationToken>,
    /// The operation's share of a bound on short operations; given back with the answer, or when a
    /// wait begins.
    pub slot: Option<OwnedSemaphorePermit>,
    /// On whose account it waits.
    pub account: Account,
}

/// Who takes the answers of an operation.
#[derive(Debug)]
pub enum AnswersTo {
    /// A queue for many operations. A second slot is needed to be told of a wait, the last answer
    /// takes any.
    Queue(mpsc::Sender<(u64, Answer)>),
    /// A mailbox for this one.
    Mailbox(MailboxWriter<Answer>),
}

// === impl Reply ===

impl Reply {
    /// To nobody.
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

    /// Gives the last answer. If nobody listens, it is dropped, and a grant in it is given back.
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
            WaitState::Permits(waiting) => Answer::Permits(PermitAnswer::Waiting(waiting)),
            WaitState::Latch(count) => Answer::Latch(LatchAnswer::Waiting(count)),
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
