/** The trace context of callers, if the package `@opentelemetry/api` is installed. */

import { createRequire } from "node:module";

import type * as Api from "@opentelemetry/api";

let api: typeof Api | undefined | null = null;

function load(): typeof Api | undefined {
  try {
    return createRequire(import.meta.url)("@opentelemetry/api") as typeof Api;
  } catch {
    return undefined;
  }
}

/** The active context in the format of the W3C `traceparent` header; empty if there is none. */
export function traceparent(): string {
  api = api === null ? load() : api;
  const span = api?.trace.getSpanContext(api.context.active());
  if (api === undefined || span === undefined || !api.isSpanContextValid(span)) {
    return "";
  }
  const flags = span.traceFlags.toString(16).padStart(2, "0");
  return `00-${span.traceId}-${span.spanId}-${flags}`;
}
