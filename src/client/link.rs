//! One connection with a session's stream on it.

use std::{future::pending, pin::Pin, time::Duration};

use futures::{StreamExt as _, stream};
use hyper::rt::Executor;
use lockkeeper_api::pb::{SessionRequest, SessionResponse, lock_service_client::LockServiceClient};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Address, Error, connector::Connector, task::spawn_detached};

/// Answers that may wait to be looked at; the coordinator is not read meanwhile.
const EVENTS_QUEUED: usize = 64;

/// What a link says: frames, then once how it ended (`None`: as it should).
#[derive(Debug)]
pub(super) enum LinkEvent {
    Frame(SessionResponse),
    Ended(Option<Error>),
}

/// A stream that is opened, open or ended. Dropping it drops the connection without a word.
#[derive(Debug)]
pub(super) struct Link {
    /// Not bounded: it has at most one frame for each operation that its user has not got an answer
    /// to.
    frames: mpsc::UnboundedSender<SessionRequest>,
    events: mpsc::Receiver<LinkEvent>,
    _connection: DropGuard,
}

/// Runs a connection's tasks until the link is dropped. Otherwise hyper keeps a connection as long
/// as one of its streams is open.
#[derive(Clone)]
struct UntilDropped(CancellationToken);

// === impl Link ===

impl Link {
    /// Connects and sends the first frame; what comes of it is told by [`Link::next`].
    pub(super) fn open(
        connector: &Connector,
        address: &Address,
        keepalive: Duration,
        first: SessionRequest,
    ) -> Self {
        let (frames, to_send) = mpsc::unbounded_channel();
        let (tell, events) = mpsc::channel(EVENTS_QUEUED);
        let dropped = CancellationToken::new();
        let executor = UntilDropped(dropped.clone());
        let (connector, address) = (connector.clone(), address.clone());
        let endpoint = connector
            .endpoint(&address, keepalive)
            .map(|it| it.executor(executor.clone()));
        // The end of this stream would end the session and release its grants. Only `close` may do
        // that.
        let frames_to_send = stream::once(async { first })
            .chain(UnboundedReceiverStream::new(to_send))
            .chain(stream::once(pending()));
        executor.execute(Box::pin(async move {
            let ended = async {
                let transport = connector.connect_to(&address, endpoint?).await?;
                carry(LockServiceClient::new(transport), frames_to_send, &tell).await
            };
            let ended = ended.await.err();
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
        let _ = self.frames.send(frame);
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
    mut client: super::LockClient,
    frames: impl stream::Stream<Item = SessionRequest> + Send + 'static,
    tell: &mpsc::Sender<LinkEvent>,
) -> Result<(), Error> {
    let mut answers = client.session(frames).await?.into_inner();
    while let Some(frame) = answers.message().await? {
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
