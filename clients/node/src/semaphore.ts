/** Semaphores. */

import { semaphoreDescription } from "./describe.js";
import type { SemaphoreDescription } from "./describe.js";
import { NotGrantedError } from "./errors.js";
import { Permits } from "./held.js";
import { checkCount, checkName } from "./options.js";
import type { AcquireOptions, TryOptions } from "./options.js";
import { permitsRequest } from "./requests.js";
import type { Sessions } from "./sessions.js";

/**
 * A semaphore by its name: a number of permits that holders take and give back. Its methods fail
 * with {@link RefusedError}, {@link UnreachableError} and {@link SessionEndedError}.
 */
export class Semaphore {
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
   * Waits for permits: all of them or none. Fails with {@link NotGrantedError} after `wait`
   * milliseconds.
   */
  async acquire(permits = 1, options: AcquireOptions = {}): Promise<Permits> {
    const owner = this.#sessions.nextOwner();
    const request = permitsRequest("wait", this.name, permits, options, owner);
    return new Permits(await this.#sessions.acquire(request, options));
  }

  /** Acquires permits if they are free now, else returns null. */
  async tryAcquire(permits = 1, options: TryOptions = {}): Promise<Permits | null> {
    const owner = this.#sessions.nextOwner();
    const request = permitsRequest("try", this.name, permits, options, owner);
    return tried(this.#sessions.acquire(request, options).then((it) => new Permits(it)));
  }

  /**
   * Sets the total number of permits, and creates the semaphore if needed; 0 removes it. Returns
   * the total, which differs if `onlyIfAbsent` has left an existing semaphore unchanged.
   */
  async setPermits(
    permits: number,
    options: { onlyIfAbsent?: boolean | undefined } = {},
  ): Promise<number> {
    checkCount(permits, "permits");
    const { name } = this;
    const value = { name, permits, onlyIfAbsent: options.onlyIfAbsent ?? false };
    return (await this.#sessions.call("permitsSet", { $case: "setPermits", value })).total;
  }

  /** The permits, the holders and the waiters. */
  async describe(): Promise<SemaphoreDescription> {
    const request = { $case: "describeSemaphore", value: { name: this.name } } as const;
    return semaphoreDescription(await this.#sessions.call("semaphoreDescribed", request));
  }
}

/** Not to be granted is a result of a try, not a failure. */
export async function tried<T>(acquired: Promise<T>): Promise<T | null> {
  try {
    return await acquired;
  } catch (error) {
    if (error instanceof NotGrantedError) {
      return null;
    }
    throw error;
  }
}
