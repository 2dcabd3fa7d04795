package io.lockkeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.context.Scope;
import org.junit.jupiter.api.Test;

final class TraceContextTest {

    private static final String TRACE = "0af7651916cd43dd8448eb211c80319c";
    private static final String SPAN = "b7ad6b7169203331";

    @Test
    void theActiveSpanIsPassedOn() {
        assertEquals("", TraceContext.traceparent());
        SpanContext context =
                SpanContext.create(
                        TRACE, SPAN, TraceFlags.getSampled(), TraceState.getDefault());
        try (Scope scope = Span.wrap(context).makeCurrent()) {
            assertEquals("00-" + TRACE + "-" + SPAN + "-01", TraceContext.traceparent());
            assertEquals(SPAN, Span.current().getSpanContext().getSpanId(), scope::toString);
        }
    }
}
