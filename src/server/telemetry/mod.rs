//! The process's telemetry: logs, traces, and its use of the machine.

mod audit;
mod export;
mod json;
mod lines;
#[cfg(target_os = "linux")]
pub mod process;

pub use self::lines::LostLines;

use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
};

use lockkeeper_base::spans;
use opentelemetry_otlp::ExporterBuildError;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::{
    Layer as _,
    filter::{FilterExt as _, LevelFilter, Targets, filter_fn},
    fmt::{format, writer::BoxMakeWriter},
    layer::SubscriberExt as _,
    registry::Registry,
    util::SubscriberInitExt as _,
};

use self::{audit::AuditFile, lines::Sink};
use crate::config::{Audit, Log, LogFormat, Telemetry, filter};

/// Telemetry cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// A filter is invalid.
    #[error("RUST_LOG: {0}")]
    Filter(String),
    /// The collector's address is unusable.
    #[error("telemetry.otlp_endpoint: {0}")]
    Collector(#[from] ExporterBuildError),
    /// The audit log cannot be written.
    #[error("audit.file: {}: {error}", path.display())]
    Audit {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
}

/// The lines and spans that are not yet written or sent when the process ends.
#[derive(Debug)]
pub struct Sending {
    spans: Option<SdkTracerProvider>,
    lines: Vec<WorkerGuard>,
    lost: LostLines,
}

/// Sends logs to stderr, the audit log to its file if one is named, and traces to a collector if
/// one is named. Fails for an invalid filter, address or file. Call it once, on the runtime.
pub fn init(log: &Log, audit: &Audit, telemetry: &Telemetry) -> Result<Sending, Unusable> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(directives) if !directives.is_empty() => filter(&directives),
        _ => filter(&log.level),
    };
    let filter = filter.map_err(Unusable::Filter)?;
    let provider = export::provider(telemetry)?;
    let lost = LostLines::default();
    let (stderr, guard) = lost.queue(Sink::Log, io::stderr());
    let mut guards = vec![guard];
    let audited = audit_writer(audit, &lost, &mut guards)?.map(|writer| {
        let json = json::Traced(format().json().flatten_event(true));
        let only_audit = Targets::new().with_target(audit::TARGET, LevelFilter::TRACE);
        tracing_subscriber::fmt::layer()
            .with_writer(writer)
            .json()
            .event_format(audit::Numbered::new(json))
            .with_filter(only_audit)
            .boxed()
    });
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(stderr)
        .with_ansi(io::stderr().is_terminal());
    let lines = match log.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines
            .json()
            .event_format(json::Traced(format().json().flatten_event(true)))
            .boxed(),
    };
    let has_file = audited.is_some();
    let is_of_log = filter_fn(move |event| !has_file || event.target() != audit::TARGET);
    let traces = provider.as_ref().map(|provider| {
        let only_spans = Targets::new().with_target(spans::TARGET, LevelFilter::TRACE);
        tracing_opentelemetry::layer()
            .with_tracer(export::tracer(provider))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(only_spans)
            .boxed()
    });
    let log = lines.with_filter(filter.and(is_of_log)).boxed();
    // Not as options, of which an empty one would turn the others off.
    let layers: Vec<_> = [log].into_iter().chain(audited).chain(traces).collect();
    Registry::default().with(layers).init();
    Ok(Sending {
        spans: provider,
        lines: guards,
        lost,
    })
}

/// The writer of the audit log; none: it is a part of the log.
fn audit_writer(
    audit: &Audit,
    lost: &LostLines,
    guards: &mut Vec<WorkerGuard>,
) -> Result<Option<BoxMakeWriter>, Unusable> {
    if audit.file.as_os_str().is_empty() {
        return Ok(None);
    }
    let path = audit.file.clone();
    let file = AuditFile::open(path.clone(), lost.failed());
    let file = file.map_err(|error| Unusable::Audit { path, error })?;
    if audit.blocking {
        #[expect(
            clippy::disallowed_types,
            reason = "the one that can be a writer of lines"
        )]
        let file = std::sync::Mutex::new(file);
        return Ok(Some(BoxMakeWriter::new(file)));
    }
    let (queue, guard) = lost.queue(Sink::Audit, file);
    guards.push(guard);
    Ok(Some(BoxMakeWriter::new(queue)))
}

// === impl Sending ===

impl Sending {
    /// The lines that are lost from now on.
    pub fn lost_lines(&self) -> LostLines {
        self.lost.clone()
    }

    /// Sends the remaining spans and writes the remaining lines. Does not wait long for a reader of
    /// the log that has stopped.
    pub async fn finish(self) {
        let Self { spans, lines, .. } = self;
        let finished = tokio::task::spawn_blocking(move || {
            if let Some(Err(error)) = spans.map(|spans| spans.shutdown()) {
                tracing::warn!(%error, "some traces were not sent");
            }
            drop(lines);
        });
        let _ = finished.await;
    }
}
