/** The operations of a session that have no answer yet. */

import type { RefusedError } from "../errors.js";
import type { Grant } from "../proto/lockkeeper/v1/types.js";
import { Deadlines } from "./deadlines.js";
import { RETRY_PAUSE } from "./events.js";
import { lockKey } from "./holding.js";
import { acquires, acquiresPermits, mayRetry, possibleGrants, withRequestId } from "./operation.js";
import type { Operation } from "./operation.js";

/** What follows a failure. */
export type AfterFailure = "send_again" | "wait" | "over";

/** The operations without an answer, sent or to be sent. */
export class OperationTable {
  readonly #byId = new Map<number, Operation>();
  readonly #deadlines = new Deadlines<Operation>();

  constructor(
    readonly random: () => number,
    readonly newRequestId: () => string,
  ) {}

  add(operation: Operation): void {
    this.#byId.set(operation.opId, operation);
  }

  get(opId: number): Operation | undefined {
    return this.#byId.get(opId);
  }

  /** All of them, in the order in which they were started. */
  all(): Operation[] {
    return [...this.#byId.values()];
  }

  /** Removes an operation that has ended. */
  take(opId: number): Operation | undefined {
    const operation = this.#byId.get(opId);
    if (operation !== undefined) {
      this.#byId.delete(opId);
      this.#deadlines.delete(operation);
    }
    return operation;
  }

  /** An operation is sent now. */
  sent(operation: Operation, now: number): void {
    operation.sentAt = now;
    this.#deadlines.delete(operation);
  }

  /** Ends a wait in time while there is no stream. On a stream, the coordinator does it. */
  limitWait(operation: Operation, after = -Infinity): void {
    const { waitUntil = Infinity, isAbandoned } = operation;
    if (waitUntil > after && waitUntil < Infinity && !isAbandoned) {
      this.#deadlines.set(operation, waitUntil);
    } else {
      this.#deadlines.delete(operation);
    }
  }

  /** An operation has failed; decides whether it is sent again. */
  failed(operation: Operation, failure: RefusedError, now: number, lease: number): AfterFailure {
    const { purpose, request } = operation;
    // What an earlier attempt acquired has been released since; this is a new attempt.
    const isReleased = failure.reason === "NOT_OWNER" && operation.isUncertain && acquires(request);
    if (isReleased && !operation.isAbandoned) {
      this.#startAnew(operation);
      return "send_again";
    }
    const isDone = operation.isAbandoned && !operation.isUncertain && purpose.kind === "caller";
    if (isDone || !mayRetry(operation, failure, now, lease)) {
      return "over";
    }
    operation.failingSince ??= now;
    operation.isUncertain = true;
    operation.sentAt = undefined;
    const pause = failure.retryDelay ?? RETRY_PAUSE;
    this.#deadlines.set(operation, now + pause * (0.5 + this.random() / 2));
    return "wait";
  }

  /** What was sent may have been executed. Renewals start anew. */
  streamEnded(): void {
    for (const operation of this.#byId.values()) {
      const { kind } = operation.purpose;
      if (kind === "renewal" || kind === "cleanup") {
        this.take(operation.opId);
        continue;
      }
      if (operation.sentAt !== undefined) {
        operation.sentAt = undefined;
        operation.isUncertain = true;
      }
      this.limitWait(operation);
    }
  }

  /**
   * The locks that may be held although no answer says so: a resume names them. `isNew` excludes
   * those that an earlier answer has granted to the same owner.
   */
  possiblyHeld(isNew: (grant: Grant) => boolean): Grant[] {
    const uncertain = this.all().filter((it) => it.isUncertain);
    return uncertain.flatMap((it) => possibleGrants(it.request)).filter(isNew);
  }

  /**
   * The session was resumed with these locks. Two kinds of operations start anew: permits, which a
   * resume cannot name, and several locks of which only some are held. Returns the latter, to be
   * released.
   */
  resumed(held: ReadonlySet<string>, isNew: (grant: Grant) => boolean): Grant[] {
    const partial: Grant[] = [];
    for (const operation of this.#byId.values()) {
      if (!operation.isUncertain) {
        continue;
      }
      const possible = possibleGrants(operation.request).filter(isNew);
      const confirmed = possible.filter((it) => held.has(lockKey(it)));
      if (confirmed.length > 0 && confirmed.length < possible.length) {
        partial.push(...confirmed);
        this.#startAnew(operation);
      } else if (acquiresPermits(operation.request)) {
        this.#startAnew(operation);
        if (operation.isAbandoned) {
          // The resume does not name its permits, which releases them.
          this.take(operation.opId);
        }
      }
    }
    return partial;
  }

  #startAnew(operation: Operation): void {
    operation.isUncertain = false;
    operation.request = withRequestId(operation.request, this.newRequestId());
  }

  /** When the next operation is due. */
  next(): number | undefined {
    return this.#deadlines.next();
  }

  /** The next operation that is due now. */
  popDue(now: number): Operation | undefined {
    return this.#deadlines.popDue(now);
  }
}
