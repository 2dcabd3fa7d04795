/** Locks without a session. */

import type { Clock } from "./clock.js";
import { toMs } from "./machine/messages.js";
import { fromWireMode } from "./options.js";
import type { LockMode } from "./options.js";
import type { Grant as WireGrant } from "./proto/lockkeeper/v1/types.js";

/** A lock that an owner without a session holds until its lease ends. */
export class Grant {
  readonly name: string;
  readonly mode: LockMode;
  /** The owner: who knows it can renew and release the lock. */
  readonly owner: string;
  /** The fencing token, to be sent to the protected resource. */
  readonly fencingToken: bigint;
  readonly holdCount: number;
  readonly #clock: Clock;
  readonly #validUntil: number;

  /** @internal */
  constructor(wire: WireGrant, sentAt: number, clock: Clock) {
    this.name = wire.name;
    this.mode = fromWireMode(wire.mode) ?? "exclusive";
    this.owner = wire.owner;
    this.fencingToken = wire.fencingToken;
    this.holdCount = wire.holdCount;
    this.#clock = clock;
    this.#validUntil = sentAt + toMs(wire.validFor);
  }

  /** How long it is certainly held from now on, in milliseconds. */
  get validFor(): number {
    return Math.max(this.#validUntil - this.#clock.check(), 0);
  }
}
