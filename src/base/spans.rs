//! Spans of distributed traces. They have their own target, so that none is created without an
//! exporter. A trace begins with a request, or continues the caller's (W3C trace context);
//! background work has none.

use opentelemetry::{
    propagation::{Extractor, TextMapPropagator as _},
    trace::TraceContextExt as _,
};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::{Level, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The target of exported spans only.
pub const TARGET: &str = "lockkeeper::trace";

/// The metadata key of the caller's context.
pub const TRACEPARENT: &str = "traceparent";
/// See [`TRACEPARENT`].
pub const TRACESTATE: &str = "tracestate";

/// The trace context of a caller.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caller<'a> {
    /// The trace, the caller's span, and whether it is sampled.
    pub traceparent: Option<&'a str>,
    /// Additions of tracing systems.
    pub tracestate: Option<&'a str>,
}

/// Whether the current span belongs to a trace.
pub fn is_traced() -> bool {
    tracing::span_enabled!(target: TARGET, Level::TRACE)
        && Span::current()
            .metadata()
            .is_some_and(|current| current.target() == TARGET)
}

/// The id of the current trace, for logs.
pub fn trace_id() -> Option<String> {
    if !tracing::span_enabled!(target: TARGET, Level::TRACE) {
        return None;
    }
    let context = Span::current().context();
    let trace = context.span().span_context().clone();
    trace.is_valid().then(|| trace.trace_id().to_string())
}

/// The id of the trace of a span, or of the current one, if it is recorded.
pub(crate) fn recorded_trace(span: Option<&Span>) -> Option<String> {
    if !tracing::span_enabled!(target: TARGET, Level::TRACE) {
        return None;
    }
    let context = span.map_or_else(|| Span::current().context(), Span::context);
    let trace = context.span().span_context().clone();
    let is_recorded = trace.is_valid() && trace.is_sampled();
    is_recorded.then(|| trace.trace_id().to_string())
}

/// Makes a new span part of the caller's trace, if there is one.
pub fn adopt(span: &Span, caller: Caller<'_>) {
    if span.is_disabled() || caller.traceparent.is_none() {
        return;
    }
    let context = TraceContextPropagator::new().extract(&caller);
    if let Err(error) = span.set_parent(context) {
        tracing::debug!(%error, "a span has no parent");
    }
}

// === impl Caller ===

impl Extractor for Caller<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            TRACEPARENT => self.traceparent,
            TRACESTATE => self.tracestate,
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACEPARENT, TRACESTATE]
    }
}
