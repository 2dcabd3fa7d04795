//! The process's telemetry: logs, traces, and its use of the machine.

mod export;
mod json;
#[cfg(target_os = "linux")]
pub mod process;

use std::io::{self, IsTerminal as _};

use lockkeeper_base::spans;
use opentelemetry_otlp::ExporterBuildError;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::{
    EnvFilter, Layer as _,
    filter::{LevelFilter, ParseError, Targets},
    fmt::format,
    layer::SubscriberExt as _,
    registry::Registry,
    util::SubscriberInitExt as _,
};

use crate::config::{Log, LogFormat, Telemetry};

/// Telemetry cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// A filter is invalid.
    #[error("RUST_LOG: {0}")]
    Filter(#[from] ParseError),
    /// The collector's address is unusable.
    #[error("telemetry.otlp_endpoint: {0}")]
    Collector(#[from] ExporterBuildError),
}

/// The spans that are not yet sent when the process ends.
#[derive(Debug)]
pub struct Sending(Option<SdkTracerProvider>);

/// Sends logs to stderr, and traces to a collector if one is named. Fails for an invalid filter or
/// address. Call it once, on the runtime.
pub fn init(log: &Log, telemetry: &Telemetry) -> Result<Sending, Unusable> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(directives) if !directives.is_empty() => EnvFilter::try_new(directives)?,
        _ => EnvFilter::try_new(&log.level)?,
    };
    let provider = export::provider(telemetry)?;
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    let lines = match log.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines
            .json()
            .event_format(json::Traced(format().json().flatten_event(true)))
            .boxed(),
    };
    let Some(provider) = provider else {
        Registry::default().with(lines.with_filter(filter)).init();
        return Ok(Sending(None));
    };
    let only_spans = Targets::new().with_target(spans::TARGET, LevelFilter::TRACE);
    let traces = tracing_opentelemetry::layer()
        .with_tracer(export::tracer(&provider))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_filter(only_spans);
    Registry::default()
        .with(lines.with_filter(filter))
        .with(traces)
        .init();
    Ok(Sending(Some(provider)))
}

// === impl Sending ===

impl Sending {
    /// Sends the remaining spans.
    pub async fn finish(self) {
        let Some(provider) = self.0 else {
            return;
        };
        let sent = tokio::task::spawn_blocking(move || provider.shutdown()).await;
        if let Ok(Err(error)) = sent {
            tracing::warn!(%error, "some traces were not sent");
        }
    }
}
