//! One connection with a session's stream.

use std::{future::pending, pin::Pin, time::Duration};

use futures::{Stream, stream};
use hyper::rt::Executor;
use lockkeeper_api::pb::{SessionRequest, SessionResponse, session_request::Request};
use tokio::sync::mpsc;
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
        let frames_to_send = until_close(first, to_send);
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

/// The frames to send. The end of this stream would be a broken stream to a coordinator, so it ends
/// behind `close` only. There it has to: some proxies pass on the coordinator's end only then.
fn until_close(
    first: SessionRequest,
    to_send: mpsc::UnboundedReceiver<SessionRequest>,
) -> impl Stream<Item = SessionRequest> {
    let state = Some((Some(first), to_send));
    stream::unfold(state, async |state| {
        let (first, mut to_send) = state?;
        let frame = match first {
            Some(first) => first,
            None => match to_send.recv().await {
                Some(frame) => frame,
                None => pending().await,
            },
        };
        let is_close = matches!(frame.request, Some(Request::Close(_)));
        Some((frame, (!is_close).then_some((None, to_send))))
    })
}

async fn carry(
    mut client: LockClient,
    frames: impl Stream<Item = SessionRequest> + Send + 'static,
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

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _};
    use lockkeeper_api::pb::{CloseSession, Ping};

    use super::*;

    #[test]
    fn frames_end_behind_close_and_not_before() {
        let of = |request| SessionRequest {
            request: Some(request),
            ..SessionRequest::default()
        };
        let ping = || of(Request::Ping(Ping::default()));
        let close = of(Request::Close(CloseSession::default()));
        let (frames, to_send) = mpsc::unbounded_channel();
        let mut sent = Box::pin(until_close(ping(), to_send));
        let mut next = || sent.next().now_or_never();
        assert_eq!(next(), Some(Some(ping())));
        assert_eq!(next(), None, "it goes on");
        frames.send(close.clone()).unwrap();
        assert_eq!(next(), Some(Some(close)));
        assert_eq!(next(), Some(None));
    }

    #[test]
    fn frames_do_not_end_with_their_sender() {
        let (frames, to_send) = mpsc::unbounded_channel();
        let mut sent = Box::pin(until_close(SessionRequest::default(), to_send));
        drop(frames);
        assert!(sent.next().now_or_never().is_some());
        assert_eq!(sent.next().now_or_never(), None);
    }
}
