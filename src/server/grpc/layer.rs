//! Distinguishes a stream that its client ended from a broken one. tonic reports a reset stream
//! like a half-closed one, but a reset keeps a session's grants and a half-close releases them.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use http::Request;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tonic::body::Body;
use tower::{Layer, Service};

/// Only streams of this method are watched; others pay nothing.
const METHOD: &str = "/Session";

/// How a request's body ended; in the request's extensions.
#[derive(Clone, Debug, Default)]
pub(super) struct BodyFate(Arc<AtomicBool>);

/// Adds [`BodyFate`] to requests.
#[derive(Clone, Copy, Debug)]
pub struct BodyFateLayer;

/// See [`BodyFateLayer`].
#[derive(Clone, Debug)]
pub struct BodyFateService<S>(S);

struct Watched {
    body: Body,
    fate: BodyFate,
}

// === impl BodyFate ===

impl BodyFate {
    /// Whether the body ended although the client did not end it.
    pub(super) fn is_broken(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

// === impl BodyFateLayer ===

impl<S> Layer<S> for BodyFateLayer {
    type Service = BodyFateService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        BodyFateService(inner)
    }
}

// === impl BodyFateService ===

impl<S: Service<Request<Body>>> Service<Request<Body>> for BodyFateService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if request.uri().path().ends_with(METHOD) {
            let fate = BodyFate::default();
            request.extensions_mut().insert(fate.clone());
            request = request.map(|body| Body::new(Watched { body, fate }));
        }
        self.0.call(request)
    }
}

// === impl Watched ===

impl HttpBody for Watched {
    type Data = <Body as HttpBody>::Data;
    type Error = <Body as HttpBody>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let is_broken = match &frame {
            Some(Ok(_)) => false,
            Some(Err(_)) => true,
            // hyper also ends such a body "without an error" after a reset with that code. So does
            // its keepalive, which closes the connection of a silent client. Only an explicit end
            // by the client leaves this mark.
            None => !self.body.is_end_stream(),
        };
        if is_broken {
            self.fate.0.store(true, Ordering::Release);
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
