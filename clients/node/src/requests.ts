/** The options of users as requests of the protocol. */

import { MisconfiguredError } from "./errors.js";
import { checkCount, checkLease, checkName, checkWait, toWireMode } from "./options.js";
import type { AcquireOptions, LockMode, LockOptions, TryOptions } from "./options.js";
import { toDuration } from "./machine/messages.js";
import type { Request } from "./machine/messages.js";
import { toWireNote } from "./note.js";
import type { LockSpec } from "./proto/lockkeeper/v1/lock.js";

/** A lock of several: its name, or its name and mode. */
export type LockName = string | { name: string; mode: LockMode };

/** Whether a request waits or tries once. */
export type How = "wait" | "try";

/** The request for one lock. */
export function lockRequest(
  how: How,
  name: string,
  options: LockOptions,
  owner: string,
): Request {
  checkName(name);
  const { mode, holdAtLeast, lockDelay, endOnDeadlock = false, preferred = false } = options;
  checkLease(holdAtLeast, "holdAtLeast");
  checkLease(lockDelay, "lockDelay");
  const fields = {
    ...fieldsOf(options, owner),
    name,
    mode: toWireMode(mode),
    note: toWireNote(options),
    holdAtLeast: holdAtLeast === undefined ? undefined : toDuration(holdAtLeast),
    lockDelay: lockDelay === undefined ? undefined : toDuration(lockDelay),
  };
  return how === "wait"
    ? { $case: "acquire", value: { ...fields, waitTimeout: undefined, endOnDeadlock, preferred } }
    : { $case: "tryAcquire", value: fields };
}

/** The request for several locks. */
export function locksRequest(
  how: How,
  names: readonly LockName[],
  options: LockOptions,
  owner: string,
): Request {
  for (const field of ["holdAtLeast", "lockDelay", "preferred"] as const) {
    if ((options[field] ?? false) !== false) {
      throw new MisconfiguredError(field, "only one lock can have it");
    }
  }
  const locks: LockSpec[] = names.map((it) => {
    const { name, mode } = typeof it === "string" ? { name: it, mode: options.mode } : it;
    checkName(name, "names");
    return { name, mode: toWireMode(mode) };
  });
  const { endOnDeadlock = false } = options;
  const fields = { ...fieldsOf(options, owner), locks, note: toWireNote(options) };
  return how === "wait"
    ? { $case: "acquireAll", value: { ...fields, waitTimeout: undefined, endOnDeadlock } }
    : { $case: "tryAcquireAll", value: fields };
}

/** The request to take a lock over. */
export function claimRequest(name: string, ticket: string, owner: string): Request {
  checkName(name);
  checkName(ticket, "ticket");
  return { $case: "claim", value: { name, ticket, owner, sessionId: "", lease: undefined } };
}

/** The request for permits. */
export function permitsRequest(
  how: How,
  name: string,
  permits: number,
  options: AcquireOptions,
  owner: string,
): Request {
  checkCount(permits, "permits");
  const fields = { ...fieldsOf(options, owner), name, permits };
  return how === "wait"
    ? { $case: "acquirePermits", value: { ...fields, waitTimeout: undefined } }
    : { $case: "tryAcquirePermits", value: fields };
}

function fieldsOf(
  options: AcquireOptions,
  owner: string,
): {
  sessionId: string;
  owner: string;
  lease: ReturnType<typeof toDuration> | undefined;
  requestId: string;
  minReplicaAcks: number;
} {
  const { lease, minReplicaAcks } = check(options);
  return {
    sessionId: "",
    owner: options.owner ?? owner,
    lease: lease === undefined ? undefined : toDuration(lease),
    requestId: "",
    minReplicaAcks: minReplicaAcks ?? 0,
  };
}

/** Checks options and returns them. */
export function check<T extends AcquireOptions & TryOptions>(options: T): T {
  checkLease(options.lease);
  checkWait(options.wait);
  checkWait(options.patience, "patience");
  checkCount(options.minReplicaAcks, "minReplicaAcks");
  return options;
}
