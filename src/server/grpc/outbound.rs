//! The frames of a session's stream to its client.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use lockkeeper_coordinator::{Answer, Error, LatchAnswer, Notice, PermitAnswer};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tonic::Status;

use super::{
    Metrics, convert, convert_permits, latch, multi, notice,
    pb::{self, session_response::Response},
    session::waits::{OP_ID, Waits},
    status::{message, status},
    viewer::Viewer,
};

/// A frame that is not an answer.
#[derive(Debug)]
pub(super) enum Out {
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
    notices: mpsc::Receiver<Out>,
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
        notices: mpsc::Receiver<Out>,
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
        let failed = |status: Status| Response::Failed(message(&status));
        let response = match answer {
            Answer::Waiting(waiting) => Response::Waiting(convert::waiting(waiting)),
            Answer::Granted(delivery) => match delivery.take() {
                Ok(grant) => Response::Granted(convert::grant(&grant)),
                Err(error) => failed(status(&error)),
            },
            Answer::NotGranted(ended) => Response::NotGranted(convert::not_granted(ended)),
            Answer::Tried(tried) => convert::tried(tried).map_or_else(failed, Response::Tried),
            Answer::WaitingForAll(name, waiting) => {
                Response::WaitingForAll(multi::waiting(&name, waiting))
            }
            Answer::GrantedAll(delivery) => {
                multi::granted(delivery).map_or_else(failed, Response::GrantedAll)
            }
            Answer::TriedAll(tried) => multi::tried(tried).map_or_else(failed, Response::TriedAll),
            Answer::Released(hold_count) => Response::Released(convert::released(hold_count)),
            Answer::ReleasedAll(locks) => Response::ReleasedAll(multi::released(locks)),
            Answer::Renewed(grant) => {
                let grant = Some(convert::grant(&grant));
                Response::Renewed(pb::RenewResponse { grant })
            }
            Answer::Described(seen) => Response::Described(convert::described(seen, &self.viewer)),
            Answer::TokenChecked(checked) => {
                Response::TokenChecked(convert::token_checked(checked))
            }
            Answer::Permits(answer) => convert_permits::response(answer, &self.viewer),
            Answer::Latch(answer) => latch::response(answer),
            Answer::Failed(error) => failed(status(&error)),
        };
        if let Response::Failed(failed) = &response {
            self.metrics.frame_failed(failed.code);
        }
        pb::SessionResponse {
            op_id,
            response: Some(response),
        }
    }

    fn notice(&mut self, out: Out) -> Option<pb::SessionResponse> {
        let (op_id, response) = match out {
            Out::Opened(opened) => (0, Response::Opened(*opened)),
            Out::Notice(notice) => (0, notice::notice(notice)),
            Out::Pong(op_id) => (op_id, Response::Pong(pb::Pong {})),
            Out::End(status) => {
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
        Answer::Granted(_) | Answer::GrantedAll(_) | Answer::NotGranted(_) | Answer::Failed(_) => {
            true
        }
        Answer::Permits(answer) => {
            matches!(
                answer,
                PermitAnswer::Granted(_) | PermitAnswer::NotGranted(_)
            )
        }
        Answer::Latch(answer) => {
            matches!(answer, LatchAnswer::Opened | LatchAnswer::NotOpened { .. })
        }
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
