/** Latches. */

import { latchDescription } from "./describe.js";
import type { LatchDescription } from "./describe.js";
import { checkCount, checkLease, checkName, checkWait } from "./options.js";
import type { WaitOptions } from "./options.js";
import type { Sessions } from "./sessions.js";
import { toDuration } from "./machine/messages.js";

/**
 * A latch by its name: it opens when its count is 0, and a latch without a count is open. Its
 * methods fail with {@link RefusedError}, {@link UnreachableError} and {@link SessionEndedError}.
 */
export class Latch {
  readonly #sessions: Sessions;

  /** @internal */
  constructor(
    sessions: Sessions,
    /** The name. */
    readonly name: string,
  ) {
    checkName(name);
    this.#sessions = sessions;
  }

  /**
   * Sets the count, unless the latch has one, and returns the count. The latch is forgotten, and so
   * opens, after `ttl` milliseconds; without one it stays until it is open or deleted.
   */
  async setCount(count: number, options: { ttl?: number | undefined } = {}): Promise<number> {
    checkCount(count, "count");
    checkLease(options.ttl, "ttl");
    const ttl = options.ttl === undefined ? undefined : toDuration(options.ttl);
    const value = { name: this.name, count, ttl, requestId: "" };
    return (await this.#sessions.call("countSet", { $case: "setCount", value })).count;
  }

  /** Lowers the count, and returns what is left. */
  async countDown(by = 1): Promise<number> {
    checkCount(by, "by");
    const value = { name: this.name, by, requestId: "" };
    return (await this.#sessions.call("countedDown", { $case: "countDown", value })).count;
  }

  /**
   * Waits until the latch is open. Fails with {@link NotGrantedError} after `wait` milliseconds;
   * without limit by default.
   */
  async wait(options: WaitOptions = {}): Promise<void> {
    checkWait(options.wait);
    const value = { name: this.name, sessionId: "", waitTimeout: undefined };
    await this.#sessions.call("latchOpened", { $case: "awaitLatch", value }, options);
  }

  /** The count and the waiters. */
  async describe(): Promise<LatchDescription> {
    const request = { $case: "describeLatch", value: { name: this.name } } as const;
    return latchDescription(await this.#sessions.call("latchDescribed", request));
  }

  /** Deletes the latch, which opens it. Returns whether it had a count. */
  async delete(): Promise<boolean> {
    const request = { $case: "deleteLatch", value: { name: this.name } } as const;
    return (await this.#sessions.call("latchDeleted", request)).deleted;
  }
}
