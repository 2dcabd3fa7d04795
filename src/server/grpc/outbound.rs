//! The frames of a session's stream to its client.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use lockkeeper_coordinator::{Answer, Answered, Error, Notice};
use tokio::{
    sync::mpsc,
    time::{Instant, Sleep, sleep},
};
use tokio_stream::Stream;
use tonic::Status;

use super::{
    Metrics, notice,
    pb::{self, session_response::Response},
    session::{
        frames::response,
        waits::{OP_ID, Waits},
    },
    status::{message, status},
    viewer::Viewer,
};

/// How long the state of a wait is kept for a frame that it can be sent together with. A client
/// whose waiter joins while the lock is being handed over would be woken twice otherwise, and the
/// coordinator would be kept from the hand-over.
const STATE_KEPT: Duration = Duration::from_millis(1);

/// A frame that is not an answer.
#[derive(Debug)]
pub(super) enum Outgoing {
    Opened(Box<pb::SessionOpened>),
    Notice(Notice),
    /// Answers the ping with this id.
    Pong(u64),
    /// The last: the stream ends after the queued answers.
    End(Option<Status>),
}

/// The stream that tonic reads.
#[derive(Debug)]
pub(super) struct Outbound {
    answers: Answers,
    notices: mpsc::Receiver<Outgoing>,
    /// Counts the frames that were read, but not new tokens: they are sent to any client, and so
    /// are no sign of life.
    progress: Arc<AtomicU64>,
    waits: Waits,
    viewer: Viewer,
    metrics: Metrics,
    state: State,
}

/// The answers in their order; the state of a wait not long before the next one.
#[derive(Debug)]
struct Answers {
    queue: mpsc::Receiver<Answered>,
    kept: Option<Answered>,
    /// When it is sent alone.
    kept_until: Option<Pin<Box<Sleep>>>,
    /// The one behind it.
    next: Option<Answered>,
}

#[derive(Debug)]
enum State {
    Open,
    Ending(Option<Status>),
    Ended,
}

// === impl Outbound ===

impl Outbound {
    pub(super) fn new(
        answers: mpsc::Receiver<Answered>,
        notices: mpsc::Receiver<Outgoing>,
        progress: Arc<AtomicU64>,
        waits: Waits,
        viewer: Viewer,
        metrics: Metrics,
    ) -> Self {
        Self {
            answers: Answers::of(answers),
            notices,
            progress,
            waits,
            viewer,
            metrics,
            state: State::Open,
        }
    }

    /// Converts an answer. A grant counts as delivered from here on; one that was lost in this
    /// queue is reported as lost.
    fn answer(&self, op_id: u64, answer: Answer) -> pb::SessionResponse {
        self.progress.fetch_add(1, Ordering::Relaxed);
        if ends_wait(&answer) {
            self.waits.lock().remove(&op_id);
        }
        let response = self
            .viewer
            .allowed(answer)
            .and_then(|answer| response(answer, &self.viewer))
            .unwrap_or_else(|error| Response::Failed(message(&status(&error))));
        if let Response::Failed(failed) = &response {
            self.metrics.frame_failed(failed.code);
        }
        pb::SessionResponse {
            op_id,
            response: Some(response),
        }
    }

    fn notice(&mut self, out: Outgoing) -> Option<pb::SessionResponse> {
        if !matches!(out, Outgoing::Opened(_)) {
            self.progress.fetch_add(1, Ordering::Relaxed);
        }
        let (op_id, response) = match out {
            Outgoing::Opened(opened) => (0, Response::Opened(*opened)),
            Outgoing::Notice(notice) => (0, notice::notice(notice)),
            Outgoing::Pong(op_id) => (op_id, Response::Pong(pb::Pong {})),
            Outgoing::End(status) => {
                self.state = State::Ending(status);
                return None;
            }
        };
        Some(pb::SessionResponse {
            op_id,
            response: Some(response),
        })
    }
}

// === impl Answers ===

impl Answers {
    fn of(queue: mpsc::Receiver<Answered>) -> Self {
        Self {
            queue,
            kept: None,
            kept_until: None,
            next: None,
        }
    }

    /// The next answer; pending as well if there will be none.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Answered> {
        if let Some(next) = self.next.take() {
            return Poll::Ready(next);
        }
        while let Poll::Ready(Some(answer)) = self.queue.poll_recv(cx) {
            let is_state = answer.1.is_about_wait();
            match self.kept.take() {
                None if is_state => self.keep(answer),
                None => return Poll::Ready(answer),
                Some(kept) => {
                    let behind = if is_state {
                        &mut self.kept
                    } else {
                        &mut self.next
                    };
                    *behind = Some(answer);
                    return Poll::Ready(kept);
                }
            }
        }
        let kept_until = self.kept_until.as_mut().filter(|_| self.kept.is_some());
        let is_over = kept_until.is_some_and(|until| until.as_mut().poll(cx).is_ready());
        match self.kept.take_if(|_| is_over) {
            Some(kept) => Poll::Ready(kept),
            None => Poll::Pending,
        }
    }

    fn keep(&mut self, answer: Answered) {
        self.kept = Some(answer);
        match &mut self.kept_until {
            Some(until) => until.as_mut().reset(Instant::now() + STATE_KEPT),
            None => self.kept_until = Some(Box::pin(sleep(STATE_KEPT))),
        }
    }
}

/// Whether this may be the last answer of a wait. A frame refused for its `op_id` does not end the
/// wait with that id.
fn ends_wait(answer: &Answer) -> bool {
    match answer {
        Answer::Failed(Error::Invalid(invalid)) => invalid.field != OP_ID,
        answer => !answer.is_about_wait(),
    }
}

/// Whether an operation failed only because the stream ends. Then the end is the answer: a client
/// sends the operation again when it has resumed the session, and would not after an error.
fn is_due_to_end(answer: &Answer) -> bool {
    matches!(
        answer,
        Answer::Failed(Error::SessionDetached | Error::SessionSuperseded)
    )
}

impl Stream for Outbound {
    type Item = Result<pb::SessionResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let State::Open = self.state {
            match self.notices.poll_recv(cx) {
                Poll::Ready(Some(out)) => {
                    if let Some(frame) = self.notice(out) {
                        return Poll::Ready(Some(Ok(frame)));
                    }
                }
                // The reader has vanished, as when the runtime shuts down.
                Poll::Ready(None) => self.state = State::Ending(None),
                Poll::Pending => {}
            }
        }
        if let State::Ended = self.state {
            return Poll::Ready(None);
        }
        while let Poll::Ready((op_id, answer)) = self.answers.poll_next(cx) {
            if !is_due_to_end(&answer) {
                return Poll::Ready(Some(Ok(self.answer(op_id, *answer))));
            }
        }
        // An answer may be queued nevertheless: when it is the turn of other tasks.
        let is_answered = self.answers.queue.is_empty();
        match &mut self.state {
            State::Ending(status) if is_answered => {
                let status = status.take();
                self.state = State::Ended;
                Poll::Ready(status.map(Err))
            }
            _ => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures::{FutureExt as _, StreamExt as _};

    use super::*;

    fn answers() -> (mpsc::Sender<Answered>, Answers) {
        let (sender, queue) = mpsc::channel(8);
        (sender, Answers::of(queue))
    }

    fn outbound(
        answers: mpsc::Receiver<Answered>,
        notices: mpsc::Receiver<Outgoing>,
        progress: &Arc<AtomicU64>,
    ) -> Outbound {
        Outbound::new(
            answers,
            notices,
            Arc::clone(progress),
            Waits::default(),
            Viewer::default(),
            Metrics::default(),
        )
    }

    async fn next(answers: &mut Answers) -> u64 {
        poll_fn(|cx| answers.poll_next(cx)).await.0
    }

    fn next_now(answers: &mut Answers) -> Option<u64> {
        next(answers).now_or_never()
    }

    const STATE: Answer = Answer::WaitingForLatch(1);
    const ANSWER: Answer = Answer::Failed(Error::Draining);

    #[tokio::test(start_paused = true)]
    async fn a_state_is_sent_with_what_follows_and_alone_after_a_while() {
        let (sender, mut answers) = answers();
        for (op_id, answer) in [(1, STATE), (2, ANSWER), (3, ANSWER)] {
            sender.try_send((op_id, Box::new(answer))).unwrap();
        }
        let sent = [(); 3].map(|()| next_now(&mut answers));
        assert_eq!(sent, [1, 2, 3].map(Some));
        for _ in 0..2 {
            let asked_at = Instant::now();
            sender.try_send((4, Box::new(STATE))).unwrap();
            assert_eq!(next_now(&mut answers), None);
            assert_eq!(next(&mut answers).await, 4);
            assert_eq!(asked_at.elapsed(), STATE_KEPT);
        }
    }

    #[tokio::test]
    async fn the_stream_ends_after_all_queued_answers_however_many_there_are() {
        let many = 1_000;
        let (answers, answers_out) = mpsc::channel(many);
        let (notices, notices_out) = mpsc::channel(1);
        for op_id in 1..=many {
            answers.try_send((op_id as u64, Box::new(ANSWER))).unwrap();
        }
        notices.try_send(Outgoing::End(None)).unwrap();
        let outbound = outbound(answers_out, notices_out, &Arc::default());
        assert_eq!(outbound.count().await, many);
    }

    #[tokio::test]
    async fn what_fails_only_because_the_stream_ends_is_not_answered() {
        let (answers, answers_out) = mpsc::channel(8);
        let (notices, notices_out) = mpsc::channel(1);
        let failed = [
            Error::SessionDetached,
            Error::SessionNotFound,
            Error::SessionSuperseded,
        ];
        for (op_id, error) in (1..).zip(failed) {
            let answer = Box::new(Answer::Failed(error));
            answers.try_send((op_id, answer)).unwrap();
        }
        notices.try_send(Outgoing::End(None)).unwrap();
        let frames = outbound(answers_out, notices_out, &Arc::default());
        let frames: Vec<_> = frames.map(|frame| frame.unwrap().op_id).collect().await;
        assert_eq!(frames, [2]);
    }

    #[test]
    fn a_new_token_that_is_read_is_no_sign_of_life() {
        let (answers, answers_out) = mpsc::channel(8);
        let (notices, notices_out) = mpsc::channel(8);
        let progress = Arc::default();
        let mut outbound = outbound(answers_out, notices_out, &progress);
        let mut read = || {
            assert!(outbound.next().now_or_never().is_some());
            assert!(outbound.next().now_or_never().is_none());
            progress.load(Ordering::Relaxed)
        };
        let token = Outgoing::Opened(Box::default());
        for (sent, expected) in [(token, 0), (Outgoing::Pong(1), 1)] {
            notices.try_send(sent).unwrap();
            assert_eq!(read(), expected);
        }
        answers.try_send((2, Box::new(ANSWER))).unwrap();
        assert_eq!(read(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn one_state_is_kept_at_most() {
        let (sender, mut answers) = answers();
        for op_id in 1..=3 {
            sender.try_send((op_id, Box::new(STATE))).unwrap();
        }
        let sent = [(); 3].map(|()| next_now(&mut answers));
        assert_eq!(sent, [Some(1), Some(2), None]);
        sender.try_send((4, Box::new(ANSWER))).unwrap();
        let sent = [(); 3].map(|()| next_now(&mut answers));
        assert_eq!(sent, [Some(3), Some(4), None]);
    }
}
