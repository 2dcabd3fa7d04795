//! Follows the body of each request: a message that has begun must be complete soon, and counts
//! towards a budget until then.
//!
//! It also distinguishes a session's stream that its client ended from a broken one. tonic reports
//! a reset stream like a half-closed one, but a reset keeps a session's grants and a half-close
//! releases them.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use http::{Request, header::CONTENT_TYPE};
use http_body::{Body as HttpBody, Frame, SizeHint};
use lockkeeper_access::Counted;
use tokio::time::{Sleep, sleep};
use tonic::{Status, body::Body};

use super::{
    budgets::{Budgets, Unfinished},
    check::Check,
    connect::Asked,
    credentials::Credentials,
    messages::{Messages, Sizes},
    peer::Peer,
    status,
};

/// Methods whose clients send messages as long as they like. The requests of others have one
/// message, and end with it.
pub(super) const SESSION: &str = "/Session";
pub(super) const STREAMS: [&str; 3] = [SESSION, "/ServerReflectionInfo", "/LeaseKeepAlive"];

/// How long a request of one message, or a message of a stream, may take from its begin to its end.
const COMPLETE_WITHIN: Duration = Duration::from_secs(10);

/// How a request's body ended; in the request's extensions.
#[derive(Clone, Debug, Default)]
pub(super) struct BodyFate(Arc<AtomicBool>);

/// Follows the bodies of requests, and adds [`BodyFate`] to those of sessions.
#[derive(Clone, Debug)]
pub struct FollowBody {
    pub(super) budgets: Budgets,
    pub(super) sizes: Sizes,
}

struct Watched {
    body: Body,
    fate: Option<BodyFate>,
    is_stream: bool,
    messages: Messages,
    unfinished: Unfinished,
    /// Resolves when the caller's credentials are no longer good.
    refused: Option<BoxFuture<'static, Status>>,
    /// The stream's use of its caller's quota.
    _counted: Option<Arc<Counted>>,
    /// Runs once the body has been waited for.
    deadline: Option<Pin<Box<Sleep>>>,
}

// === impl BodyFate ===

impl BodyFate {
    /// Whether the body ended although the client did not end it.
    pub(super) fn is_broken(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

// === impl FollowBody ===

impl Check for FollowBody {
    fn check(&self, request: &mut Request<Body>) -> Result<(), Status> {
        if request.body().is_end_stream() {
            return Ok(());
        }
        let path = request.uri().path();
        let is_session = path.ends_with(SESSION);
        let kind = request.headers().get(CONTENT_TYPE);
        let is_web = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc-web"));
        let limit = self.sizes.of(path, is_session);
        let messages = match request.extensions().get::<Asked>() {
            Some(asked) if asked.is_whole() => Messages::whole(limit),
            None if is_web => Messages::opaque(limit),
            _ => Messages::new(limit),
        };
        let is_stream = STREAMS.iter().any(|it| path.ends_with(it));
        let peer = request.extensions().get::<Peer>();
        let usage = peer.map(|peer| Arc::clone(&peer.usage));
        let unfinished = self.budgets.unfinished(&usage.unwrap_or_default());
        let fate = is_session.then(BodyFate::default);
        if let Some(fate) = &fate {
            request.extensions_mut().insert(fate.clone());
        }
        // The stream of a session ends by itself, with a notice. `refusal.rs` ends the others.
        let credentials = is_session.then(|| request.extensions_mut().remove::<Credentials>());
        let refused = credentials.flatten().map(|it| it.refused().boxed());
        let counted = request.extensions_mut().remove::<Arc<Counted>>();
        let body = std::mem::take(request.body_mut());
        *request.body_mut() = Body::new(Watched {
            body,
            fate,
            is_stream,
            messages,
            unfinished,
            refused,
            _counted: counted,
            deadline: None,
        });
        Ok(())
    }
}

// === impl Watched ===

impl Watched {
    /// Ready when the message has taken too long.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_stream && self.messages.unfinished() == 0 {
            return Poll::Pending;
        }
        let deadline = self
            .deadline
            .get_or_insert_with(|| Box::pin(sleep(COMPLETE_WITHIN)));
        deadline.as_mut().poll(cx)
    }

    /// Counts the bytes of a frame.
    fn take(&mut self, data: &[u8]) -> Result<(), Status> {
        self.messages.take(data)?;
        if self.is_stream && self.messages.unfinished() == 0 {
            self.deadline = None;
        }
        self.unfinished.set(self.messages.unfinished())
    }

    fn broken(&self) {
        if let Some(fate) = &self.fate {
            fate.0.store(true, Ordering::Release);
        }
    }
}

impl HttpBody for Watched {
    type Data = <Body as HttpBody>::Data;
    type Error = <Body as HttpBody>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if let Some(refused) = &mut self.refused
            && let Poll::Ready(refused) = refused.poll_unpin(cx)
        {
            self.refused = None;
            self.broken();
            return Poll::Ready(Some(Err(refused)));
        }
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            ready!(self.poll_late(cx));
            self.broken();
            return Poll::Ready(Some(Err(status::incomplete(COMPLETE_WITHIN))));
        };
        let frame = match frame {
            Some(Ok(frame)) => match frame.data_ref().map(|data| self.take(data)) {
                Some(Err(refused)) => Some(Err(refused)),
                _ => Some(Ok(frame)),
            },
            other => other,
        };
        let is_broken = match &frame {
            Some(Ok(_)) => false,
            Some(Err(_)) => true,
            // hyper also ends such a body "without an error" after a reset with that code. So does
            // its keepalive, which closes the connection of a silent client. Only an explicit end
            // by the client leaves this mark.
            None => !self.body.is_end_stream(),
        };
        if is_broken {
            self.broken();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::channel::mpsc::unbounded;
    use http_body_util::{BodyExt as _, StreamBody};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_message_of_a_stream_has_its_own_time() {
        let (frames, received) = unbounded::<Result<Frame<Bytes>, Status>>();
        let send = |bytes: &'static [u8]| {
            let frame = Frame::data(Bytes::from_static(bytes));
            frames.unbounded_send(Ok(frame)).unwrap();
        };
        let mut request = Request::new(Body::new(StreamBody::new(received)));
        *request.uri_mut() = "/lockkeeper.v1.LockService/Session".parse().unwrap();
        let follow = FollowBody {
            budgets: Budgets::new(100, 100, &super::super::budgets::Metrics::default()),
            sizes: Sizes::new(100),
        };
        follow.check(&mut request).unwrap();
        let mut body = request.into_body();
        let moment = COMPLETE_WITHIN.mul_f32(0.9);
        for _ in 0..3 {
            send(&[0, 0, 0, 0, 1]);
            body.frame().await.unwrap().unwrap();
            let waits = timeout(moment, body.frame()).await;
            assert!(waits.is_err(), "the message may still be completed");
            send(b"x");
            body.frame().await.unwrap().unwrap();
        }
        send(&[0, 0, 0, 0, 1]);
        body.frame().await.unwrap().unwrap();
        let late = body.frame().await.unwrap();
        assert!(late.is_err(), "it took too long");
    }
}
