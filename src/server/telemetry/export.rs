//! Exports traces to a collector by OTLP over gRPC.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use opentelemetry::{KeyValue, trace::TracerProvider as _};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{self, Sampler, SdkTracer, SdkTracerProvider, SpanData},
};

use crate::config::Telemetry;

/// Variables that name a collector; the configuration overrides them.
const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];

/// Logs when the collector no longer takes traces, and when it does again.
#[derive(Debug)]
struct Logged {
    exporter: SpanExporter,
    has_failed: AtomicBool,
}

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
        .with_batch_exporter(Logged {
            exporter: exporter.build()?,
            has_failed: AtomicBool::new(false),
        })
        .with_sampler(Sampler::ParentBased(Box::new(root)))
        .with_resource(resource.build())
        .build();
    Ok(Some(provider))
}

/// The source of spans.
pub(super) fn tracer(provider: &SdkTracerProvider) -> SdkTracer {
    provider.tracer("lockkeeper")
}

// === impl Logged ===

impl trace::SpanExporter for Logged {
    async fn export(&self, spans: Vec<SpanData>) -> OTelSdkResult {
        let exported = self.exporter.export(spans).await;
        let had_failed = self.has_failed.swap(exported.is_err(), Ordering::Relaxed);
        match &exported {
            Err(error) if !had_failed => tracing::warn!(%error, "traces are not sent"),
            Ok(()) if had_failed => tracing::info!("traces are sent again"),
            _ => {}
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
