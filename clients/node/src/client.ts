/** The client. */

import { EventEmitter } from "node:events";
import { debuglog } from "node:util";

import { Calls } from "./calls.js";
import { Connector } from "./connector.js";
import { lockDescription, tokenCheck } from "./describe.js";
import type { LockDescription, TokenCheck } from "./describe.js";
import { Election } from "./election.js";
import { Lock, LockSet } from "./held.js";
import { Latch } from "./latch.js";
import { OPEN_TIMEOUT } from "./machine/events.js";
import type { SessionChange, Waiting, YieldRequest } from "./machine/events.js";
import { claimRequest, lockRequest, locksRequest } from "./requests.js";
import type { LockName } from "./requests.js";
import { checkLease, checkName, checkWait } from "./options.js";
import type {
  ClientOptions,
  LockOptions,
  Logger,
  RequestOptions,
  TryLockOptions,
  WaitOptions,
} from "./options.js";
import { Semaphore, tried } from "./semaphore.js";
import type { Session } from "./session.js";
import { answerOf, Sessions } from "./sessions.js";
import { watch } from "./watch.js";
import type { LockEvent, WatchOptions } from "./watch.js";

/** How long a question waits for a stream that breaks before its answer. */
const ANSWER = { wait: OPEN_TIMEOUT };

/** The events of a client. */
export interface ClientEvents {
  /** The state of the session has changed. Safety does not depend on it: locks report losses. */
  session: [change: SessionChange];
  /** A request waits: reported at once, and on each change. */
  waiting: [waiting: Waiting];
  /** Another caller asks for a lock that is held; see {@link Holding.onYieldRequested}. */
  yieldRequested: [request: YieldRequest];
}

/** The function that `request` calls while the lock is held. */
export type Work<T> = (lock: Lock) => T | Promise<T>;

/**
 * A client of the coordinators of one store. All its locks share one session, which is opened when
 * it is first needed. Close the client when it is no longer needed: that releases everything.
 *
 * ```ts
 * await using client = new Lockkeeper({ endpoints: "http://localhost:7625" });
 * await using lock = await client.lock("reports");
 * await write(lock.fencingToken, { signal: lock.signal });
 * ```
 */
export class Lockkeeper extends EventEmitter<ClientEvents> implements AsyncDisposable {
  /** Calls without a session. */
  readonly calls: Calls;
  readonly #connector: Connector;
  readonly #sessions: Sessions;
  #state: SessionChange["state"] | undefined;

  /** Connects to nothing yet. Fails with {@link MisconfiguredError}. */
  constructor(options: ClientOptions) {
    super();
    checkLease(options.lease);
    const connector = new Connector(options);
    const { lease, clientName, releaseOnDisconnect } = options;
    const settings = { lease, clientName, releaseOnDisconnect };
    const logger = guarded(options.logger ?? defaultLogger());
    this.calls = new Calls(connector, clientName ?? "");
    this.#connector = connector;
    // An exception of a listener must not stop the session.
    this.#sessions = new Sessions(connector, settings, logger, {
      onChange: (change) => {
        this.#state = change.state;
        queueMicrotask(() => this.emit("session", change));
      },
      onWaiting: (waiting) => {
        queueMicrotask(() => this.emit("waiting", waiting));
      },
      onYieldRequested: (request) => {
        queueMicrotask(() => this.emit("yieldRequested", request));
      },
    });
  }

  /** The state of the session; undefined before the first. */
  get state(): SessionChange["state"] | undefined {
    return this.#state;
  }

  /**
   * Opens the session now, instead of with the first lock.
   *
   * Fails with {@link UnreachableError} if no coordinator answers within 6 s each, and with
   * {@link RefusedError}.
   */
  async connect(): Promise<void> {
    await this.#sessions.current().opened();
  }

  /**
   * Waits for a lock.
   *
   * Fails with {@link NotGrantedError} after `wait` milliseconds, with the reason of `signal`, with
   * {@link UnreachableError}, {@link RefusedError} and {@link SessionEndedError}.
   */
  async lock(name: string, options: LockOptions = {}): Promise<Lock> {
    const request = lockRequest("wait", name, options, this.#sessions.nextOwner());
    return new Lock(await this.#sessions.acquire(request, options));
  }

  /**
   * Acquires a lock if it is free now, else returns null. Fails as {@link lock} does; once the
   * session is open, after 6 s or `patience` if no coordinator answers.
   */
  async tryLock(name: string, options: TryLockOptions = {}): Promise<Lock | null> {
    const request = lockRequest("try", name, options, this.#sessions.nextOwner());
    return tried(this.#sessions.acquire(request, options).then((it) => new Lock(it)));
  }

  /** Waits for several locks: all of them or none. Fails as {@link lock} does. */
  async lockAll(names: readonly LockName[], options: LockOptions = {}): Promise<LockSet> {
    const request = locksRequest("wait", names, options, this.#sessions.nextOwner());
    return new LockSet(await this.#sessions.acquire(request, options));
  }

  /** Acquires several locks if all are free now, else returns null. Fails as {@link lock} does. */
  async tryLockAll(
    names: readonly LockName[],
    options: TryLockOptions = {},
  ): Promise<LockSet | null> {
    const request = locksRequest("try", names, options, this.#sessions.nextOwner());
    return tried(this.#sessions.acquire(request, options).then((it) => new LockSet(it)));
  }

  /**
   * Takes over a lock that another session has offered, see {@link Lock.offer}. At no moment is the
   * lock free, and its fencing token is new and larger.
   *
   * Fails with {@link RefusedError} (`TICKET_REFUSED` if the ticket cannot be claimed; the `state`
   * in its metadata says why), with the reason of `signal`, with {@link UnreachableError} and
   * {@link SessionEndedError}.
   */
  async claim(
    name: string,
    ticket: string,
    options: { signal?: AbortSignal | undefined } = {},
  ): Promise<Lock> {
    const request = claimRequest(name, ticket, this.#sessions.nextOwner());
    return new Lock(await this.#sessions.acquire(request, options));
  }

  /**
   * Waits until a lock has no holder in any mode, and acquires nothing. Any owner may hold it when
   * this returns. Opens the session; {@link Calls.awaitFree} does not.
   *
   * Fails as {@link lock} does.
   */
  async awaitFree(name: string, options: WaitOptions = {}): Promise<void> {
    checkName(name);
    checkWait(options.wait);
    const value = { name, sessionId: "", waitTimeout: undefined };
    await this.#sessions.call("lockFree", { $case: "awaitFree", value }, options);
  }

  /**
   * Watches a lock: first its state, then each grant, each end of a grant, and the number of
   * waiters, in order, on any coordinator of the store. If the coordinator or the connection fails,
   * it goes on at the next endpoint, with a gap and the state. Leaving the loop ends it. Needs the
   * right `describe`. Opens no session.
   *
   * Fails with {@link RefusedError} if the same request would be refused again, with the error of
   * the last endpoint if none can be watched at first, with the reason of `signal`, and with
   * {@link SessionEndedError} when the client is closed.
   */
  watch(name: string, options: WatchOptions = {}): AsyncGenerator<LockEvent, void, undefined> {
    return watch(this.#connector, name, options);
  }

  /**
   * Calls a function while a lock is held, as `navigator.locks.request` does, and returns its
   * result. With `ifAvailable`, the function gets null if the lock is not free now.
   *
   * Fails as {@link lock} does, with the error of the function, and with {@link LockLostError} if
   * the lock was lost while the function ran. The function should stop when `lock.signal` is
   * aborted.
   */
  request<T>(name: string, work: Work<T>): Promise<T>;
  request<T>(
    name: string,
    options: RequestOptions & { ifAvailable: true },
    work: (lock: Lock | null) => T | Promise<T>,
  ): Promise<T>;
  request<T>(name: string, options: RequestOptions, work: Work<T>): Promise<T>;
  async request<T>(
    name: string,
    optionsOrWork: RequestOptions | Work<T>,
    workOrNothing?: (lock: Lock) => T | Promise<T>,
  ): Promise<T> {
    const isShort = typeof optionsOrWork === "function";
    const options = isShort ? {} : optionsOrWork;
    const work = (isShort ? optionsOrWork : workOrNothing) as (it: Lock | null) => T | Promise<T>;
    const { ifAvailable } = options;
    const lock = await (ifAvailable ? this.tryLock(name, options) : this.lock(name, options));
    if (lock === null) {
      return work(null);
    }
    let result: T;
    try {
      result = await work(lock);
    } catch (error) {
      // The error of the function says more than that of the release.
      await lock.release().catch(() => undefined);
      throw error;
    }
    await lock.release();
    return result;
  }

  /** A semaphore. */
  semaphore(name: string): Semaphore {
    return new Semaphore(this.#sessions, name);
  }

  /** A latch. */
  latch(name: string): Latch {
    return new Latch(this.#sessions, name);
  }

  /** An election, by the name of its lock. */
  election(name: string): Election {
    return new Election(this.#sessions, this.calls, this.#connector, name);
  }

  /**
   * The session if it is connected. A question does not wait for one that is opened or resumed:
   * that may take as long as the lease.
   */
  get #connected(): Session | undefined {
    return this.#state === "connected" ? this.#sessions.session : undefined;
  }

  /** The holders and the waiters of a lock. Opens no session. */
  async describe(name: string): Promise<LockDescription> {
    checkName(name);
    const session = this.#connected;
    if (session === undefined) {
      return this.calls.describe(name);
    }
    const outcome = await session.run({ $case: "describe", value: { name } }, ANSWER);
    return lockDescription(answerOf("described", outcome));
  }

  /**
   * Whether a fencing token is that of the newest grant, for a resource that cannot compare tokens
   * itself. Opens no session.
   */
  async checkToken(name: string, fencingToken: bigint): Promise<TokenCheck> {
    checkName(name);
    const session = this.#connected;
    if (session === undefined) {
      return this.calls.checkToken(name, fencingToken);
    }
    const request = { $case: "checkToken", value: { name, fencingToken } } as const;
    const outcome = await session.run(request, ANSWER);
    return tokenCheck(answerOf("tokenChecked", outcome));
  }

  /**
   * Ends the session and releases everything. The client cannot be used afterwards: its calls,
   * watches and observations fail with {@link SessionEndedError}, also those that are under way.
   *
   * Fails with {@link SessionEndedError} if no coordinator confirms it within 2 s; everything stays
   * held until its lease ends then.
   */
  async close(): Promise<void> {
    this.#connector.close();
    this.calls.close();
    await this.#sessions.close();
  }

  /** Closes the client at the end of an `await using` block. A failure is only logged. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.close();
    } catch (error) {
      this.#sessions.logger.warn(String(error));
    }
  }
}

/** A logger whose exceptions do not keep a session from its work, such as the report of a loss. */
function guarded(logger: Logger): Logger {
  const log = (level: keyof Logger) => (message: string) => {
    try {
      logger[level](message);
    } catch {
      // There is no other place to report it.
    }
  };
  return { debug: log("debug"), info: log("info"), warn: log("warn") };
}

function defaultLogger(): Logger {
  const debug = debuglog("lockkeeper");
  const log = (message: string): void => {
    debug("%s", message);
  };
  return { debug: log, info: log, warn: log };
}
