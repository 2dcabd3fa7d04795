/** The frames of a session, and what is in their fields. */

import { SessionEndedError } from "../errors.js";
import type { LostReason, NotGrantedReason } from "../errors.js";
import type { Duration } from "../proto/google/protobuf/duration.js";
import type { SessionRequest, SessionResponse } from "../proto/lockkeeper/v1/session.js";
import {
  LostReason as WireLostReason,
  NotGrantedReason as WireNotGrantedReason,
} from "../proto/lockkeeper/v1/types.js";

/** What a frame to the coordinator carries. */
export type Request = NonNullable<SessionRequest["request"]>;

/** What a frame from the coordinator carries. */
export type Response = NonNullable<SessionResponse["response"]>;

/** A frame to the coordinator. */
export function frame(opId: number, request: Request, traceparent = ""): SessionRequest {
  return { opId: BigInt(opId), request, traceparent };
}

/** A duration in milliseconds; 0 if it is unset. */
export function toMs(duration: Duration | undefined): number {
  return duration === undefined ? 0 : Number(duration.seconds) * 1000 + duration.nanos / 1e6;
}

/** Milliseconds as a duration. */
export function toDuration(ms: number): Duration {
  const seconds = Math.floor(ms / 1000);
  return { seconds: BigInt(seconds), nanos: Math.floor((ms - seconds * 1000) * 1e6) };
}

/** The name of a reason; one of a newer coordinator is not known. */
export function lostReason(reason: WireLostReason): LostReason {
  return enumName(WireLostReason, reason) as LostReason;
}

/** The name of a reason; one of a newer coordinator is not known. */
export function notGrantedReason(reason: WireNotGrantedReason): NotGrantedReason {
  return enumName(WireNotGrantedReason, reason) as NotGrantedReason;
}

/** The name of a value; `UNSPECIFIED` for one of a newer coordinator. */
export function enumName(names: Record<number, string>, value: number): string {
  return value > 0 ? (names[value] ?? "UNSPECIFIED") : "UNSPECIFIED";
}

/** The error of operations of a session that was closed. */
export function closed(): SessionEndedError {
  return new SessionEndedError("it was closed");
}
