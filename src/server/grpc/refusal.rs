//! Ends the answers of a call whose caller's credentials are taken away meanwhile: any stream, and
//! any call that waits.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures::{FutureExt as _, future::BoxFuture};
use http::{HeaderMap, Request, Response, header::CONTENT_TYPE};
use http_body::{Body as HttpBody, Frame, SizeHint};
use pin_project_lite::pin_project;
use tonic::{Status, body::Body};
use tower::{BoxError, Layer, Service};

use super::credentials::Credentials;

/// Watches the [`Credentials`] of calls while they are answered.
#[derive(Clone, Copy, Debug)]
pub struct RefusalLayer;

/// See [`RefusalLayer`].
#[derive(Clone, Debug)]
pub struct RefusalService<S>(S);

pin_project! {
    /// A call that has no answer yet.
    pub struct Answering<F> {
        #[pin]
        inner: F,
        credentials: Option<Credentials>,
    }
}

struct Refusable {
    body: Body,
    state: State,
}

enum State {
    /// The answer has not kept anybody waiting.
    Quick(Credentials),
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
        let credentials = if is_web {
            None
        } else {
            request.extensions_mut().remove::<Credentials>()
        };
        let inner = self.0.call(request);
        Answering { inner, credentials }
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
        let this = self.project();
        let answer = ready!(this.inner.poll(cx))?;
        let credentials = this.credentials.take();
        Poll::Ready(Ok(answer.map(|body| match credentials {
            Some(credentials) if !body.is_end_stream() => Body::new(Refusable {
                body: Body::new(body),
                state: State::Quick(credentials),
            }),
            _ => Body::new(body),
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
        if let State::Quick(credentials) = &self.state {
            self.state = State::Waiting(credentials.clone().refused().boxed());
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
