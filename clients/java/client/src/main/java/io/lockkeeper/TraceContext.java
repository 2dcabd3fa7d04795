package io.lockkeeper;

import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;

/** The trace context of the calling thread, if OpenTelemetry's API is on the class path. */
final class TraceContext {

    private static final boolean IS_INSTALLED = isInstalled();

    private TraceContext() {}

    /** In the format of the W3C header {@code traceparent}; empty if there is none. */
    static String traceparent() {
        return IS_INSTALLED ? OpenTelemetry.traceparent() : "";
    }

    private static boolean isInstalled() {
        try {
            Class.forName("io.opentelemetry.api.trace.Span");
            return true;
        } catch (ClassNotFoundException | LinkageError absent) {
            return false;
        }
    }

    /** Loaded only if the API is there. */
    private static final class OpenTelemetry {
        private static String traceparent() {
            SpanContext span = Span.current().getSpanContext();
            if (!span.isValid()) {
                return "";
            }
            String flags = span.getTraceFlags().asHex();
            return "00-" + span.getTraceId() + "-" + span.getSpanId() + "-" + flags;
        }
    }
}
