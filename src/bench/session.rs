//! A session's stream: frames are collected and sent in one batch.
//!
//! Not `lockkeeper_client`: that renews, resumes and records each request, which would be measured
//! too, and it has no batches.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{Stream, StreamExt as _, task::AtomicWaker};
use lockkeeper_api::pb::{
    Grant, OpenSession, ResumeSession, SessionOpened, SessionRequest, SessionResponse,
    session_request::Request, session_response::Response,
};
use lockkeeper_cli::{
    client::Client,
    exit,
    failure::{Effect, Failure, status_of},
};
use parking_lot::Mutex;
use tokio::time::timeout;
use tonic::{Status, Streaming};

/// How long opening a session may take while many are opened.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the end of a session may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// An open session.
pub(super) struct Session {
    /// What the coordinator said of it.
    pub(super) opened: SessionOpened,
    outbox: Outbox,
    answers: Streaming<SessionResponse>,
}

/// Collects frames until they are sent. Dropping it half-closes the stream once all are out.
struct Outbox {
    collected: VecDeque<SessionRequest>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    reader: AtomicWaker,
}

#[derive(Debug, Default)]
struct Queue {
    frames: VecDeque<SessionRequest>,
    is_closed: bool,
}

/// The end that tonic reads: it takes all pending frames, which are written at once.
struct Outgoing {
    taken: VecDeque<SessionRequest>,
    shared: Arc<Shared>,
}

// === impl Session ===

impl Session {
    /// Opens one.
    pub(super) async fn open(
        client: &mut Client,
        lease: Option<prost_types::Duration>,
    ) -> Result<Self, Status> {
        Self::open_and_ask(client, lease, None).await
    }

    /// Opens one and sends a request with the opening. The answer comes from [`Session::next`].
    pub(super) async fn open_and_ask(
        client: &mut Client,
        lease: Option<prost_types::Duration>,
        request: Option<(u64, Request)>,
    ) -> Result<Self, Status> {
        let open = OpenSession {
            lease,
            client_name: "lockkeeper bench".to_owned(),
            ..OpenSession::default()
        };
        Self::begin(client, Request::Open(open), request).await
    }

    /// Resumes one whose stream broke.
    pub(super) async fn resume(client: &mut Client, resume: ResumeSession) -> Result<Self, Status> {
        Self::begin(client, Request::Resume(resume), None).await
    }

    async fn begin(
        client: &mut Client,
        first: Request,
        then: Option<(u64, Request)>,
    ) -> Result<Self, Status> {
        let shared = Arc::<Shared>::default();
        let mut outbox = Outbox {
            collected: VecDeque::new(),
            shared: Arc::clone(&shared),
        };
        outbox.collect(0, first);
        if let Some((op_id, request)) = then {
            outbox.collect(op_id, request);
        }
        outbox.send();
        let outgoing = Outgoing {
            taken: VecDeque::new(),
            shared,
        };
        let opened = async {
            let mut answers = client.session(outgoing).await?.into_inner();
            match answers.message().await?.and_then(|frame| frame.response) {
                Some(Response::Opened(opened)) => Ok(Self {
                    opened,
                    outbox,
                    answers,
                }),
                Some(other) => Err(Status::internal(format!("{other:?} before opened"))),
                None => Err(Status::internal("the stream ended before opened")),
            }
        };
        // A connection at the coordinator's limit of streams queues further ones.
        let opened = timeout(OPEN_TIMEOUT, opened).await;
        opened.unwrap_or_else(|_| {
            Err(Status::deadline_exceeded(
                "a session was not opened in time",
            ))
        })
    }

    /// Adds a frame to the next batch.
    pub(super) fn collect(&mut self, op_id: u64, request: Request) {
        self.outbox.collect(op_id, request);
    }

    /// Sends the batch.
    pub(super) fn send(&mut self) {
        self.outbox.send();
    }

    /// The grant of the one lock that the session has asked for and that nobody else wants.
    pub(super) async fn tried(&mut self) -> Result<Grant, Status> {
        loop {
            let frame = self.next().await.transpose()?;
            match frame.and_then(|frame| frame.response) {
                Some(Response::Tried(answer)) => {
                    let grant = answer.grant.filter(|_| answer.acquired);
                    return grant.ok_or_else(|| {
                        Status::internal("a lock that nobody else wants was not to be had")
                    });
                }
                Some(Response::Failed(status)) => return Err(status_of(&status)),
                Some(Response::AtRisk(_) | Response::Recovered(_)) => {}
                other => {
                    return Err(Status::internal(format!("{other:?} in place of an answer")));
                }
            }
        }
    }

    /// The next answer or notice; none if the stream has ended. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Result<SessionResponse, Status>> {
        self.answers.next().await
    }

    /// Half-closes the stream, which ends the session and releases its grants; waits for its end.
    pub(super) async fn close(self) -> Result<(), Status> {
        let Self {
            outbox,
            mut answers,
            ..
        } = self;
        drop(outbox);
        let ended = async {
            while answers.message().await?.is_some() {}
            Ok(())
        };
        timeout(CLOSE_TIMEOUT, ended).await.unwrap_or_else(|_| {
            Err(Status::deadline_exceeded(
                "a session was closed and its stream did not end",
            ))
        })
    }
}

/// A session could not be opened.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn not_opened(status: Status) -> Failure {
    let failure = Failure::from_status(&status, Effect::Reads);
    Failure {
        exit: if failure.exit == exit::OUTCOME_UNKNOWN {
            exit::UNAVAILABLE
        } else {
            failure.exit
        },
        ..failure
    }
}

// === impl Outbox ===

impl Outbox {
    fn collect(&mut self, op_id: u64, request: Request) {
        let request = Some(request);
        self.collected.push_back(SessionRequest {
            op_id,
            request,
            ..SessionRequest::default()
        });
    }

    fn send(&mut self) {
        if self.collected.is_empty() {
            return;
        }
        {
            let mut queue = self.shared.queue.lock();
            if queue.frames.is_empty() {
                // Swapped, so that nothing is copied and the buffer is reused.
                std::mem::swap(&mut queue.frames, &mut self.collected);
            } else {
                queue.frames.append(&mut self.collected);
            }
        }
        self.shared.reader.wake();
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.shared.queue.lock().is_closed = true;
        self.shared.reader.wake();
    }
}

// === impl Outgoing ===

impl Outgoing {
    /// The next pending frame.
    fn pop(&mut self) -> Poll<Option<SessionRequest>> {
        if let Some(frame) = self.taken.pop_front() {
            return Poll::Ready(Some(frame));
        }
        let mut queue = self.shared.queue.lock();
        std::mem::swap(&mut self.taken, &mut queue.frames);
        match self.taken.pop_front() {
            None if !queue.is_closed => Poll::Pending,
            frame => Poll::Ready(frame),
        }
    }
}

impl Stream for Outgoing {
    type Item = SessionRequest;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let frame = self.pop();
        if frame.is_ready() {
            return frame;
        }
        self.shared.reader.register(cx.waker());
        // A frame may have come before the waker was registered.
        self.pop()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use lockkeeper_api::pb::CloseSession;

    #[test]
    fn frames_go_out_together_and_the_end_after_them() {
        let shared = Arc::<Shared>::default();
        let mut outbox = Outbox {
            collected: VecDeque::new(),
            shared: Arc::clone(&shared),
        };
        let mut outgoing = Outgoing {
            taken: VecDeque::new(),
            shared,
        };
        let mut next = || {
            outgoing
                .next()
                .now_or_never()
                .map(|it| it.map(|it| it.op_id))
        };
        for op_id in 1..=3 {
            outbox.collect(op_id, Request::Close(CloseSession {}));
        }
        assert_eq!(next(), None, "they are only collected");
        outbox.send();
        assert_eq!(
            [next(), next(), next(), next()],
            [Some(Some(1)), Some(Some(2)), Some(Some(3)), None]
        );
        outbox.collect(4, Request::Close(CloseSession {}));
        outbox.send();
        drop(outbox);
        assert_eq!([next(), next()], [Some(Some(4)), Some(None)]);
    }
}
