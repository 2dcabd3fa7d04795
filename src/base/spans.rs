//! Spans of distributed traces. They have a target of their own, so that without an exporter nobody
//! wants them and none is ever made. A trace begins with a request, or before it where the caller
//! says so in the W3C form; what the coordinator does of its own accord has none.

use opentelemetry::{
    propagation::{Extractor, TextMapPropagator as _},
    trace::TraceContextExt as _,
};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::{Level, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The target of spans that are exported, and of nothing else.
pub const TARGET: &str = "lockkeeper::trace";

/// The keys that the context of a caller comes under.
pub const TRACEPARENT: &str = "traceparent";
/// See [`TRACEPARENT`].
pub const TRACESTATE: &str = "tracestate";

/// What a caller says of its trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caller<'a> {
    /// The trace, the caller's span, and whether it is sampled.
    pub traceparent: Option<&'a str>,
    /// What tracing systems add to that.
    pub tracestate: Option<&'a str>,
}

/// Whether what happens now belongs to a trace.
pub fn is_traced() -> bool {
    tracing::span_enabled!(target: TARGET, Level::TRACE)
        && Span::current()
            .metadata()
            .is_some_and(|current| current.target() == TARGET)
}

/// The trace that this belongs to, for logs.
pub fn trace_id() -> Option<String> {
    if !tracing::span_enabled!(target: TARGET, Level::TRACE) {
        return None;
    }
    let context = Span::current().context();
    let trace = context.span().span_context().clone();
    trace.is_valid().then(|| trace.trace_id().to_string())
}

/// Makes a span that has just been made a part of the caller's trace, if there is one.
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
