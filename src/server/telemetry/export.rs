//! Exports traces to a collector by OTLP over gRPC.

use opentelemetry::{KeyValue, trace::TracerProvider as _};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{
    Resource,
    trace::{Sampler, SdkTracer, SdkTracerProvider},
};

use crate::config::Telemetry;

/// Variables that name a collector; the configuration overrides them.
const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];

/// The exporter; none if no collector is named. Needs a runtime, on which the connection is opened.
pub(super) fn provider(
    telemetry: &Telemetry,
) -> Result<Option<SdkTracerProvider>, ExporterBuildError> {
    let set = |variable: &str| std::env::var(variable).is_ok_and(|value| !value.is_empty());
    let mut exporter = SpanExporter::builder().with_tonic();
    if !telemetry.otlp_endpoint.is_empty() {
        exporter = exporter.with_endpoint(&telemetry.otlp_endpoint);
    } else if !ENDPOINTS.iter().any(|variable| set(variable)) {
        return Ok(None);
    }
    let root = Sampler::TraceIdRatioBased(telemetry.sample_ratio);
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let mut resource = Resource::builder().with_attribute(version);
    if !set("OTEL_SERVICE_NAME") {
        resource = resource.with_service_name("lockkeeper");
    }
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter.build()?)
        .with_sampler(Sampler::ParentBased(Box::new(root)))
        .with_resource(resource.build())
        .build();
    Ok(Some(provider))
}

/// The source of spans.
pub(super) fn tracer(provider: &SdkTracerProvider) -> SdkTracer {
    provider.tracer("lockkeeper")
}
