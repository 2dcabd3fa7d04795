//! The frames of a session's stream to its client.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use lockkeeper_coordinator::{Answer, Error, Notice};
use tokio::sync::mpsc;
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
    answers: mpsc::Receiver<(u64, Answer)>,
    notices: mpsc::Receiver<Outgoing>,
    /// Counts the frames that were read.
    progress: Arc<AtomicU64>,
    waits: Waits,
    viewer: Viewer,
    metrics: Metrics,
    state: State,
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
        answers: mpsc::Receiver<(u64, Answer)>,
        notices: mpsc::Receiver<Outgoing>,
        progress: Arc<AtomicU64>,
        waits: Waits,
        viewer: Viewer,
        metrics: Metrics,
    ) -> Self {
        Self {
            answers,
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

/// Whether this may be the last answer of a wait. A frame refused for its `op_id` does not end the
/// wait with that id.
fn ends_wait(answer: &Answer) -> bool {
    match answer {
        Answer::Failed(Error::Invalid(invalid)) => invalid.field != OP_ID,
        Answer::Granted(_)
        | Answer::GrantedAll(_)
        | Answer::NotGranted(_)
        | Answer::Elected(_)
        | Answer::PermitsGranted(_)
        | Answer::PermitsNotGranted(_)
        | Answer::LatchOpened(_)
        | Answer::LatchNotOpened(_)
        | Answer::Failed(_) => true,
        _ => false,
    }
}

impl Stream for Outbound {
    type Item = Result<pb::SessionResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.progress.fetch_add(1, Ordering::Relaxed);
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
        match (
            self.answers.poll_recv(cx),
            std::mem::replace(&mut self.state, State::Ended),
        ) {
            (_, State::Ended) => Poll::Ready(None),
            (Poll::Ready(Some((op_id, answer))), state) => {
                self.state = state;
                Poll::Ready(Some(Ok(self.answer(op_id, answer))))
            }
            (_, State::Ending(status)) => Poll::Ready(status.map(Err)),
            (_, State::Open) => {
                self.state = State::Open;
                Poll::Pending
            }
        }
    }
}
