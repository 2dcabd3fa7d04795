//! One connection with a session's stream.

use std::{future::pending, pin::Pin, time::Duration};

use futures::{StreamExt as _, stream};
use hyper::rt::Executor;
use lockkeeper_api::pb::{SessionRequest, SessionResponse};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{Address, Connector, Error, LockClient, task::spawn_detached};

/// Frames that may wait to be read; the coordinator is not read meanwhile.
const EVENTS_QUEUED: usize = 64;

/// Frames, then once the end: `None` if the coordinator ended the stream without an error.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    Frame(SessionResponse),
    Ended(Option<Error>),
}

/// A stream that is opening, open or ended. Dropping it breaks the connection.
#[derive(Debug)]
pub(crate) struct Link {
    /// Not bounded: it has at most one frame for each operation without an answer.
    frames: mpsc::UnboundedSender<SessionRequest>,
    events: mpsc::Receiver<LinkEvent>,
    _connection: DropGuard,
}

/// Runs a connection's tasks until the link is dropped. Otherwise hyper keeps a connection as long
/// as one of its streams is open.
#[derive(Clone)]
struct LinkExecutor(CancellationToken);

// === impl Link ===

impl Link {
    /// Connects and sends the first frame; [`Link::next`] returns what comes of it.
    pub(crate) fn open(
        connector: &Connector,
        address: &Address,
        keepalive: Duration,
        first: SessionRequest,
    ) -> Self {
        let (frames, to_send) = mpsc::unbounded_channel();
        let (publish, events) = mpsc::channel(EVENTS_QUEUED);
        let dropped = CancellationToken::new();
        let executor = LinkExecutor(dropped.clone());
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
                carry(LockClient::new(transport), frames_to_send, &publish).await
            };
            let ended = ended.await.err();
            let _ = publish.send(LinkEvent::Ended(ended)).await;
        }));
        Self {
            frames,
            events,
            _connection: dropped.drop_guard(),
        }
    }

    /// Sends a frame. If the link has ended, [`Link::next`] returns that next.
    pub(crate) fn send(&self, frame: SessionRequest) {
        let _ = self.frames.send(frame);
    }

    /// The next event. Cancel-safe.
    pub(crate) async fn next(&mut self) -> LinkEvent {
        match self.events.recv().await {
            Some(event) => event,
            None => pending().await,
        }
    }
}

async fn carry(
    mut client: LockClient,
    frames: impl stream::Stream<Item = SessionRequest> + Send + 'static,
    events: &mpsc::Sender<LinkEvent>,
) -> Result<(), Error> {
    let mut answers = client.session(frames).await?.into_inner();
    while let Some(frame) = answers.message().await? {
        if events.send(LinkEvent::Frame(frame)).await.is_err() {
            break;
        }
    }
    Ok(())
}

// === impl LinkExecutor ===

impl Executor<Pin<Box<dyn Future<Output = ()> + Send>>> for LinkExecutor {
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
