/** The methods of the package `redlock` 5, on a client of Lockkeeper instead of Redis. */

import { EventEmitter } from "node:events";

import type { Lockkeeper } from "./client.js";
import { LockkeeperError, MisconfiguredError, NotGrantedError } from "./errors.js";
import type { LockSet } from "./held.js";

/** The settings of redlock. Times are milliseconds. */
export interface Settings {
  /** Not used: validity is counted by the client. */
  readonly driftFactor: number;
  /**
   * With `retryDelay`, how long to wait: a waiter is woken, and does not retry. -1: without limit.
   */
  readonly retryCount: number;
  /** See `retryCount`. */
  readonly retryDelay: number;
  /** Not used: waiters do not collide. */
  readonly retryJitter: number;
  /** `using` extends its locks when they are valid for no longer than this. */
  readonly automaticExtensionThreshold: number;
}

/** The signal that `using` passes on. */
export type RedlockAbortSignal = AbortSignal & {
  /** Why the locks were lost; undefined while they are held. */
  readonly error?: Error;
};

/** What an operation returns; there for programs that keep it. */
export interface ExecutionResult {
  /** Empty: Lockkeeper does not vote. */
  readonly attempts: readonly Promise<unknown>[];
}

/** What `error` reports when resources were locked for as long as an acquire waited. */
export class ResourceLockedError extends Error {
  override readonly name = "ResourceLockedError";
}

/**
 * The resources are locked, the lock is not held any more, or the coordinators did not answer or
 * refused the request. `cause` is the error of the client, which says which.
 */
export class ExecutionError extends Error {
  override readonly name = "ExecutionError";

  constructor(
    message: string,
    readonly attempts: readonly Promise<unknown>[] = [],
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

const DEFAULTS: Settings = {
  driftFactor: 0.01,
  retryCount: 10,
  retryDelay: 200,
  retryJitter: 100,
  automaticExtensionThreshold: 500,
};

/** Locks as redlock has them. */
export class Lock {
  constructor(
    readonly redlock: Redlock,
    readonly resources: string[],
    /** The owner. */
    readonly value: string,
    readonly attempts: readonly Promise<unknown>[],
    /** When the locks end, in milliseconds since 1970; 0 when they were released or extended. */
    public expiration: number,
    /** What is held. Not in redlock. */
    readonly held: LockSet,
  ) {}

  /** The fencing tokens by resource. Not in redlock. */
  get fencingTokens(): ReadonlyMap<string, bigint> {
    return this.held.fencingTokens;
  }

  /** Releases the locks. */
  release(): Promise<ExecutionResult> {
    return this.redlock.release(this);
  }

  /** Extends the locks to `duration` from now. Returns the lock to use from here on. */
  extend(duration: number): Promise<Lock> {
    return this.redlock.extend(this, duration);
  }
}

/**
 * Redlock on a client of Lockkeeper. A loss is never ignored: it aborts the signal of `using`, and
 * fails `using`, `extend` and `release`. Emits `error`, if there is a listener, for acquires that
 * fail, and for extensions that failed and are retried.
 */
export class Redlock extends EventEmitter<{ error: [error: unknown] }> {
  readonly settings: Settings;

  constructor(
    readonly client: Lockkeeper,
    settings: Partial<Settings> = {},
  ) {
    super();
    this.settings = { ...DEFAULTS, ...settings };
  }

  /** Closes the client. */
  async quit(): Promise<void> {
    await this.client.close();
  }

  /** Acquires all resources for `duration`. Fails with {@link ExecutionError} if it cannot. */
  async acquire(
    resources: string[],
    duration: number,
    settings: Partial<Settings> = {},
  ): Promise<Lock> {
    if (!Number.isInteger(duration)) {
      throw new MisconfiguredError("duration", "must be a whole number of milliseconds");
    }
    const { retryCount, retryDelay } = { ...this.settings, ...settings };
    const wait = retryCount === -1 ? undefined : retryCount * retryDelay;
    try {
      const held = await this.client.lockAll(resources, { lease: duration, wait });
      return this.#lock(resources, held);
    } catch (error) {
      const isLocked = error instanceof NotGrantedError;
      const what = isLocked ? new ResourceLockedError(`${resources.join(", ")}: locked`) : error;
      this.#report(what);
      throw isLocked
        ? new ExecutionError("the resources are locked", [], { cause: error })
        : wrapped(error);
    }
  }

  /** Releases locks. Fails with {@link ExecutionError} if they were lost, or it cannot. */
  async release(lock: Lock): Promise<ExecutionResult> {
    lock.expiration = 0;
    await lock.held.release().catch(fail);
    return { attempts: [] };
  }

  /** Extends locks to `duration` from now. Fails with {@link ExecutionError} if it cannot. */
  async extend(existing: Lock, duration: number): Promise<Lock> {
    if (existing.expiration < Date.now()) {
      throw new ExecutionError("cannot extend a lock that has expired");
    }
    await existing.held.renew(duration).catch(fail);
    existing.expiration = 0;
    return this.#lock(existing.resources, existing.held);
  }

  /** Without a listener, Node.js would throw the error. */
  #report(error: unknown): void {
    if (this.listenerCount("error") > 0) {
      this.emit("error", error);
    }
  }

  #lock(resources: string[], held: LockSet): Lock {
    return new Lock(this, resources, held.owner, [], Date.now() + held.validFor, held);
  }

  /** Runs a function under locks that are extended until it ends, and returns its result. */
  using<T>(
    resources: string[],
    duration: number,
    routine: (signal: RedlockAbortSignal) => Promise<T>,
  ): Promise<T>;
  using<T>(
    resources: string[],
    duration: number,
    settings: Partial<Settings>,
    routine: (signal: RedlockAbortSignal) => Promise<T>,
  ): Promise<T>;
  async using<T>(
    resources: string[],
    duration: number,
    settingsOrRoutine: Partial<Settings> | ((signal: RedlockAbortSignal) => Promise<T>),
    routineOrNothing?: (signal: RedlockAbortSignal) => Promise<T>,
  ): Promise<T> {
    const isShort = typeof settingsOrRoutine === "function";
    const settings = { ...this.settings, ...(isShort ? {} : settingsOrRoutine) };
    const routine = (isShort ? settingsOrRoutine : routineOrNothing) as NonNullable<
      typeof routineOrNothing
    >;
    const { automaticExtensionThreshold: threshold } = settings;
    if (threshold > duration - 100) {
      const problem = `must be 100 above automaticExtensionThreshold (${String(threshold)})`;
      throw new MisconfiguredError("duration", problem);
    }
    const { held } = await this.acquire(resources, duration, settings);
    const stop = this.#keep(held, duration, threshold);
    let result: T;
    try {
      result = await routine(withError(held));
    } catch (error) {
      stop();
      // The error of the function says more than that of the release.
      await held.release().catch(() => undefined);
      throw error;
    }
    stop();
    await held.release().catch(fail);
    return result;
  }

  /** Extends what is held whenever it comes close to its end. Returns how to stop that. */
  #keep(held: LockSet, duration: number, threshold: number): () => void {
    let isStopped = false;
    let timer: NodeJS.Timeout | undefined;
    const schedule = (pause: number): void => {
      if (!isStopped && held.loss === undefined) {
        timer = setTimeout(() => void extend(), Math.max(pause, 0));
      }
    };
    const extend = async (): Promise<void> => {
      try {
        await held.renew(duration);
        schedule(held.validFor - threshold);
      } catch (error) {
        // The client aborts the signal when the locks are lost. Until then it is tried again.
        if (!isStopped && held.loss === undefined) {
          this.#report(error);
        }
        schedule(threshold / 5);
      }
    };
    schedule(held.validFor - threshold);
    return () => {
      isStopped = true;
      clearTimeout(timer);
    };
  }
}

export default Redlock;

function withError(held: LockSet): RedlockAbortSignal {
  return Object.defineProperty(held.signal, "error", { get: () => held.loss });
}

/** Fails as redlock does. What is misconfigured is a mistake of the program, also there. */
function fail(error: unknown): never {
  throw wrapped(error);
}

function wrapped(error: unknown): unknown {
  return error instanceof LockkeeperError && !(error instanceof MisconfiguredError)
    ? new ExecutionError(error.message, [], { cause: error })
    : error;
}
