//! The I/O of a session's stream: frames become operations, answers and notices become frames. One
//! task reads. Answers and notices pass through bounded queues that tonic drains as fast as the
//! client reads.

pub(super) mod frames;
mod output;
mod running;
pub(super) mod waits;

use std::{
    future::poll_fn,
    sync::{Arc, atomic::AtomicU64},
    task::{Poll, ready},
    time::Duration,
};

use futures::stream::{FuturesUnordered, StreamExt as _};
use lockkeeper_access::Account;
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_coordinator::{
    Answer, AnswersTo, Error, Invalid, Notice, Opened, Operation, Owner, Reply, Resumed, SessionId,
    Stream,
};
use tokio::{
    sync::{Semaphore, mpsc},
    task::coop,
};
use tokio_util::sync::{CancellationToken, PollSemaphore};
use tonic::{Code, Status, Streaming};

use self::{
    output::{Output, silent},
    running::{Running, Slot},
    waits::{OP_ID, Waits},
};
use super::{
    Config, Peer, audit,
    call::Calls,
    convert::{self, Requests},
    layer::BodyFate,
    outbound::{Outbound, Outgoing},
    pb::{self, session_request::Request},
    spans,
    status::{self, status},
};

/// The capacities of the queues to the client. Further notices stay with the session.
const ANSWERS_QUEUED: usize = 1024;
const NOTICES_QUEUED: usize = 16;

/// How long a client may take to send the first frame.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the end of the stream waits for operations in progress, and for the store to confirm
/// the releases. The rest continues without it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// How the reading ended.
enum End {
    /// The client closed, or half-closed to do so: it no longer needs its grants.
    Closed,
    /// The stream broke, or is to be broken with a status: the client may still be working.
    Broken(Option<Status>),
    /// The client is asked to resume elsewhere, and the stream ends with a status.
    Leaving(Status),
}

/// The reading side of a stream.
struct Reader {
    calls: Calls,
    account: Account,
    peer: Option<Peer>,
    frames: Streaming<pb::SessionRequest>,
    fate: BodyFate,
    output: Output,
    /// Whether the client says so.
    sends_pings: bool,
    /// Whether the client says so: a proxy may half-close a stream that it cuts off.
    sends_close: bool,
}

/// Serves a stream until it ends. Returns the frames to the client.
pub(super) fn serve(
    calls: Calls,
    account: Account,
    peer: Option<Peer>,
    config: &Config,
    frames: Streaming<pb::SessionRequest>,
    fate: BodyFate,
) -> Outbound {
    let (answers, answers_out) = mpsc::channel(ANSWERS_QUEUED);
    let (notices, notices_out) = mpsc::channel(NOTICES_QUEUED);
    let waits = Waits::default();
    let progress = Arc::new(AtomicU64::new(0));
    let operations_max = config.operations_per_session_max;
    let slots = Arc::new(Semaphore::new(operations_max.min(Semaphore::MAX_PERMITS)));
    let output = Output {
        answers,
        notices,
        waits: Arc::clone(&waits),
        slots,
        operations_max,
    };
    let viewer = calls.viewer(&account);
    let metrics = calls.metrics.clone();
    let reader = Reader {
        calls,
        account,
        peer,
        frames,
        fate,
        output,
        sends_pings: false,
        sends_close: false,
    };
    let outbound = Outbound::new(
        answers_out,
        notices_out,
        Arc::clone(&progress),
        waits,
        viewer,
        metrics,
    );
    spawn_detached("session", reader.run(progress));
    outbound
}

// === impl Reader ===

impl Reader {
    async fn run(mut self, progress: Arc<AtomicU64>) {
        let output = self.output.clone();
        let opened = tokio::select! {
            biased;
            // The client is gone, and gives up its turn to resume.
            () = output.notices.closed() => Err(None),
            opened = self.open() => opened,
        };
        let ended = match opened {
            Err(ended) => ended,
            Ok(stream) => match self.until_end(&stream, &progress).await {
                End::Broken(status) => status,
                End::Leaving(status) => {
                    // A client that reads nothing does not keep its grants longer.
                    let notice = Outgoing::Notice(Notice::GoingAway);
                    let _ = output.notices.try_send(notice);
                    Some(status)
                }
                End::Closed => {
                    let _ = tokio::time::timeout(CLOSE_TIMEOUT, stream.close()).await;
                    None
                }
            },
        };
        let _ = output.notices.send(Outgoing::End(ended)).await;
    }

    /// Serves the stream; after a close, answers the operations in progress. Unfinished ones
    /// continue as tasks, because other callers may wait for them.
    async fn until_end(&mut self, stream: &Stream, progress: &AtomicU64) -> End {
        let output = self.output.clone();
        let mut running = Running::new(output.answers.clone());
        let end = self.serve(stream, progress, &mut running).await;
        if let End::Closed = end {
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, output.answered(&mut running)).await;
        }
        end
    }

    /// Reads the first frame. An error is the end of the stream.
    async fn open(&mut self) -> Result<Stream, Option<Status>> {
        if !self.calls.access.allows_anything(self.account.identity()) {
            audit::denied(&self.account, "OpenSession");
            return Err(Some(status::no_right()));
        }
        let first = tokio::time::timeout(OPEN_TIMEOUT, self.frames.message()).await;
        let first = first.map_err(|_elapsed| {
            let why = "the first frame must arrive within 10 s";
            Some(status::session_timed_out(why))
        })?;
        let Some(frame) = first.map_err(Some)? else {
            return Err(None);
        };
        let (opened, operation) = match frame.request {
            Some(Request::Open(open)) => {
                (self.sends_pings, self.sends_close) = (open.sends_pings, open.sends_close);
                (self.open_new(open), "OpenSession")
            }
            Some(Request::Resume(resume)) => {
                (self.sends_pings, self.sends_close) = (resume.sends_pings, resume.sends_close);
                (self.resume(resume).await, "ResumeSession")
            }
            _ => {
                let why = "the first frame must be open or resume";
                return Err(Some(status::invalid_frame("request", why)));
            }
        };
        let opened = opened.map_err(|error| Some(status(&error)))?;
        let (frame, stream) = (frames::opened(&opened), opened.stream);
        audit::allowed(&self.account, operation, &stream.id().digest());
        if let Some(peer) = &self.peer {
            stream.comes_from(peer.address());
        }
        let _ = self
            .output
            .notices
            .send(Outgoing::Opened(Box::new(frame)))
            .await;
        Ok(stream)
    }

    fn open_new(&self, open: pb::OpenSession) -> Result<Opened, Error> {
        let lease = self.requests(None).lease(open.lease)?;
        let on_disconnect = convert::on_disconnect(open.on_disconnect)?;
        let account = self.account.clone();
        self.calls
            .coordinator
            .open(account, lease, open.client_name, on_disconnect)
    }

    async fn resume(&self, resume: pb::ResumeSession) -> Result<Opened, Error> {
        let id = SessionId::parse(&resume.session_id).ok_or(Error::SessionNotFound)?;
        let own = Owner::of_session(id.clone());
        let requests = self.requests(Some(&own));
        let named = Resumed {
            locks: requests.resumed(&id, resume.grants),
            permits: requests.resumed_permits(&id, resume.permits),
        };
        let account = self.account.clone();
        self.calls
            .coordinator
            .resume(account, &id, &resume.resume_token, named)
            .await
    }

    /// Converts requests of the stream's caller, in its session once there is one. `own` is the
    /// owner of those that name none.
    fn requests<'a>(&'a self, own: Option<&'a Owner>) -> Requests<'a> {
        Requests {
            own,
            ..self.calls.requests(&self.account)
        }
    }

    async fn serve(&mut self, stream: &Stream, progress: &AtomicU64, running: &mut Running) -> End {
        let (output, peer) = (self.output.clone(), self.peer.clone());
        let sends_pings = self.sends_pings;
        let ended = async {
            tokio::select! {
                biased;
                () = stream.superseded().cancelled() => End::Broken(Some(status::superseded())),
                // The client is gone, or tonic has dropped the stream.
                () = output.notices.closed() => End::Broken(None),
                () = output.stuck(progress) => timed_out("the client does not read its answers"),
                () = silent(progress, stream.lease()), if sends_pings => {
                    timed_out("the client sends no pings any more")
                }
                end = output.forward_notices(stream) => End::Broken(Some(end)),
                () = output.renew_token(stream) => End::Broken(None),
                () = aged(peer, stream) => End::Leaving(status::connection_aged()),
            }
        };
        let own = Owner::of_session(stream.id().clone());
        // Polled only when one of them is woken, and not for each frame and each answer. In a box,
        // because the set has room for one more.
        let mut ended: FuturesUnordered<_> = std::iter::once(Box::pin(ended)).collect();
        tokio::select! {
            biased;
            Some(end) = ended.next() => end,
            end = self.read(&own, running) => end,
        }
    }

    async fn read(&mut self, own: &Owner, running: &mut Running) -> End {
        let mut slots = PollSemaphore::new(Arc::clone(&self.output.slots));
        let mut room = None;
        // By hand: a frame and its answer would be moved through each future of a `select!`.
        poll_fn(|cx| {
            loop {
                // Each frame counts: what a client sends without end must not keep others waiting.
                ready!(coop::poll_proceed(cx)).made_progress();
                let _ = running.poll_drive(cx);
                // Waiting here instead of reading bounds the operations. Nobody closes the slots.
                if room.is_none() {
                    room = ready!(slots.poll_acquire(cx));
                }
                let ended = match ready!(self.frames.poll_next_unpin(cx)) {
                    Some(Ok(frame)) => self.take(own, &frame, &mut room, running),
                    None if self.fate.is_broken() => Some(End::Broken(None)),
                    None if self.sends_close => Some(End::Broken(Some(status::half_closed()))),
                    None => Some(End::Closed),
                    Some(Err(status)) if is_refusal(&status) => Some(End::Leaving(status)),
                    Some(Err(status)) => Some(End::Broken(Some(status))),
                };
                if let Some(end) = ended {
                    return Poll::Ready(end);
                }
            }
        })
        .await
    }

    /// Does what a frame asks for; an operation takes the room. Returns the end if that is asked.
    fn take(
        &self,
        own: &Owner,
        frame: &pb::SessionRequest,
        room: &mut Slot,
        running: &mut Running,
    ) -> Option<End> {
        let op_id = frame.op_id;
        match &frame.request {
            Some(Request::Close(_)) => return Some(End::Closed),
            Some(Request::Cancel(_)) => {
                if let Some(wait) = self.output.waits.lock().get(&op_id) {
                    wait.cancel();
                }
            }
            Some(Request::Ping(_)) => {
                // A client that does not read its notices gets no answer.
                let _ = self.output.notices.try_send(Outgoing::Pong(op_id));
            }
            request => {
                let span = spans::of_frame(request.as_ref(), &frame.traceparent);
                let _in_span = span.enter();
                self.begin(own, op_id, request.as_ref(), room.take(), running);
            }
        }
        None
    }

    /// Begins an operation. A waiting one gets its own task; the reader runs the others.
    fn begin(
        &self,
        own: &Owner,
        op_id: u64,
        request: Option<&Request>,
        slot: Slot,
        running: &mut Running,
    ) {
        match self.operation(own, op_id, request) {
            Ok(operation) if operation.waits() => {
                let cancel = CancellationToken::new();
                self.output.waits.lock().insert(op_id, cancel.clone());
                let reply = Reply {
                    op_id,
                    to: AnswersTo::Queue(self.output.answers.clone()),
                    cancel: Some(cancel),
                    slot,
                    account: self.account.clone(),
                };
                self.calls.coordinator.submit(operation, reply);
            }
            Ok(operation) => running.ask(op_id, self.calls.coordinator.ask(operation), slot),
            Err(error) => running.tell(op_id, Box::new(Answer::Failed(error)), slot),
        }
    }

    fn operation(
        &self,
        own: &Owner,
        op_id: u64,
        request: Option<&Request>,
    ) -> Result<Operation, Error> {
        // A second `open` or `resume` has none, and is refused for what it is.
        let is_first_frame = matches!(request, Some(Request::Open(_) | Request::Resume(_)));
        if op_id == 0 && !is_first_frame {
            return Err(Invalid::new(OP_ID, "must not be 0").into());
        }
        self.account.request()?;
        let operation = frames::operation(&self.requests(Some(own)), request)?;
        if operation.waits() && self.output.waits.lock().contains_key(&op_id) {
            let why = "is that of an operation that is still waiting";
            return Err(Invalid::new(OP_ID, why).into());
        }
        Ok(operation)
    }
}

/// The end of the stream of a client that shows no life. Not an end without an error, which would
/// say that the session was closed: the client may be alive, and then it resumes.
fn timed_out(why: &str) -> End {
    End::Broken(Some(status::session_timed_out(why)))
}

/// Whether a stream ends because its caller's access was taken away.
fn is_refusal(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unauthenticated | Code::PermissionDenied
    )
}

/// Resolves when the connection is to be closed, unless that would release the session's grants.
async fn aged(peer: Option<Peer>, stream: &Stream) {
    match peer {
        Some(peer) if stream.keeps_grants() => peer.usage.aged().await,
        _ => std::future::pending().await,
    }
}
