//! Takes requests of Connect from those of gRPC, and hands the answers back.

use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{
    FutureExt as _, TryFutureExt as _,
    future::{BoxFuture, Either as EitherFuture, MapOk},
};
use http::{Request, Response, StatusCode, Version, header::CONTENT_TYPE};
use http_body::Body as HttpBody;
use http_body_util::Either;
use tokio::time::{Instant, timeout_at};
use tonic::{Code, body::Body};
use tower::{BoxError, Layer, Service};

use super::{
    answer,
    asked::{Asked, Framing, Refused, make_grpc},
    translation::RefusedWith,
};
use crate::grpc::status;

/// Translates calls over HTTP/JSON to gRPC, and answers of gRPC back.
#[derive(Clone, Copy, Debug)]
pub struct ConnectLayer {
    /// Whether HTTP/JSON is accepted.
    pub(in crate::grpc) http_json: bool,
    /// Whether the locking of Terraform's http backend is accepted.
    pub(in crate::grpc) terraform: bool,
    /// Whether gRPC-Web is accepted, which other layers translate.
    pub(in crate::grpc) grpc_web: bool,
}

/// See [`ConnectLayer`].
#[derive(Clone, Debug)]
pub struct ConnectService<S> {
    layer: ConnectLayer,
    inner: S,
}

impl<S> Layer<S> for ConnectLayer {
    type Service = ConnectService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let layer = *self;
        ConnectService { layer, inner }
    }
}

// === impl ConnectLayer ===

impl ConnectLayer {
    /// What a request asks for; none if it is one of gRPC.
    fn asked(self, request: &Request<Body>) -> Option<Result<Asked, Refused>> {
        let kind = request.headers().get(CONTENT_TYPE);
        let is_grpc = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        if is_grpc {
            let is_lost = request.version() < Version::HTTP_2 && !self.grpc_web;
            return is_lost.then(|| {
                let status = status::not_over_http1();
                Err(Refused::with(status, StatusCode::UNSUPPORTED_MEDIA_TYPE))
            });
        }
        let state_lock = self
            .terraform
            .then(|| Asked::of_state_lock(request))
            .flatten();
        state_lock.or_else(|| self.http_json.then(|| Asked::of(request)))
    }
}

// === impl ConnectService ===

/// The body of an answer of gRPC, or of one that was translated.
type Answered<B> = Response<Either<B, Body>>;

impl<S, B> Service<Request<Body>> for ConnectService<S>
where
    S: Service<Request<Body>, Response = Response<B>, Future: Send + 'static>,
    S::Error: Send + 'static,
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    type Response = Answered<B>;
    type Error = S::Error;
    type Future = EitherFuture<
        MapOk<S::Future, fn(Response<B>) -> Answered<B>>,
        BoxFuture<'static, Result<Answered<B>, S::Error>>,
    >;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Some(asked) = self.layer.asked(&request) else {
            let answered = self.inner.call(request);
            return EitherFuture::Left(answered.map_ok(|answer| answer.map(Either::Left)));
        };
        make_grpc(&mut request, asked.as_ref().ok());
        let extensions = request.extensions_mut();
        match &asked {
            Ok(asked) => extensions.insert(asked.clone()).is_some(),
            Err(refused) => {
                let status = refused.status.clone();
                extensions.insert(RefusedWith(status)).is_some()
            }
        };
        let answer = self.inner.call(request);
        EitherFuture::Right(translated(asked, answer).boxed())
    }
}

/// The answer of a call, translated.
async fn translated<B, E>(
    asked: Result<Asked, Refused>,
    answer: impl Future<Output = Result<Response<B>, E>>,
) -> Result<Answered<B>, E>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    let timeout = asked.as_ref().ok().and_then(|asked| asked.timeout);
    let ends_at = timeout.map(|timeout| Instant::now() + timeout);
    let answered = async {
        let answer = answer.await?;
        Ok(match asked {
            Ok(asked) if asked.framing == Framing::Whole => {
                let whole = answer::whole(&asked, answer).await;
                whole.unwrap_or_else(|status| answer::refusal(&status, None))
            }
            Ok(asked) => answer::streamed(asked, answer, ends_at),
            Err(refused) => refusal(&refused, &answer),
        })
    };
    let answered = match ends_at {
        None => answered.await,
        Some(at) => timeout_at(at, answered)
            .await
            .unwrap_or_else(|_| Ok(answer::refusal(&status::deadline_exceeded(), None))),
    };
    answered.map(|answer| answer.map(Either::Right))
}

/// The answer to a request that was refused here, or before it came to that.
fn refusal<B>(refused: &Refused, answer: &Response<B>) -> Response<Body> {
    match tonic::Status::from_header_map(answer.headers()) {
        Some(other) if other.code() != refused.status.code() && other.code() != Code::Ok => {
            answer::refusal(&other, None)
        }
        _ => answer::refusal(&refused.status, Some(refused.http)),
    }
}
