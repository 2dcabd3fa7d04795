/** An operation without an answer: its request, and whether it may have been executed. */

import { MisconfiguredError } from "../errors.js";
import type { RefusedError } from "../errors.js";
import { SessionRequest } from "../proto/lockkeeper/v1/session.js";
import type { Grant, LockMode } from "../proto/lockkeeper/v1/types.js";
import type { Scheduled } from "./deadlines.js";
import type { GrantEntry, GuardEntry } from "./entries.js";
import { effectiveMode, tokenOf } from "./holding.js";
import { frame, toDuration } from "./messages.js";
import type { Request } from "./messages.js";

/** What the answer is for. */
export type Purpose =
  /** A caller; the grant if it renews one. */
  | { readonly kind: "caller"; readonly renews?: GrantEntry }
  /** The renewal of a grant by the machine. */
  | { readonly kind: "renewal"; readonly renews: GrantEntry }
  /** The release of what a guard held, and whether its user has been answered already. */
  | { readonly kind: "release"; readonly guard: GuardEntry; readonly isReported: boolean }
  /** The release of what was granted after its caller was gone. */
  | { readonly kind: "late_release" }
  /**
   * The release of a part of what was requested. It is not repeated: the resume that follows a
   * broken stream does not name that part, which releases it.
   */
  | { readonly kind: "cleanup" };

/** An operation that a caller starts. */
export interface NewOperation {
  readonly opId: number;
  readonly request: Request;
  /** The end of a wait with a limit. */
  readonly waitUntil?: number | undefined;
  /** How long to repeat it while the store does not answer. Unset: for the session's lease. */
  readonly patience?: number | undefined;
  /** The W3C trace context of the caller; may be empty. */
  readonly traceparent?: string | undefined;
  /** The grant that it renews. */
  readonly renews?: GrantEntry | undefined;
}

/**
 * An operation without an answer. It is due when it is to be sent again, or, while there is no
 * stream, when its wait ends.
 */
export interface Operation extends Scheduled {
  readonly opId: number;
  request: Request;
  readonly purpose: Purpose;
  readonly waitUntil: number | undefined;
  readonly patience: number | undefined;
  readonly traceparent: string;
  /** Of a renewal, the fencing token of the grant when it was started. */
  readonly token: bigint;
  /** When it was sent on this stream. */
  sentAt: number | undefined;
  /** Whether it may have been executed: its stream broke, or the coordinator does not know. */
  isUncertain: boolean;
  /** Whether its caller no longer waits. */
  isAbandoned: boolean;
  /** When the coordinator first answered that it cannot be executed for now. */
  failingSince: number | undefined;
}

const WAITS = new Set<Request["$case"]>([
  "acquire",
  "acquireAll",
  "acquirePermits",
  "awaitLatch",
  "awaitFree",
]);
const ACQUIRES_LOCKS = new Set<Request["$case"]>([
  "acquire",
  "tryAcquire",
  "acquireAll",
  "tryAcquireAll",
]);

const QUESTIONS = new Set<Request["$case"]>([
  "describe",
  "describeSemaphore",
  "describeLatch",
  "checkToken",
  "leader",
  "explain",
]);

/** A lock that a request acquires. */
interface Wanted {
  name: string;
  mode: LockMode;
}

/** An operation that was not sent yet, with a request id if it changes state. */
export function operation(start: NewOperation, purpose: Purpose, requestId: string): Operation {
  return {
    opId: start.opId,
    request: withRequestId(start.request, requestId),
    purpose,
    waitUntil: start.waitUntil,
    patience: start.patience,
    traceparent: start.traceparent ?? "",
    token: "renews" in purpose ? tokenOf(purpose.renews.holding) : 0n,
    sentAt: undefined,
    isUncertain: false,
    isAbandoned: false,
    failingSince: undefined,
    due: 0,
    place: -1,
  };
}

/** The request with another id, if it has one at all. */
export function withRequestId(request: Request, requestId: string): Request {
  const hasId = "requestId" in request.value;
  return hasId ? ({ ...request, value: { ...request.value, requestId } } as Request) : request;
}

/** The frame to send now. */
export function frameOf(operation: Operation, now: number): SessionRequest {
  const { opId, request, waitUntil, traceparent } = operation;
  if (waitUntil === undefined) {
    return frame(opId, request, traceparent);
  }
  const waitTimeout = toDuration(Math.max(waitUntil - now, 0));
  const limited = { ...request, value: { ...request.value, waitTimeout } } as Request;
  return frame(opId, limited, traceparent);
}

/** The error of an operation that no coordinator with this limit takes; undefined if it fits. */
export function tooLarge(
  operation: Operation,
  bytesMax: number,
  now: number,
): MisconfiguredError | undefined {
  const bytes = SessionRequest.encode(frameOf(operation, now)).finish().length;
  const { $case } = operation.request;
  const problem = `${$case} has ${String(bytes)} bytes, the limit is ${String(bytesMax)}`;
  return bytes > bytesMax ? new MisconfiguredError("request", problem) : undefined;
}

/** Whether a request waits, and so can be cancelled. */
export function waits({ $case }: Request): boolean {
  return WAITS.has($case);
}

/** Whether a request is a question, which changes nothing. */
export function asks({ $case }: Request): boolean {
  return QUESTIONS.has($case);
}

/** Whether a request acquires locks or permits. */
export function acquires(request: Request): boolean {
  return ACQUIRES_LOCKS.has(request.$case) || acquiresPermits(request);
}

/** Whether a request acquires permits. */
export function acquiresPermits({ $case }: Request): boolean {
  return $case === "acquirePermits" || $case === "tryAcquirePermits";
}

/** What a request acquires or awaits, for people. */
export function nameOf({ $case, value }: Request): string {
  if ($case === "acquireAll" || $case === "tryAcquireAll") {
    return value.locks.map((it) => it.name).join(", ");
  }
  return "name" in value ? value.name : "";
}

/**
 * The locks that a request acquires, as grants without what only the coordinator knows: a resume
 * names them if they may be held. Permits have ids that only the answer contains.
 */
export function possibleGrants({ $case, value }: Request): Grant[] {
  const grants = (wanted: Wanted[], owner: string, isWatched: boolean): Grant[] =>
    wanted.map(({ name, mode }) => ({
      name,
      mode: effectiveMode(mode),
      sessionId: "",
      owner,
      holdCount: 1,
      fencingToken: 0n,
      lease: undefined,
      validFor: undefined,
      watched: isWatched,
      replicaAcks: 0,
    }));
  switch ($case) {
    case "acquire":
    case "tryAcquire":
      return grants([value], value.owner, value.lease === undefined);
    case "acquireAll":
    case "tryAcquireAll":
      return grants(value.locks, value.owner, value.lease === undefined);
    default:
      return [];
  }
}

/** Whether a failure may be temporary, so that the operation is sent again. */
export function mayRetry(
  { purpose, patience, failingSince }: Operation,
  failure: RefusedError,
  now: number,
  lease: number,
): boolean {
  if (purpose.kind === "renewal" || purpose.kind === "cleanup") {
    return false;
  }
  const since = failingSince ?? now;
  switch (failure.reason) {
    case "DRAINING":
      // The store does not matter, and the next coordinator is at hand.
      return now < since + lease;
    case "STORE_UNAVAILABLE":
    case "OUTCOME_UNKNOWN":
      return now < since + (patience ?? lease);
    default:
      return false;
  }
}
