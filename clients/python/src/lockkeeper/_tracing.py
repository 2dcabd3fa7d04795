"""The trace context of the caller, if the OpenTelemetry API is installed."""

from __future__ import annotations

try:
    from opentelemetry import context as contexts
    from opentelemetry import trace
except ImportError:

    def traceparent() -> str:
        """Return the W3C trace context of the active span; empty without OpenTelemetry."""
        return ""

else:

    def traceparent() -> str:
        """Return the W3C trace context of the active span; empty if there is none."""
        if not contexts.get_current():
            return ""  # What follows takes four times as long.
        span = trace.get_current_span()
        if span is trace.INVALID_SPAN:
            return ""
        context = span.get_span_context()
        if not context.is_valid:
            return ""
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
