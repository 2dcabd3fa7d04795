/** What a session holds: grants, and the guards that share them. */

import type { LockLostError } from "../errors.js";
import type { Scheduled } from "./deadlines.js";
import type { YieldRequest } from "./events.js";
import type { Holding } from "./holding.js";

/** One grant. It is due when it is to be renewed or has expired. */
export interface GrantEntry extends Scheduled {
  /** Its last message. */
  holding: Holding;
  /** What it is found by in later messages. */
  readonly keys: readonly string[];
  /** Until when it is certainly held unless it is renewed. */
  validUntil: number;
  /** Whether `validUntil` comes from an answer that was young enough to trust. */
  isConfirmed: boolean;
  /** Undefined for a lease that the request set. */
  renewAt: number | undefined;
  /** Whether a renewal is unanswered. */
  isRenewing: boolean;
  /** The last request of another caller to release it, and until when that stands. */
  asked: { readonly request: YieldRequest; readonly until: number } | undefined;
  /** Several if one owner acquired a lock several times; none while it is being released. */
  readonly guards: Set<GuardEntry>;
}

/** What one request acquired. */
export interface GuardEntry {
  /** The operation that acquired it. */
  readonly opId: number;
  /** The messages as they were acquired. */
  readonly holdings: readonly Holding[];
  readonly grants: readonly GrantEntry[];
  /** The grants that have to be renewed before the guard is delivered. */
  readonly unconfirmed: Set<GrantEntry>;
  /** Why it was lost, if it was. */
  loss: LockLostError | undefined;
  isReleased: boolean;
}

/** Until when all that a guard holds is certainly held. */
export function validUntil(guard: GuardEntry): number {
  return guard.loss === undefined
    ? Math.min(...guard.grants.map((it) => it.validUntil))
    : -Infinity;
}
