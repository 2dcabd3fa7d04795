//! Ends the answers of a call whose caller's credentials are taken away meanwhile: any stream, and
//! any call that waits. A stream ends, too, when its connection is to be closed.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures::{
    FutureExt as _,
    future::{BoxFuture, OptionFuture, pending},
};
use http::{HeaderMap, Request, Response, header::CONTENT_TYPE};
use http_body::{Body as HttpBody, Frame, SizeHint};
use pin_project_lite::pin_project;
use tonic::{Status, body::Body};
use tower::{BoxError, Layer, Service};

use super::{Peer, credentials::Credentials, layer::SESSION, peer::Usage, status};

/// Watches the [`Credentials`] of calls while they are answered, and their connection.
#[derive(Clone, Copy, Debug)]
pub struct RefusalLayer;

/// See [`RefusalLayer`].
#[derive(Clone, Debug)]
pub struct RefusalService<S>(S);

pin_project! {
    /// A call that has no answer yet.
    pub struct Answering<F> {
        // None: it was cancelled.
        #[pin]
        inner: Option<F>,
        terms: Terms,
        refused: Option<BoxFuture<'static, Status>>,
    }
}

/// What may end a call.
#[derive(Clone, Default)]
struct Terms {
    credentials: Option<Credentials>,
    connection: Option<Arc<Usage>>,
}

struct Refusable {
    body: Body,
    state: State,
}

enum State {
    /// The answer has not kept anybody waiting.
    Quick(Terms),
    Waiting(BoxFuture<'static, Status>),
    Refused,
}

impl<S> Layer<S> for RefusalLayer {
    type Service = RefusalService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RefusalService(inner)
    }
}

// === impl RefusalService ===

impl<S, A, B> Service<Request<A>> for RefusalService<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Answering<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<A>) -> Self::Future {
        // The trailers of gRPC-Web are a part of the body: the layer behind the translation adds
        // them.
        let kind = request.headers().get(CONTENT_TYPE);
        let is_web = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc-web"));
        let terms = if is_web {
            Terms::default()
        } else {
            Terms::of(&mut request)
        };
        let inner = self.0.call(request);
        Answering {
            inner: Some(inner),
            terms,
            refused: None,
        }
    }
}

// === impl Terms ===

impl Terms {
    /// Those of a call. The layer of an inner service finds none.
    fn of<B>(request: &mut Request<B>) -> Self {
        // A session ends by itself, with a notice.
        let is_session = request.uri().path().ends_with(SESSION);
        let extensions = request.extensions_mut();
        let connection = extensions.get::<Peer>().map(|peer| Arc::clone(&peer.usage));
        Self {
            credentials: extensions.remove::<Credentials>(),
            connection: connection.filter(|it| it.ages() && !is_session),
        }
    }

    fn is_empty(&self) -> bool {
        self.credentials.is_none() && self.connection.is_none()
    }

    /// Resolves with the end of the call.
    async fn over(self) -> Status {
        let refused = OptionFuture::from(self.credentials.map(Credentials::refused));
        let aged = async {
            match self.connection {
                Some(connection) => connection.aged().await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(refused) = refused => refused,
            () = aged => status::connection_aged(),
        }
    }
}

// === impl Answering ===

impl<F, B, E> Future for Answering<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Output = Result<Response<Body>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let Some(inner) = this.inner.as_mut().as_pin_mut() else {
            return Poll::Pending;
        };
        let Poll::Ready(answer) = inner.poll(cx) else {
            let Some(credentials) = &this.terms.credentials else {
                return Poll::Pending;
            };
            // A caller that has no right at first is refused by the call, which names the right.
            let refused = || {
                if credentials.have_right() {
                    credentials.clone().refused().boxed()
                } else {
                    pending().boxed()
                }
            };
            let status = ready!(this.refused.get_or_insert_with(refused).poll_unpin(cx));
            // Cancels the call.
            this.inner.set(None);
            return Poll::Ready(Ok(status.into_http()));
        };
        let terms = std::mem::take(this.terms);
        Poll::Ready(Ok(answer?.map(|body| {
            if terms.is_empty() || body.is_end_stream() {
                return Body::new(body);
            }
            Body::new(Refusable {
                body: Body::new(body),
                state: State::Quick(terms),
            })
        })))
    }
}

// === impl Refusable ===

impl HttpBody for Refusable {
    type Data = <Body as HttpBody>::Data;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if let State::Refused = self.state {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        if let State::Quick(terms) = &mut self.state {
            let terms = std::mem::take(terms);
            self.state = State::Waiting(terms.over().boxed());
        }
        let State::Waiting(refused) = &mut self.state else {
            return Poll::Pending;
        };
        let status = ready!(refused.poll_unpin(cx));
        self.state = State::Refused;
        // Cancels the call.
        self.body = Body::empty();
        let mut trailers = HeaderMap::new();
        status.add_header(&mut trailers)?;
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.state, State::Refused) || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
