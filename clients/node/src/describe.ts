/** Descriptions of locks, semaphores and latches. Times are milliseconds. */

import type { HolderNote } from "./errors.js";
import { toMs } from "./machine/messages.js";
import { fromWireMode } from "./options.js";
import type { LockMode } from "./options.js";
import type { Duration } from "./proto/google/protobuf/duration.js";
import type { DescribeLatchResponse } from "./proto/lockkeeper/v1/latch.js";
import type { CheckTokenResponse, DescribeResponse } from "./proto/lockkeeper/v1/lock.js";
import type { DescribeSemaphoreResponse } from "./proto/lockkeeper/v1/semaphore.js";
import type { Holder } from "./proto/lockkeeper/v1/types.js";

/** An owner that holds a lock or permits. */
export interface HolderDescription {
  /** The first digits of the SHA-256 of the session id; empty for an owner without a session. */
  readonly sessionDigest: string;
  /** The owner. */
  readonly owner: string;
  /** The name that the client gave; empty if its session is not on the queried coordinator. */
  readonly clientName: string;
  /** The number of holds or permits. */
  readonly count: number;
  /** The mode in which a lock is held. */
  readonly mode?: LockMode;
  /** The remaining lease; unset if it does not end. */
  readonly remainingLease?: number;
  /** The note of a holder of a lock; unset if it gave none. */
  readonly note?: HolderNote;
}

/** A call that waits. */
export interface WaiterDescription {
  readonly sessionDigest: string;
  readonly owner: string;
  readonly clientName: string;
  /** The position, starting at 1. */
  readonly position: number;
  /** Since when it waits; unset if it waits at another coordinator. */
  readonly waitingFor?: number;
  /** The mode in which a lock is wanted. */
  readonly mode?: LockMode;
}

/** The state of a lock when the store was read. */
export interface LockDescription {
  readonly name: string;
  /** The mode in which it is held; unset if it is not held. */
  readonly mode?: LockMode;
  /** The holders, at most 1,000. */
  readonly holders: readonly HolderDescription[];
  readonly holderCount: number;
  /** The waiters, at most 1,000 of each mode: of fair locks all, else those of one coordinator. */
  readonly waiters: readonly WaiterDescription[];
  readonly waiterCount: number;
  /** The remaining lease; unset if the lock is not held, or its lease does not end. */
  readonly remainingLease?: number;
  /** The fencing token of the newest grant; 0n if none is known. */
  readonly lastFencingToken: bigint;
}

/** Whether a fencing token is that of the newest grant. */
export interface TokenCheck {
  /** Refuse the work if this is false. */
  readonly current: boolean;
  /** The fencing token of the newest grant; 0n if none is known. */
  readonly lastFencingToken: bigint;
  /** Whether the lock is held, by any owner. */
  readonly held: boolean;
}

/** The state of a semaphore when the store was read. */
export interface SemaphoreDescription {
  readonly name: string;
  /** The total number of permits; 0 if the semaphore does not exist. */
  readonly permits: number;
  /** The free permits; negative while more are held than there are. */
  readonly available: number;
  readonly holders: readonly HolderDescription[];
  readonly holderCount: number;
  readonly waiters: readonly WaiterDescription[];
  readonly waiterCount: number;
}

/** The state of a latch when the store was read. */
export interface LatchDescription {
  readonly name: string;
  /** The remaining count; 0 if the latch is open. */
  readonly count: number;
  /** The time until the latch is forgotten; unset if it is open or stays. */
  readonly remainingTtl?: number;
  /** The number of waiters on the queried coordinator. */
  readonly waiterCount: number;
}

/** A lock for users. */
export function lockDescription(wire: DescribeResponse): LockDescription {
  const holders = wire.holders.map(holderDescription);
  const waiters = wire.waiters.map((it) => ({
    ...waiter(it),
    ...optional("mode", fromWireMode(it.mode)),
  }));
  const { name, holderCount, waiterCount, lastFencingToken } = wire;
  const mode = fromWireMode(wire.mode);
  const lease = ms(wire.remainingLease);
  return {
    name,
    holders,
    holderCount,
    waiters,
    waiterCount,
    lastFencingToken,
    ...optional("mode", mode),
    ...optional("remainingLease", lease),
  };
}

/** A holder of a lock for users. */
export function holderDescription(it: Holder): HolderDescription {
  return {
    ...identity(it),
    count: it.holdCount,
    ...optional("mode", fromWireMode(it.mode)),
    ...optional("remainingLease", ms(it.remainingLease)),
    ...optional("note", it.note),
  };
}

/** A semaphore for users. */
export function semaphoreDescription(wire: DescribeSemaphoreResponse): SemaphoreDescription {
  const { name, total, available, holderCount, waiterCount } = wire;
  const holders = wire.holders.map((it) => ({
    ...identity(it),
    count: it.permits,
    ...optional("remainingLease", ms(it.remainingLease)),
  }));
  return {
    name,
    permits: total,
    available: Number(available),
    holders,
    holderCount,
    waiters: wire.waiters.map(waiter),
    waiterCount,
  };
}

/** A latch for users. */
export function latchDescription(wire: DescribeLatchResponse): LatchDescription {
  const { name, count, waiterCount } = wire;
  return { name, count, waiterCount, ...optional("remainingTtl", ms(wire.remainingTtl)) };
}

/** The check of a token for users. */
export function tokenCheck({ current, lastFencingToken, held }: CheckTokenResponse): TokenCheck {
  return { current, lastFencingToken, held };
}

interface Identity {
  readonly sessionDigest: string;
  readonly owner: string;
  readonly clientName: string;
}

function identity({ sessionDigest, owner, clientName }: Identity): Identity {
  return { sessionDigest, owner, clientName };
}

function waiter(
  it: Identity & { position: number; waitingFor?: Duration | undefined },
): WaiterDescription {
  const waitingFor = optional("waitingFor", ms(it.waitingFor));
  return { ...identity(it), position: it.position, ...waitingFor };
}

/** A duration in milliseconds; undefined if it is unset. */
export function ms(duration: Duration | undefined): number | undefined {
  return duration === undefined ? undefined : toMs(duration);
}

/** A field if it has a value. */
export function optional<K extends string, V>(key: K, value: V | undefined): Partial<Record<K, V>> {
  return value === undefined ? {} : ({ [key]: value } as Record<K, V>);
}
