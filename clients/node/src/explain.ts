/** Why a lock is waited for. Times are milliseconds. */

import { holderDescription, ms, optional } from "./describe.js";
import type { HolderDescription } from "./describe.js";
import { toMs } from "./machine/messages.js";
import { fromWireMode } from "./options.js";
import type { LockMode } from "./options.js";
import type { Duration } from "./proto/google/protobuf/duration.js";
import type {
  Deadlock as WireDeadlock,
  DeadlockedWait as WireDeadlockedWait,
  ExplainedHolder as WireHolder,
  ExplainedLock as WireLock,
  ExplainedWait as WireWait,
  ExplainResponse,
} from "./proto/lockkeeper/v1/lock.js";
import { Holder } from "./proto/lockkeeper/v1/types.js";
import type { LockMode as WireMode } from "./proto/lockkeeper/v1/types.js";

/** Why a lock or a semaphore is waited for: its holders, what they wait for, and so on. */
export interface Explanation {
  /** The names of the chain, each once: the requested one, and then what its holders wait for. */
  readonly locks: readonly ExplainedLock[];
  /** Whether something of the chain is not listed. */
  readonly truncated: boolean;
  /** The deadlocks in the chain; if there is none, those that are possible. */
  readonly deadlocks: readonly Deadlock[];
}

/** A name in the chain. */
export interface ExplainedLock {
  readonly name: string;
  /** The mode in which it is held; unset if it is not held or is a semaphore. */
  readonly mode?: LockMode;
  readonly isSemaphore: boolean;
  /** The first 8 holders. */
  readonly holders: readonly ExplainedHolder[];
  readonly holderCount: number;
  readonly waiterCount: number;
  /** The fencing token of the newest grant; 0n if none is known, and for a semaphore. */
  readonly lastFencingToken: bigint;
}

/** A holder in the chain, and what it waits for. */
export interface ExplainedHolder extends HolderDescription {
  /** Since when it holds the lock; unset if its session is not on the queried coordinator. */
  readonly heldFor?: number;
  /** Its waits and those of other owners of its session, if older than a second; at most 8. */
  readonly waits: readonly ExplainedWait[];
}

/** What a holder waits for. */
export interface ExplainedWait {
  /** The name; unset if the caller has no right to describe it. The chain ends there then. */
  readonly name?: string;
  /** The owner that waits. */
  readonly owner: string;
  /** Whether that is the holder itself, and not another owner of its session. */
  readonly isHolder: boolean;
  /** The mode in which it wants to hold the lock; unset for permits. */
  readonly mode?: LockMode;
  readonly waitingFor: number;
}

/** A cycle of owners of which each waits for a lock that the next one holds. */
export interface Deadlock {
  readonly waits: readonly DeadlockedWait[];
  /** Whether it is only possible, because one of the owners may be several tasks. */
  readonly isPossible: boolean;
}

/** A wait of a deadlock. */
export interface DeadlockedWait {
  /** The first digits of the SHA-256 of the session id; empty for an owner without a session. */
  readonly sessionDigest: string;
  readonly owner: string;
  readonly clientName: string;
  /** What it waits for; unset if the caller has no right to describe it. */
  readonly name?: string;
  /** The mode in which it wants to hold the lock; unset for permits. */
  readonly mode?: LockMode;
  readonly waitingFor: number;
}

/** An explanation for users. */
export function explanation({ locks, truncated, deadlocks }: ExplainResponse): Explanation {
  return { locks: locks.map(lock), truncated, deadlocks: deadlocks.map(deadlock) };
}

function lock({ mode, holders, ...it }: WireLock): ExplainedLock {
  return { ...it, holders: holders.map(holder), ...optional("mode", fromWireMode(mode)) };
}

function holder({ holder: wire, heldFor, waits }: WireHolder): ExplainedHolder {
  return {
    ...holderDescription(wire ?? Holder.create()),
    ...optional("heldFor", ms(heldFor)),
    waits: waits.map(wait),
  };
}

function wait({ name, owner, isHolder, mode, waitingFor }: WireWait): ExplainedWait {
  return { owner, isHolder, ...wanted(name, mode, waitingFor) };
}

function deadlock({ waits, isPossible }: WireDeadlock): Deadlock {
  return { waits: waits.map(deadlockedWait), isPossible };
}

function deadlockedWait(it: WireDeadlockedWait): DeadlockedWait {
  const { sessionDigest, owner, clientName, name, mode, waitingFor } = it;
  return { sessionDigest, owner, clientName, ...wanted(name, mode, waitingFor) };
}

function wanted(
  name: string,
  mode: WireMode,
  waitingFor: Duration | undefined,
): { name?: string; mode?: LockMode; waitingFor: number } {
  return {
    ...optional("name", name === "" ? undefined : name),
    ...optional("mode", fromWireMode(mode)),
    waitingFor: toMs(waitingFor),
  };
}
