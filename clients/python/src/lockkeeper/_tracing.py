"""The trace context of the caller, if the OpenTelemetry API is installed."""

from __future__ import annotations

try:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:

    def traceparent() -> str:
        """Return the W3C trace context of the active span; empty without OpenTelemetry."""
        return ""

else:
    _propagator = TraceContextTextMapPropagator()

    def traceparent() -> str:
        """Return the W3C trace context of the active span; empty if there is none."""
        carrier: dict[str, str] = {}
        _propagator.inject(carrier)
        return carrier.get("traceparent", "")
