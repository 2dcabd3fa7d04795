/** Locks and permits that are held. */

import type { LockLostError } from "./errors.js";
import { MisconfiguredError } from "./errors.js";
import { validUntil } from "./machine/entries.js";
import type { GuardEntry } from "./machine/entries.js";
import type { YieldRequest } from "./machine/events.js";
import { renewalOf } from "./machine/holding.js";
import { toDuration } from "./machine/messages.js";
import { checkLease, fromWireMode } from "./options.js";
import type { LockMode, OfferOptions } from "./options.js";
import type { Grant } from "./proto/lockkeeper/v1/types.js";
import type { Session } from "./session.js";
import { answerOf } from "./sessions.js";
import type { Held } from "./sessions.js";

/** What locks and permits have in common. */
export abstract class Holding implements AsyncDisposable {
  readonly #session: Session;
  readonly #guard: GuardEntry;
  readonly #yieldListeners: ((request: YieldRequest) => void)[] = [];
  #controller: AbortController | undefined;
  #released: Promise<void> | undefined;

  /** @internal */
  constructor({ session, guard }: Held) {
    this.#session = session;
    this.#guard = guard;
    session.listen(guard, {
      onLost: () => this.#controller?.abort(guard.loss),
      onYieldRequested: (request) => {
        this.#yieldListeners.forEach((it) => {
          callLater(it, request);
        });
      },
    });
  }

  /**
   * Is aborted when this is lost, with a {@link LockLostError} as its reason. Pass it to everything
   * that must stop then. A release does not abort it.
   */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.loss !== undefined) {
        this.#controller.abort(this.loss);
      }
    }
    return this.#controller.signal;
  }

  /** Why it was lost; undefined if it was not. */
  get loss(): LockLostError | undefined {
    return this.#guard.loss;
  }

  /**
   * How long it is certainly held from now on, in milliseconds, unless it is renewed. 0 when it is
   * lost, and once a release has begun. Renewals in the background extend it.
   */
  get validFor(): number {
    const until = this.#released === undefined ? validUntil(this.#guard) : -Infinity;
    return Math.max(until - this.#session.now(), 0);
  }

  /** A request of another caller to release one of the locks; undefined if none stands. */
  get yieldRequest(): YieldRequest | undefined {
    const now = this.#session.now();
    const all = this.loss === undefined ? this.#guard.grants : [];
    return all.find(({ asked }) => asked !== undefined && asked.until > now)?.asked?.request;
  }

  /**
   * Calls a function when another caller asks for one of the locks, and at once while such a
   * request stands. Everything stays held: finish the work, release, or go on. But if the request
   * preempts, the lock is lost when it ends. After a broken connection the function can be called
   * for the same request again. Permits are never asked for.
   */
  onYieldRequested(listener: (request: YieldRequest) => void): void {
    this.#yieldListeners.push(listener);
    const standing = this.yieldRequest;
    if (standing !== undefined) {
      callLater(listener, standing);
    }
  }

  /** The owner within the session. */
  get owner(): string {
    return this.#guard.holdings[0]?.grant.owner ?? "";
  }

  /** The number of replicas that acknowledged the grant; of several locks the smallest. */
  get replicaAcks(): number {
    return Math.min(...this.#guard.holdings.map((it) => it.grant.replicaAcks));
  }

  /**
   * Renews a lease that the request set, to its former length or to `lease` milliseconds. Without
   * such a lease this is done in the background.
   *
   * Fails with {@link LockLostError} if it is lost, and with a {@link RefusedError}.
   */
  async renew(lease?: number): Promise<void> {
    checkLease(lease);
    if (this.loss !== undefined) {
      throw this.loss;
    }
    if (this.#released !== undefined) {
      throw new MisconfiguredError("renew", "it was released before");
    }
    const renewals = this.#guard.grants.map((entry) =>
      this.#session.run(renewalOf(entry.holding, lease), { renews: entry }),
    );
    await Promise.all(renewals);
  }

  /**
   * Releases it, and waits for the confirmation. A second call returns the first result.
   *
   * Fails with {@link LockLostError} if it was lost before, with {@link RefusedError} if the store
   * did not answer for as long as the lease, and with {@link SessionEndedError}.
   */
  release(): Promise<void> {
    this.#released ??= this.#session.release(this.#guard);
    return this.#released;
  }

  /** Releases it at the end of an `await using` block, unless `release` was called before. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#released === undefined) {
      await this.release();
    } else {
      // The caller of `release` has got the error, if there is one.
      await this.#released.catch(() => undefined);
    }
  }
}

/** Calls a listener of a user, whose exception must not stop the session. */
function callLater(listener: (request: YieldRequest) => void, request: YieldRequest): void {
  queueMicrotask(() => {
    listener(request);
  });
}

/** A lock that is held. */
export class Lock extends Holding {
  /** The name. */
  readonly name: string;
  /** The mode in which it is held. */
  readonly mode: LockMode;
  /**
   * The fencing token. Send it to the protected resource, which refuses a token that is smaller
   * than the largest it has seen.
   */
  readonly fencingToken: bigint;
  /** The number of holds that the owner had after this acquire. */
  readonly holdCount: number;
  readonly #session: Session;

  /** @internal */
  constructor(held: Held) {
    super(held);
    this.#session = held.session;
    const grant = held.guard.holdings[0]?.grant as Grant;
    this.name = grant.name;
    this.mode = fromWireMode(grant.mode) ?? "exclusive";
    this.fencingToken = grant.fencingToken;
    this.holdCount = grant.holdCount;
  }

  /**
   * Makes a ticket with which another session, on any coordinator, can take the lock over by
   * {@link Lockkeeper.claim}. Stop the work first: at the claim the lock is lost with
   * `HANDED_OVER`, and its release fails with that {@link LockLostError}. A ticket that nobody
   * claims changes nothing. It is a secret: anyone who has it, and may acquire the lock, can claim
   * it.
   *
   * Fails with {@link LockLostError} if the lock is lost, with {@link RefusedError}
   * (`TICKET_REFUSED` if it is not exclusive, was acquired several times by its owner, or has
   * `holdAtLeast` or `lockDelay`) and with {@link SessionEndedError}.
   */
  async offer({ within, signal }: OfferOptions = {}): Promise<string> {
    checkLease(within, "within");
    if (this.loss !== undefined) {
      throw this.loss;
    }
    const { name, owner } = this;
    const wire = within === undefined ? undefined : toDuration(within);
    const value = { name, owner, sessionId: "", within: wire };
    const outcome = await this.#session.run({ $case: "offer", value }, { signal });
    return answerOf("offered", outcome).ticket;
  }
}

/** Several locks that were acquired together. Each can be lost; then all of this is. */
export class LockSet extends Holding {
  /** The names, sorted. */
  readonly names: readonly string[];
  /** The fencing tokens by name. */
  readonly fencingTokens: ReadonlyMap<string, bigint>;

  /** @internal */
  constructor(held: Held) {
    super(held);
    const grants = held.guard.holdings.map((it) => it.grant as Grant);
    this.names = grants.map((it) => it.name);
    this.fencingTokens = new Map(grants.map((it) => [it.name, it.fencingToken]));
  }
}

/** Permits of a semaphore that are held. */
export class Permits extends Holding {
  /** The name of the semaphore. */
  readonly name: string;
  /** The number of permits. */
  readonly count: number;
  /** An id for each permit. Keep them secret: who knows one can release it. */
  readonly permitIds: readonly string[];

  /** @internal */
  constructor(held: Held) {
    super(held);
    const holding = held.guard.holdings[0];
    this.name = holding?.grant.name ?? "";
    this.permitIds = holding?.kind === "permits" ? holding.grant.permitIds : [];
    this.count = this.permitIds.length;
  }
}
