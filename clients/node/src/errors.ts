/** The errors of the client. Each has a `kind`; see the table in the README. */

/** What an error means. */
export type ErrorKind =
  | "misconfigured"
  | "unreachable"
  | "not_granted"
  | "lost"
  | "refused"
  | "session_ended";

/**
 * Why a lock or permits were lost. `EXPIRED`: the lease ended. `TAKEN_OVER`: another owner holds
 * the lock. `STORE_UNREACHABLE`: renewals failed until the end. `FORCE_RELEASED`: an operator
 * released it. `CLOCK_STEPPED`: the store's clock ended the lease before its time. `PREEMPTED`:
 * it was preempted. `HANDED_OVER`: another session claimed a ticket for it. `UNSPECIFIED`: the
 * session has ended.
 */
export type LostReason =
  | "UNSPECIFIED"
  | "EXPIRED"
  | "TAKEN_OVER"
  | "STORE_UNREACHABLE"
  | "FORCE_RELEASED"
  | "CLOCK_STEPPED"
  | "PREEMPTED"
  | "HANDED_OVER";

/** What the holder of a lock says to others. */
export interface HolderNote {
  /** Why it holds the lock; may be empty. */
  readonly reason: string;
  /** Its labels by key. */
  readonly labels: Readonly<Record<string, string>>;
}

/** Why a wait ended without a grant. `DEADLOCK`: see `endOnDeadlock`. */
export type NotGrantedReason = "UNSPECIFIED" | "WAIT_TIMEOUT" | "CANCELLED" | "DEADLOCK";

/** Any error of the client. */
export abstract class LockkeeperError extends Error {
  /** What the error means. */
  abstract readonly kind: ErrorKind;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** An address, a file or a value cannot be used. Nothing was sent. */
export class MisconfiguredError extends LockkeeperError {
  readonly kind = "misconfigured";

  constructor(
    /** The option or the argument. */
    readonly field: string,
    problem: string,
    options?: ErrorOptions,
  ) {
    super(`${field}: ${problem}`, options);
  }
}

/**
 * No coordinator answered within 6 s each, or within `wait`. Nothing is held: what was granted
 * nevertheless is released. Without a session it ends with its lease instead.
 */
export class UnreachableError extends LockkeeperError {
  readonly kind = "unreachable";

  constructor(
    /** The last address that was tried. */
    readonly address: string,
    problem: string,
    options?: ErrorOptions,
  ) {
    super(`no coordinator at ${address}: ${problem}`, options);
  }
}

/** The wait ended without a grant: another owner holds the lock, or too few permits are free. */
export class NotGrantedError extends LockkeeperError {
  readonly kind = "not_granted";

  constructor(
    /** The name of the lock, semaphore or latch. Several are separated by commas. */
    readonly resource: string,
    /** Why the wait ended. */
    readonly reason: NotGrantedReason,
    /** The remaining lease of a lock's holder in milliseconds, if it is known and ends. */
    readonly holderRemainingLease?: number,
    /** The number of free permits of a semaphore. */
    readonly available?: number,
    /** The note of a lock's holder, of any one if there are several; undefined if it gave none. */
    readonly holderNote?: HolderNote,
  ) {
    const why = reason === "DEADLOCK" ? ", the wait was a deadlock" : " within the time to wait";
    super(`${resource}: not granted${why}`);
  }
}

const WHY_LOST: Record<LostReason, string> = {
  UNSPECIFIED: "the session has ended",
  EXPIRED: "the lease ended",
  TAKEN_OVER: "another owner holds it",
  STORE_UNREACHABLE: "the store was unreachable until the lease ended",
  FORCE_RELEASED: "an operator force-released it",
  CLOCK_STEPPED: "the store's clock stepped and ended the lease",
  PREEMPTED: "it was preempted",
  HANDED_OVER: "it was handed over",
};

/** The lock or the permits were lost. Stop the work: another owner may hold the lock. */
export class LockLostError extends LockkeeperError {
  readonly kind = "lost";

  constructor(
    /** The name of the lock or the semaphore. */
    readonly resource: string,
    /** Why it was lost. */
    readonly reason: LostReason,
    /** The fencing token of the lost grant; 0n for permits. */
    readonly fencingToken: bigint,
    /** The operator's reason, or why the session ended. May be empty. */
    readonly detail: string,
    /**
     * How long no other owner can acquire the lock, in milliseconds from when the loss was
     * reported: the grace period of a forced release. Stop within it and release the lock, which
     * ends the period. 0 if another owner may hold the lock already.
     */
    readonly validFor = 0,
  ) {
    super(`${resource}: lost, ${WHY_LOST[reason]}${detail === "" ? "" : `: ${detail}`}`);
  }
}

/** What a coordinator says about a refusal. */
export interface Refusal {
  /** The gRPC status code. */
  code: number;
  /** The message, for people. */
  message: string;
  /** The reason of `google.rpc.ErrorInfo`, such as `INVALID_NAME`. */
  reason?: string;
  /** The metadata of `google.rpc.ErrorInfo`, such as `state` of `NOT_OWNER`. */
  metadata?: Readonly<Record<string, string>>;
  /** The pause before a retry, in milliseconds, of `google.rpc.RetryInfo`. */
  retryDelay?: number;
}

/** The coordinator refused the call, or the call was lost on its way (no `reason` then). */
export class RefusedError extends LockkeeperError {
  readonly kind = "refused";
  /** The gRPC status code. */
  readonly code: number;
  /** The stable reason, such as `INVALID_NAME`; undefined if the call was lost on its way. */
  readonly reason: string | undefined;
  /** Details by key, such as `state` of `NOT_OWNER`. */
  readonly metadata: Readonly<Record<string, string>>;
  /** The pause before a retry, in milliseconds, if the coordinator names one. */
  readonly retryDelay: number | undefined;

  constructor(refusal: Refusal, options?: ErrorOptions) {
    const { code, message, reason, metadata, retryDelay } = refusal;
    super(`${reason ?? `gRPC status ${String(code)}`}: ${message}`, options);
    this.code = code;
    this.reason = reason;
    this.metadata = metadata ?? {};
    this.retryDelay = retryDelay;
  }
}

/** The session has ended. Everything in it was reported lost. The next acquire opens another. */
export class SessionEndedError extends LockkeeperError {
  readonly kind = "session_ended";

  constructor(
    /** Why it ended, for people. */
    readonly detail: string,
    options?: ErrorOptions,
  ) {
    super(`the session has ended: ${detail}`, options);
  }
}
