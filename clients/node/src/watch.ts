/** What happens to a lock. */

import type { Connector } from "./connector.js";
import { holderDescription } from "./describe.js";
import type { HolderDescription } from "./describe.js";
import { enumName } from "./machine/messages.js";
import { observe } from "./observe.js";
import { checkName } from "./options.js";
import { GrantEnd as WireEnd, LockGapReason as WireReason } from "./proto/lockkeeper/v1/lock.js";
import type { WatchLockResponse } from "./proto/lockkeeper/v1/lock.js";
import { LockServiceService } from "./proto/lockkeeper/v1/lock_service.js";
import { Holder } from "./proto/lockkeeper/v1/types.js";

/**
 * How a grant ended. `RELEASED`: it was released. `EXPIRED`: its lease was over. `FORCE_RELEASED`:
 * an operator released it. `PREEMPTED`: after a request to yield it. `UNANNOUNCED`: before its
 * lease without an announcement, such as a reader's release, or a key that was deleted or lost.
 * `UNSPECIFIED`: in a way that a newer coordinator knows.
 */
export type GrantEnd =
  | "UNSPECIFIED"
  | "RELEASED"
  | "EXPIRED"
  | "FORCE_RELEASED"
  | "PREEMPTED"
  | "UNANNOUNCED";

/**
 * Why something may not have been seen. `FOLDED`: grants began and ended between two reads; the
 * newest fencing token shows it. `UNHEARD`: the stream was interrupted, or the coordinator may have
 * missed announcements. `STORE_UNREACHABLE`: the store could not be read. `BEHIND`: this client
 * was too slow. `UNSPECIFIED`: for a reason that a newer coordinator knows.
 */
export type LockGapReason = "UNSPECIFIED" | "FOLDED" | "UNHEARD" | "STORE_UNREACHABLE" | "BEHIND";

/** What a watch of a lock sees. */
export type LockEvent =
  /** The lock when the watch began, or went on elsewhere, with at most the first 100 holders. */
  | {
      readonly type: "state";
      readonly holders: readonly HolderDescription[];
      readonly holderCount: number;
      readonly waiterCount: number;
      /** The fencing token of the newest grant; 0n if none is known. */
      readonly lastFencingToken: bigint;
    }
  /** An owner was granted the lock. The token of a reader is that of the last writer. */
  | {
      readonly type: "granted";
      readonly holder: HolderDescription;
      readonly fencingToken: bigint;
    }
  /** A grant has ended; the `detail` of a forced release or a preemption is its reason. */
  | {
      readonly type: "ended";
      readonly holder: HolderDescription;
      readonly fencingToken: bigint;
      readonly end: GrantEnd;
      readonly detail: string;
    }
  /** Nobody holds the lock any more. */
  | { readonly type: "free"; readonly lastFencingToken: bigint }
  /** The number of waiters: of a fair lock all, otherwise those of one coordinator. */
  | { readonly type: "waiters"; readonly waiterCount: number }
  /** Something may not have been seen. */
  | { readonly type: "gap"; readonly reason: LockGapReason };

/** The options of a watch. */
export interface WatchOptions {
  /** Ends the watch, which is rejected with its reason. */
  signal?: AbortSignal | undefined;
}

/** Watches a lock. See {@link Lockkeeper.watch}. */
export async function* watch(
  connector: Connector,
  name: string,
  { signal }: WatchOptions,
): AsyncGenerator<LockEvent, void, undefined> {
  checkName(name);
  const request = (): { name: string } => ({ name });
  const feed = { method: LockServiceService.watchLock, request, signal };
  for await (const { message, goesOn } of observe(connector, feed)) {
    if (goesOn) {
      yield { type: "gap", reason: "UNHEARD" };
    }
    if (message.event !== undefined) {
      yield toEvent(message.event);
    }
  }
}

function toEvent({ $case, value }: NonNullable<WatchLockResponse["event"]>): LockEvent {
  switch ($case) {
    case "state":
      return { type: "state", ...value, holders: value.holders.map(holderDescription) };
    case "granted":
      return { type: "granted", ...value, holder: holder(value.holder) };
    case "ended": {
      const end = enumName(WireEnd, value.end) as GrantEnd;
      return { type: "ended", ...value, holder: holder(value.holder), end };
    }
    case "free":
      return { type: "free", ...value };
    case "waiters":
      return { type: "waiters", ...value };
    case "gap":
      return { type: "gap", reason: enumName(WireReason, value.reason) as LockGapReason };
  }
}

function holder(wire: Holder | undefined): HolderDescription {
  return holderDescription(wire ?? Holder.create());
}
