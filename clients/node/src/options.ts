/** The options of the client, and how they are checked. Times are milliseconds. */

import { MisconfiguredError } from "./errors.js";
import type { NoteOptions } from "./note.js";
import { LockMode as WireMode } from "./proto/lockkeeper/v1/types.js";

/**
 * How a lock is held. `exclusive` and `fair` are the same lock; `fair` is granted in order of
 * arrival across all coordinators. `read` and `write` are the two sides of a read/write lock.
 */
export type LockMode = "exclusive" | "fair" | "read" | "write";

/** Where log lines go. `console` and the loggers of common libraries fit. */
export interface Logger {
  debug(message: string): void;
  info(message: string): void;
  warn(message: string): void;
}

/** Files for `https://` endpoints, in PEM form. They are read for every connection. */
export interface TlsOptions {
  /** The authorities to trust; the system's if unset. */
  caFile?: string | undefined;
  /** The client's certificate, if the coordinator requires one. */
  certFile?: string | undefined;
  /** The private key of that certificate. */
  keyFile?: string | undefined;
  /** The name in the coordinator's certificate; the host of the address if unset. */
  serverName?: string | undefined;
}

/** The options of a client. */
export interface ClientOptions {
  /**
   * The coordinators of one store, tried in this order: `http://HOST:PORT`, `https://HOST:PORT`,
   * `unix:///PATH` or `HOST:PORT`.
   */
  endpoints: string | readonly string[];
  /**
   * The lease of locks that set none. It is renewed while the session lives; locks of a process
   * that crashed are free after it. The coordinator's (30 s) by default.
   */
  lease?: number | undefined;
  /** A name for people, shown with the locks that this client holds. */
  clientName?: string | undefined;
  /** Releases everything as soon as the connection breaks, instead of when the lease ends. */
  releaseOnDisconnect?: boolean | undefined;
  /** A bearer token, or a function that returns one and is called for every call. */
  token?: string | (() => string | Promise<string>) | undefined;
  /** A file with a bearer token, read for every call. */
  tokenFile?: string | undefined;
  /** Certificates for `https://` endpoints. */
  tls?: TlsOptions | undefined;
  /** Where log lines go; to `NODE_DEBUG=lockkeeper` by default. */
  logger?: Logger | undefined;
}

/** The options of a try. */
export interface TryOptions {
  /**
   * A lease that is not renewed in the background. By default it is that of the client, renewed
   * until the release.
   */
  lease?: number | undefined;
  /**
   * The owner within this client. The same owner may acquire a lock again. By default each acquire
   * has an owner of its own, so that two tasks exclude each other. Deadlocks are named among owners
   * that are one task each: give all acquires of a task the same owner.
   */
  owner?: string | undefined;
  /** The minimum number of the store's replicas that must acknowledge the grant. */
  minReplicaAcks?: number | undefined;
  /** How long to retry while the store does not answer: by default the lease, for a try 6 s. */
  patience?: number | undefined;
  /** Cancels the request: it is rejected with the signal's reason, and nothing stays held. */
  signal?: AbortSignal | undefined;
}

/** The options of an acquire. */
export interface AcquireOptions extends TryOptions {
  /** The maximum time to wait; 0 tries once. Without limit by default. */
  wait?: number | undefined;
}

/** The options of a try of one lock, or of several with the same mode. */
export interface TryLockOptions extends TryOptions, NoteOptions {
  /** The mode; `exclusive` by default. */
  mode?: LockMode | undefined;
  /**
   * How long the lock stays held at least, in milliseconds from the grant, also after a release or
   * a crash; so a job that ends early does not run again at once elsewhere. Only for one lock, in
   * the modes `exclusive` and `fair`; a quorum of stores refuses it.
   */
  holdAtLeast?: number | undefined;
  /**
   * For how long nobody can acquire the lock after it was lost without a release, because its
   * holder crashed or nobody renewed it, in milliseconds from the end of the lease; so what the
   * holder had begun can come to an end. A release frees the lock at once. Only for one lock, in
   * the modes `exclusive` and `fair`, and not with `releaseOnDisconnect`; a quorum of stores
   * refuses it.
   */
  lockDelay?: number | undefined;
}

/** The options of an acquire of one lock, or of several with the same mode. */
export interface LockOptions extends AcquireOptions, TryLockOptions {
  /**
   * Ends the wait with a {@link NotGrantedError} for the reason `DEADLOCK` if it is part of a
   * deadlock. Of the waits of a deadlock that set this, the youngest ends. A deadlock is known
   * among requests that name their `owner`, and whose waits are older than a second.
   */
  endOnDeadlock?: boolean | undefined;
  /**
   * Comes before the other waiters: it becomes the first in line, and the holder is asked to yield,
   * unless it was preferred itself. Of several that wait, the last to arrive is the first. Only for
   * one lock, in the mode `fair`.
   */
  preferred?: boolean | undefined;
}

/** How long a wait takes that acquires nothing. */
export interface WaitOptions {
  /** The maximum time to wait; 0 checks once. Without limit by default. */
  wait?: number | undefined;
  /** Cancels the wait: it is rejected with the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** The options of an offer. */
export interface OfferOptions {
  /** How long the ticket can be claimed, in milliseconds, at most 10 min; 30 s by default. */
  within?: number | undefined;
  /** Cancels the request: it is rejected with the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** The options of `request`. */
export interface RequestOptions extends LockOptions {
  /** Calls the function with `null` at once if the lock is not available. */
  ifAvailable?: boolean | undefined;
}

const MODES: Record<LockMode, WireMode> = {
  exclusive: WireMode.EXCLUSIVE,
  fair: WireMode.FAIR,
  read: WireMode.READ,
  write: WireMode.WRITE,
};

/** The mode on the wire. */
export function toWireMode(mode: LockMode = "exclusive"): WireMode {
  if (!Object.hasOwn(MODES, mode)) {
    throw new MisconfiguredError("mode", `must be one of ${Object.keys(MODES).join(", ")}`);
  }
  return MODES[mode];
}

/** The mode for users; undefined if the lock is not held. */
export function fromWireMode(mode: WireMode): LockMode | undefined {
  const modes = Object.keys(MODES) as LockMode[];
  return modes.find((it) => MODES[it] === mode);
}

/** The longest duration of the protocol, in milliseconds. */
export const LONGEST = 315_576_000_000 * 1000;

/** The longest timer of Node.js. */
export const TIMER_MAX = 2 ** 31 - 1;

/** Checks a duration that must be more than 0. */
export function checkLease(lease: number | undefined, field = "lease"): void {
  if (lease !== undefined && !(lease > 0 && lease <= LONGEST)) {
    throw new MisconfiguredError(field, "must be a number of milliseconds above 0");
  }
}

/** Checks a time to wait. */
export function checkWait(wait: number | undefined, field = "wait"): void {
  if (wait !== undefined && !(wait >= 0)) {
    throw new MisconfiguredError(field, "must be a number of milliseconds, 0 or more");
  }
}

/** Checks a whole number of 32 bits. */
export function checkCount(count: number | undefined, field: string): void {
  if (count !== undefined && !(Number.isInteger(count) && count >= 0 && count < 2 ** 32)) {
    throw new MisconfiguredError(field, "must be a whole number, 0 or more");
  }
}

/** Checks a name. The coordinator checks its form. */
export function checkName(name: string, field = "name"): void {
  if (typeof name !== "string" || name === "") {
    throw new MisconfiguredError(field, "must be a string that is not empty");
  }
}
