//! The destination of an operation's answers.

use std::future::pending;

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

/// The id of an operation, and an answer to it, in a box: an empty queue has room for dozens.
pub type Answered = (u64, Box<Answer>);

/// The receiver of an operation's answers.
#[derive(Debug)]
pub enum AnswersTo {
    /// A queue for many operations. Only a notification of a wait needs a second free slot; the
    /// last answer takes any.
    Queue(mpsc::Sender<Answered>),
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
                queue.capacity() > 1 && queue.try_send((self.op_id, Box::new(answer))).is_ok()
            }
            AnswersTo::Mailbox(mailbox) => mailbox.tell(answer),
        }
    }

    /// Sends the last answer. If nobody listens, it is dropped, and a grant in it is given back.
    pub(crate) async fn finish(self, answer: Result<Answer, Error>) {
        let answer = answer.unwrap_or_else(Answer::Failed);
        match &self.to {
            AnswersTo::Queue(queue) => {
                drop(queue.send((self.op_id, Box::new(answer))).await);
            }
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
        let cancelled = async {
            match &self.cancel {
                Some(cancel) => cancel.cancelled().await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = cancelled => {}
            () = self.to.closed() => {}
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

impl From<mpsc::Sender<Answered>> for AnswersTo {
    fn from(queue: mpsc::Sender<Answered>) -> Self {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt as _;
    use lockkeeper_access::Quotas;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::{
        testing::{account, name},
        types::HolderKnown,
    };

    fn reply(to: AnswersTo) -> Reply {
        Reply {
            op_id: 7,
            to,
            ..Reply::unheard()
        }
    }

    fn waiting() -> crate::lock::outcome::Waiting {
        let (position, holder) = (1, HolderKnown::default());
        crate::lock::outcome::Waiting { position, holder }
    }

    #[tokio::test]
    async fn a_queue_keeps_its_last_slot_for_the_last_answer() {
        let (to, mut answers) = mpsc::channel(2);
        let reply = reply(to.into());
        assert!(reply.notify(WaitState::Lock(waiting())));
        assert!(!reply.notify(WaitState::Latch(3)), "one slot is left");
        reply.finish(Ok(Answer::Resigned(0))).await;
        let (op_id, first) = answers.recv().await.unwrap();
        assert!(op_id == 7 && first.is_about_wait(), "{first:?}");
        let (op_id, last) = answers.recv().await.unwrap();
        assert!(op_id == 7 && !last.is_about_wait(), "{last:?}");
        assert!(answers.recv().await.is_none());
    }

    #[tokio::test]
    async fn each_state_of_a_wait_is_an_answer_of_its_own() {
        let (to, mut answers) = mpsc::channel(9);
        let reply = reply(to.into());
        assert!(reply.notify(WaitState::OneOf(name("a"), waiting())));
        assert!(reply.notify(WaitState::Latch(3)));
        let mut next = || answers.try_recv().unwrap().1;
        let of_all = next();
        assert!(of_all.is_about_wait() && matches!(*of_all, Answer::WaitingForAll(..)));
        let latch = next();
        assert!(latch.is_about_wait() && matches!(*latch, Answer::WaitingForLatch(3)));
    }

    #[tokio::test]
    async fn a_mailbox_has_room_for_each_answer_until_its_reader_goes() {
        let (to, reader) = mailbox();
        let reply = reply(AnswersTo::Mailbox(to));
        assert!(reply.notify(WaitState::Latch(2)) && reply.notify(WaitState::Latch(1)));
        assert!(reply.gone().now_or_never().is_none());
        drop(reader);
        assert!(reply.gone().now_or_never().is_some());
        assert!(!reply.notify(WaitState::Latch(0)));
    }

    #[tokio::test]
    async fn a_caller_is_gone_once_it_cancels_or_nobody_listens() {
        for cancels in [true, false] {
            let (to, answers) = mpsc::channel(1);
            let cancel = CancellationToken::new();
            let reply = Reply {
                cancel: Some(cancel.clone()),
                ..reply(to.into())
            };
            assert!(reply.gone().now_or_never().is_none());
            if cancels {
                cancel.cancel();
            } else {
                drop(answers);
            }
            assert!(reply.gone().now_or_never().is_some());
        }
    }

    #[tokio::test]
    async fn a_wait_is_no_short_operation_and_counts_for_its_caller() {
        let slots = Arc::new(Semaphore::new(1));
        let caller = account(Quotas::default());
        let mut reply = Reply {
            slot: Arc::clone(&slots).try_acquire_owned().ok(),
            account: caller.clone(),
            ..Reply::unheard()
        };
        assert_eq!(slots.available_permits(), 0);
        assert_eq!(reply.account().identity(), caller.identity());
        reply.begin_wait();
        assert_eq!(slots.available_permits(), 1);
    }
}
