//! A collector of traces, as far as the coordinator can tell.

use std::net::SocketAddr;

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::any_value::Value,
    trace::v1::Span,
};
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;
use tonic::{
    Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};

use crate::prelude::*;

/// See the module.
pub(crate) struct Collector {
    address: SocketAddr,
    spans: Received,
    _server: AbortOnDropHandle<()>,
}

#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Received {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let resources = request.into_inner().resource_spans.into_iter();
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        self.0.lock().extend(scopes.flat_map(|scope| scope.spans));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let spans = Received::default();
        let service = TraceServiceServer::new(spans.clone());
        let server = spawn_detached("collector", async move {
            let incoming = TcpIncoming::from(listener);
            let serving = Server::builder().add_service(service);
            serving.serve_with_incoming(incoming).await.unwrap();
        });
        Self {
            address,
            spans,
            _server: AbortOnDropHandle::new(server),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The spans of a trace, in the order in which they came.
    pub(crate) fn of_trace(&self, trace_id: &str) -> Vec<Span> {
        let spans = self.spans.0.lock();
        let of_trace = spans
            .iter()
            .filter(|span| hex::encode(&span.trace_id) == trace_id);
        of_trace.cloned().collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.spans.0.lock().len()
    }
}

/// What a span says under a key, as text.
pub(crate) fn attribute(span: &Span, key: &str) -> Option<String> {
    let attribute = span.attributes.iter().find(|it| it.key == key)?;
    match attribute.value.clone()?.value? {
        Value::StringValue(text) => Some(text),
        Value::IntValue(number) => Some(number.to_string()),
        other => panic!("{other:?}"),
    }
}
