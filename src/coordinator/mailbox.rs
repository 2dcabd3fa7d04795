//! The answers of one call: the present state of its wait, and the last answer. A newer state
//! replaces an unread one, so nothing piles up, and a silent call takes little memory. (A channel
//! would reserve room for dozens of answers per waiting call.)

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;

/// Writes a call's answers.
#[derive(Debug)]
pub struct MailboxWriter<T>(Arc<Mutex<Mailbox<T>>>);

/// Reads a call's answers. Once it is dropped, nobody wants them.
#[derive(Debug)]
pub struct MailboxReader<T>(Arc<Mutex<Mailbox<T>>>);

#[derive(Debug)]
struct Mailbox<T> {
    waiting: Option<Box<T>>,
    last: Option<Box<T>>,
    reader_gone: bool,
    writer_gone: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// Both ends of an empty mailbox.
pub fn mailbox<T>() -> (MailboxWriter<T>, MailboxReader<T>) {
    let mailbox = Arc::new(Mutex::new(Mailbox {
        waiting: None,
        last: None,
        reader_gone: false,
        writer_gone: false,
        reader: None,
        writer: None,
    }));
    (MailboxWriter(Arc::clone(&mailbox)), MailboxReader(mailbox))
}

// === impl MailboxWriter ===

impl<T> MailboxWriter<T> {
    /// Puts an answer in; it replaces an earlier one of the wait. False if nobody wants it.
    pub(crate) fn tell(&self, answer: T) -> bool {
        self.put(answer, |mailbox, answer| mailbox.waiting.replace(answer))
    }

    /// Puts the last answer in. If nobody wants it, it is dropped.
    pub(crate) fn finish(&self, answer: T) {
        self.put(answer, |mailbox, answer| mailbox.last.replace(answer));
    }

    /// Resolves when the reader is gone.
    pub(crate) async fn closed(&self) {
        poll_fn(|cx| {
            let mut mailbox = self.0.lock();
            if mailbox.reader_gone {
                return Poll::Ready(());
            }
            keep(&mut mailbox.writer, cx);
            Poll::Pending
        })
        .await;
    }

    /// Drops the replaced answer outside of the lock: it can be a grant, which is then given back.
    fn put(&self, answer: T, into: impl FnOnce(&mut Mailbox<T>, Box<T>) -> Option<Box<T>>) -> bool {
        let answer = Box::new(answer);
        let mut mailbox = self.0.lock();
        if mailbox.reader_gone {
            drop(mailbox);
            return false;
        }
        let before = into(&mut mailbox, answer);
        let reader = mailbox.reader.take();
        drop(mailbox);
        drop(before);
        wake(reader);
        true
    }
}

impl<T> Drop for MailboxWriter<T> {
    fn drop(&mut self) {
        let mut mailbox = self.0.lock();
        mailbox.writer_gone = true;
        let reader = mailbox.reader.take();
        drop(mailbox);
        wake(reader);
    }
}

// === impl MailboxReader ===

impl<T> MailboxReader<T> {
    /// The next answer; none after the last.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut mailbox = self.0.lock();
        let waiting = mailbox.waiting.take();
        if let Some(answer) = waiting.or_else(|| mailbox.last.take()) {
            return Poll::Ready(Some(*answer));
        }
        if mailbox.writer_gone {
            return Poll::Ready(None);
        }
        keep(&mut mailbox.reader, cx);
        Poll::Pending
    }

    /// The next answer; none after the last.
    pub async fn recv(&mut self) -> Option<T> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }
}

impl<T> Drop for MailboxReader<T> {
    fn drop(&mut self) {
        let mut mailbox = self.0.lock();
        mailbox.reader_gone = true;
        let unread = (mailbox.waiting.take(), mailbox.last.take());
        let writer = mailbox.writer.take();
        drop(mailbox);
        drop(unread);
        wake(writer);
    }
}

fn keep(slot: &mut Option<Waker>, cx: &Context<'_>) {
    if slot
        .as_ref()
        .is_none_or(|waker| !waker.will_wake(cx.waker()))
    {
        *slot = Some(cx.waker().clone());
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn the_newest_state_of_a_wait_is_read_and_then_the_last_answer() {
        let (writer, mut reader) = mailbox();
        assert!(reader.recv().now_or_never().is_none());
        assert!(writer.tell("second"));
        assert!(writer.tell("first"));
        writer.finish("granted");
        drop(writer);
        assert_eq!(reader.recv().now_or_never(), Some(Some("first")));
        assert_eq!(reader.recv().now_or_never(), Some(Some("granted")));
        assert_eq!(reader.recv().now_or_never(), Some(None), "it is over");
    }

    #[tokio::test]
    async fn each_end_wakes_the_other_when_it_goes() {
        let (writer, mut reader) = mailbox::<()>();
        let ((), none) = tokio::join!(async { drop(writer) }, reader.recv());
        assert!(none.is_none());
        let (writer, reader) = mailbox();
        tokio::join!(biased; writer.closed(), async { drop(reader) });
        assert!(!writer.tell(()), "nobody reads");
    }

    #[tokio::test]
    async fn the_task_that_asked_last_is_woken() {
        use futures::task::{ArcWake, waker};
        use std::sync::atomic::{AtomicBool, Ordering};

        #[derive(Default)]
        struct Task(AtomicBool);

        impl ArcWake for Task {
            fn wake_by_ref(task: &std::sync::Arc<Self>) {
                task.0.store(true, Ordering::Relaxed);
            }
        }

        let (writer, mut reader) = mailbox();
        let [former, present] = [(); 2].map(|()| std::sync::Arc::<Task>::default());
        for task in [&former, &former, &present] {
            let waker = waker(std::sync::Arc::clone(task));
            let poll = reader.poll_recv(&mut Context::from_waker(&waker));
            assert!(poll.is_pending());
        }
        assert!(writer.tell("first"));
        let is_woken = |task: &Task| task.0.load(Ordering::Relaxed);
        assert!(is_woken(&present) && !is_woken(&former));
    }
}
