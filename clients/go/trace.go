package lockkeeper

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"
)

// traceparent is the active OpenTelemetry span as a W3C header; empty if there is none.
func traceparent(ctx context.Context) string {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return ""
	}
	return fmt.Sprintf("00-%s-%s-%s", span.TraceID(), span.SpanID(), span.TraceFlags())
}

// traced passes the active span on with a call of gRPC.
func traced(ctx context.Context) context.Context {
	parent := traceparent(ctx)
	if parent == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "traceparent", parent)
}
