//! Calls by method and code, and the span of each. The names are those of the established gRPC
//! middlewares, which dashboards know; OpenTelemetry's are not final yet. A call ends with its
//! trailers, or when the client disconnects.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::{HeaderMap, Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use lockkeeper_base::metrics::{
    Histogram, Labels, Numbered, OnUse, Registrar, numbered, observe_in, of_calls,
};
use pin_project_lite::pin_project;
use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use prost::Message as _;
use tokio::time::Instant;
use tonic::{Code, body::Body};
use tower::{Layer, Service};
use tracing::Span;

use super::{budgets, listen, pb, spans};

/// The gRPC codes by number, in the spelling of these metrics.
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

/// The families of all methods.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Families>);

#[derive(Debug)]
struct Families {
    started: Family<Labels, Counter>,
    handled: Family<Labels, Counter, fn() -> Counter>,
    seconds: Family<Labels, Histogram, fn() -> Histogram>,
    methods: HashMap<String, Arc<Method>>,
    unknown: Arc<Method>,
    frames_failed: Numbered<Counter>,
    connections: listen::Metrics,
    budgets: budgets::Metrics,
}

/// The metrics of one method.
#[derive(Debug)]
struct Method {
    started: Counter,
    seconds: OnUse<Histogram>,
    /// By code; most are never used.
    handled: [OnUse<Counter>; CODES.len()],
}

/// A call in progress. Dropping this ends it.
#[derive(Debug)]
struct Call {
    method: Arc<Method>,
    begun: Instant,
    code: Code,
    span: Span,
}

/// Counts calls.
#[derive(Clone, Debug)]
pub struct MetricsLayer(pub Metrics);

/// See [`MetricsLayer`].
#[derive(Clone, Debug)]
pub struct MetricsService<S> {
    inner: S,
    metrics: Metrics,
}

pin_project! {
    /// A call whose answer has not begun.
    pub struct Answering<F> {
        #[pin]
        inner: F,
        call: Option<Call>,
    }
}

pin_project! {
    /// An answer that has not ended.
    #[derive(Debug)]
    pub struct CountedBody<B> {
        #[pin]
        inner: B,
        call: Option<Call>,
    }
}

// === impl Metrics ===

impl Default for Metrics {
    fn default() -> Self {
        let started = Family::<Labels, Counter>::default();
        let handled = Family::new_with_constructor(Counter::default as fn() -> Counter);
        let seconds = Family::new_with_constructor(of_calls as fn() -> Histogram);
        let method = |kind: &str, service: &str, method: &str| {
            let labels = vec![
                ("grpc_type", kind.to_owned()),
                ("grpc_service", service.to_owned()),
                ("grpc_method", method.to_owned()),
            ];
            Arc::new(Method {
                started: started.get_or_create_owned(&labels),
                handled: CODES.map(|code| {
                    let code = [("grpc_code", code.to_owned())];
                    OnUse::new(&handled, labels.iter().cloned().chain(code).collect())
                }),
                seconds: OnUse::new(&seconds, labels),
            })
        };
        let known = described().into_iter();
        let methods = known.map(|(kind, service, name)| {
            let path = format!("/{service}/{name}");
            (path, method(kind, &service, &name))
        });
        Self(Arc::new(Families {
            methods: methods.collect(),
            unknown: method("unknown", "unknown", "unknown"),
            started: started.clone(),
            handled: handled.clone(),
            seconds: seconds.clone(),
            frames_failed: numbered("grpc_code", CODES.map(str::to_owned), Counter::default),
            connections: listen::Metrics::default(),
            budgets: budgets::Metrics::default(),
        }))
    }
}

impl Metrics {
    /// Registers all families.
    pub fn register(&self, registry: &mut Registry) {
        let Families {
            started,
            handled,
            seconds,
            frames_failed,
            connections,
            budgets,
            ..
        } = &*self.0;
        registry.register("grpc_server_started", "Calls that began", started.clone());
        registry.register(
            "grpc_server_handled",
            "Calls that ended, by code",
            handled.clone(),
        );
        registry.register(
            "grpc_server_handling_seconds",
            "Time from the start of a call to the end of its answer",
            seconds.clone(),
        );
        let mut ours = Registrar::new(registry);
        ours.add(
            "frames_failed",
            "Frames of sessions that were answered with an error, by code",
            frames_failed.0.clone(),
        );
        connections.register(&mut ours);
        budgets.register(&mut ours);
    }

    /// The metrics of connections.
    pub fn connections(&self) -> &listen::Metrics {
        &self.0.connections
    }

    /// The metrics of budgets.
    pub(super) fn budgets(&self) -> &budgets::Metrics {
        &self.0.budgets
    }

    /// Counts a frame that was answered with an error of this code.
    pub(super) fn frame_failed(&self, code: i32) {
        let place = usize::try_from(code).unwrap_or_default();
        if let Some(counter) = self.0.frames_failed.1.get(place) {
            counter.inc();
        }
    }

    fn begin(&self, request: &Request<Body>) -> Call {
        let path = request.uri().path();
        let method = self.0.methods.get(path).unwrap_or(&self.0.unknown);
        method.started.inc();
        Call {
            method: Arc::clone(method),
            begun: Instant::now(),
            code: Code::Cancelled,
            span: spans::of_call(path, request.headers()),
        }
    }
}

/// All served methods: kind, service, name.
fn described() -> Vec<(&'static str, String, String)> {
    let sets = [
        pb::DESCRIPTORS,
        lockkeeper_facades::DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    let sets = sets.map(|set| prost_types::FileDescriptorSet::decode(set).unwrap_or_default());
    let mut methods = Vec::new();
    for file in sets.into_iter().flat_map(|set| set.file) {
        for service in &file.service {
            let service_name = format!("{}.{}", file.package(), service.name());
            for method in &service.method {
                let kind = match (method.client_streaming(), method.server_streaming()) {
                    (false, false) => "unary",
                    (true, false) => "client_stream",
                    (false, true) => "server_stream",
                    (true, true) => "bidi_stream",
                };
                methods.push((kind, service_name.clone(), method.name().to_owned()));
            }
        }
    }
    methods
}

// === impl Call ===

impl Call {
    /// Takes the final code from these headers or trailers. False if they hold none.
    fn ended_by(&mut self, headers: &HeaderMap) -> bool {
        let status = headers.get("grpc-status");
        if let Some(status) = status {
            self.code = Code::from_bytes(status.as_bytes());
        }
        status.is_some()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let seconds = self.method.seconds.get();
        observe_in(Some(&self.span), seconds, self.begun.elapsed());
        let code = usize::try_from(i32::from(self.code)).unwrap_or_default();
        self.method.handled[code].get().inc();
        spans::ended(&self.span, self.code, CODES[code]);
    }
}

// === impl MetricsLayer ===

impl<S> Layer<S> for MetricsLayer {
    type Service = MetricsService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let metrics = self.0.clone();
        MetricsService { inner, metrics }
    }
}

impl<S, B> Service<Request<Body>> for MetricsService<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
{
    type Response = Response<CountedBody<B>>;
    type Error = S::Error;
    type Future = Answering<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let call = Some(self.metrics.begin(&request));
        let inner = self.inner.call(request);
        Answering { inner, call }
    }
}

// === impl Answering ===

impl<F, B, E> Future for Answering<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<CountedBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = {
            let _entered = this.call.as_ref().map(|call| call.span.enter());
            ready!(this.inner.poll(cx))
        };
        let mut call = this.call.take();
        Poll::Ready(answer.map(|answer| {
            if call
                .as_mut()
                .is_some_and(|call| call.ended_by(answer.headers()))
            {
                call = None;
            }
            answer.map(|inner| CountedBody { inner, call })
        }))
    }
}

// === impl CountedBody ===

impl<B: HttpBody> HttpBody for CountedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.project();
        let frame = ready!(this.inner.poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(trailers) = frame.trailers_ref()
            && let Some(mut call) = this.call.take()
        {
            call.ended_by(trailers);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
