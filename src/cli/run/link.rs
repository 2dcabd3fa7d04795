//! One connection with a session's stream on it.

use std::{future::pending, pin::Pin, time::Duration};

use futures::{StreamExt as _, stream};
use hyper::rt::Executor;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::Endpoint;

use crate::{
    cli::{
        client::{self, Server},
        failure::{Effect, Failure},
    },
    grpc::pb::{SessionRequest, SessionResponse, lock_service_client::LockServiceClient},
    shutdown::spawn_detached,
};

/// More than are ever under way: an acquire, its cancel, a renewal and the close.
const QUEUE_FRAMES_MAX: usize = 16;

/// What a link says: frames, then once how it ended (`None`: as it should).
pub(super) enum LinkEvent {
    Frame(SessionResponse),
    Ended(Option<Failure>),
}

/// A stream that is opened, open or ended. Dropping it drops the connection without a word.
pub(super) struct Link {
    frames: mpsc::Sender<SessionRequest>,
    events: mpsc::Receiver<LinkEvent>,
    _connection: DropGuard,
}

/// Runs a connection's tasks until the link is dropped. Otherwise hyper keeps a connection as long as one of its streams is open.
#[derive(Clone)]
struct UntilDropped(CancellationToken);

// === impl Link ===

impl Link {
    /// Connects and sends the first frame; what comes of it is told by [`Link::next`].
    pub(super) fn open(server: &Server, keepalive: Duration, first: SessionRequest) -> Self {
        let (frames, to_send) = mpsc::channel(QUEUE_FRAMES_MAX);
        let (tell, events) = mpsc::channel(QUEUE_FRAMES_MAX);
        let dropped = CancellationToken::new();
        let executor = UntilDropped(dropped.clone());
        let endpoint = client::endpoint(server, keepalive).map(|it| it.executor(executor.clone()));
        let server = server.clone();
        // The end of this stream would end the session and release its grants. Only `close` may do that.
        let frames_to_send = stream::once(async { first })
            .chain(ReceiverStream::new(to_send))
            .chain(stream::once(pending()));
        executor.execute(Box::pin(async move {
            let ended = match endpoint {
                Ok(endpoint) => carry(&server, endpoint, frames_to_send, &tell).await.err(),
                Err(failure) => Some(failure),
            };
            let _ = tell.send(LinkEvent::Ended(ended)).await;
        }));
        Self {
            frames,
            events,
            _connection: dropped.drop_guard(),
        }
    }

    /// Sends a frame. If the link has ended, that is what [`Link::next`] says next.
    pub(super) fn send(&self, frame: SessionRequest) {
        let _ = self.frames.try_send(frame);
    }

    /// The next event. May be dropped and asked again.
    pub(super) async fn next(&mut self) -> LinkEvent {
        match self.events.recv().await {
            Some(event) => event,
            None => pending().await,
        }
    }
}

async fn carry(
    server: &Server,
    endpoint: Endpoint,
    frames: impl stream::Stream<Item = SessionRequest> + Send + 'static,
    tell: &mpsc::Sender<LinkEvent>,
) -> Result<(), Failure> {
    // The loss of a stream loses no answer: the session is resumed and its grants are counted again.
    let failed = |status| Failure::from_status(&status, Effect::Reads);
    let channel = endpoint
        .connect()
        .await
        .map_err(|error| client::unreachable(server, &error))?;
    let mut client = LockServiceClient::new(channel);
    let mut answers = client.session(frames).await.map_err(failed)?.into_inner();
    while let Some(frame) = answers.message().await.map_err(failed)? {
        if tell.send(LinkEvent::Frame(frame)).await.is_err() {
            break;
        }
    }
    Ok(())
}

// === impl UntilDropped ===

impl Executor<Pin<Box<dyn Future<Output = ()> + Send>>> for UntilDropped {
    fn execute(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let dropped = self.0.clone();
        spawn_detached("link", async move {
            tokio::select! {
                biased;
                () = dropped.cancelled() => {}
                () = task => {}
            }
        });
    }
}
