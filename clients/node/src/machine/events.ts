/** What goes into the session machine, what comes out of it, and its constants. */

import type { HolderNote, LockkeeperError } from "../errors.js";
import type { SessionRequest, SessionResponse } from "../proto/lockkeeper/v1/session.js";
import type { GrantEntry, GuardEntry } from "./entries.js";
import type { Response } from "./messages.js";
import type { NewOperation } from "./operation.js";

/** The times of the specification, in milliseconds. */
export const OPEN_TIMEOUT = 6_000;
export const RESUME_TIMEOUT = 2_000;
export const FIRST_PAUSE = 50;
export const BACKOFF_MIN = 50;
export const BACKOFF_MAX = 1_000;
export const LEAVE_TIMEOUT = 500;
export const RETRY_PAUSE = 200;
export const CLOSE_TIMEOUT = 2_000;

/** The largest request: a coordinator with default settings ends the stream after a larger one. */
export const REQUEST_BYTES_MAX = 1024 * 1024;

/** What happens to a session. A stream has the number of the effect that connected it. */
export type Event =
  /** The session is needed. The first event. */
  | { readonly type: "open" }
  /** A frame has arrived. */
  | { readonly type: "frame"; readonly stream: number; readonly frame: SessionResponse }
  /** A stream has ended, or could not be opened: without an error, or with this one. */
  | { readonly type: "stream_ended"; readonly stream: number; readonly error?: LockkeeperError }
  /** Time has passed; see `wakeAt`. */
  | { readonly type: "tick" }
  /** A caller starts an operation. */
  | { readonly type: "start"; readonly operation: NewOperation }
  /** The caller of an operation no longer waits. */
  | { readonly type: "abandon"; readonly opId: number }
  /** The user releases a guard. */
  | { readonly type: "release"; readonly guard: GuardEntry }
  /** The user closes the session. */
  | { readonly type: "close" };

/** What has to be done. */
export type Effect =
  /** Connect to an endpoint, by its place in the list, and send the first frame. */
  | {
      readonly type: "connect";
      readonly stream: number;
      readonly endpoint: number;
      readonly first: SessionRequest;
    }
  /** Cancel a stream. Its later events are ignored. */
  | { readonly type: "cancel_stream"; readonly stream: number }
  /** Send a frame on the open stream. */
  | { readonly type: "send"; readonly frame: SessionRequest }
  /** The session is open for the first time. */
  | { readonly type: "opened" }
  /** An operation has acquired what this guard holds. */
  | { readonly type: "granted"; readonly opId: number; readonly guard: GuardEntry }
  /** An operation has ended with this answer. */
  | { readonly type: "answered"; readonly opId: number; readonly response: Response }
  /** An operation has failed. */
  | { readonly type: "failed"; readonly opId: number; readonly error: LockkeeperError }
  /** An operation waits. */
  | { readonly type: "waiting"; readonly waiting: Waiting }
  /** Another caller asks for a grant; `grant.asked` says until when. */
  | { readonly type: "asked"; readonly grant: GrantEntry; readonly request: YieldRequest }
  /** What a guard holds is lost; `guard.loss` says why. */
  | { readonly type: "lost"; readonly guard: GuardEntry }
  /** The release of a guard has ended. */
  | { readonly type: "released"; readonly guard: GuardEntry; readonly error?: LockkeeperError }
  /** The state of the session has changed. */
  | { readonly type: "state"; readonly change: SessionChange }
  /** An attempt to open or resume the session has failed; another may follow. */
  | { readonly type: "attempt_failed"; readonly error: LockkeeperError }
  /** The session is over: it could not be opened, or has ended. `error` is unset after a close. */
  | { readonly type: "ended"; readonly error?: LockkeeperError };

/** A change of a session's state. Times are milliseconds. */
export type SessionChange =
  /** The session is open, was resumed, or its grants are renewed again. */
  | { readonly state: "connected" }
  /** Renewals fail: grants will be lost if that continues, the first after `validFor`. */
  | { readonly state: "at_risk"; readonly validFor: number }
  /** The stream broke and is being resumed. Locks stay valid as long as they say. */
  | { readonly state: "resuming"; readonly cause: string }
  /** The session has ended, and everything in it was lost. */
  | { readonly state: "ended"; readonly cause: string };

/** A request of another caller to release a lock. */
export interface YieldRequest {
  /** The lock. */
  readonly name: string;
  /** Who asks, for people; may be empty. */
  readonly by: string;
  /** Why, for people. */
  readonly reason: string;
  /** How long the request stands, in milliseconds from when it was reported. */
  readonly within: number;
  /** Whether the lock is taken away then. */
  readonly preempts: boolean;
}

/** A wait for a lock, permits or a latch. Times are milliseconds. */
export interface Waiting {
  /** The lock, semaphore or latch; of several locks one that is not available. */
  readonly name: string;
  /** The position in the queue, starting at 1; 0 for a latch. */
  readonly position: number;
  /** The remaining lease of a lock's holder, or the time until the next lease of permits ends. */
  readonly holderRemainingLease?: number;
  /** The note of a lock's holder, of any one if there are several. */
  readonly holderNote?: HolderNote;
  /** The number of free permits of a semaphore. */
  readonly available?: number;
  /** The remaining count of a latch. */
  readonly count?: number;
}
