/** What one answer granted: a lock or permits, as a message of the protocol. */

import type { PermitGrant } from "../proto/lockkeeper/v1/semaphore.js";
import { LockMode } from "../proto/lockkeeper/v1/types.js";
import type { Grant } from "../proto/lockkeeper/v1/types.js";
import { toDuration } from "./messages.js";
import type { Request } from "./messages.js";

/** A grant, which is renewed and lost independently of others. */
export type Holding =
  | { readonly kind: "lock"; readonly grant: Grant }
  | { readonly kind: "permits"; readonly grant: PermitGrant };

/** A lock as a holding. */
export function ofLock(grant: Grant): Holding {
  return { kind: "lock", grant };
}

/** Permits as a holding. */
export function ofPermits(grant: PermitGrant): Holding {
  return { kind: "permits", grant };
}

/** What identifies a holding in the messages of one session: of several permits one key each. */
export function keysOf(holding: Holding): string[] {
  return holding.kind === "lock"
    ? [lockKey(holding.grant)]
    : holding.grant.permitIds.map((id) => `permit\0${id}`);
}

/** What identifies a lock that one owner holds. EXCLUSIVE and FAIR are the same lock. */
export function lockKey({ name, mode, owner }: Pick<Grant, "name" | "mode" | "owner">): string {
  const side = mode === LockMode.FAIR ? LockMode.EXCLUSIVE : effectiveMode(mode);
  return `${String(side)}\0${owner}\0${name}`;
}

/** The fencing token; 0 for permits. */
export function tokenOf(holding: Holding): bigint {
  return holding.kind === "lock" ? holding.grant.fencingToken : 0n;
}

/** Whether it is a lock that is held for reading. */
export function isRead(holding: Holding): boolean {
  return holding.kind === "lock" && holding.grant.mode === LockMode.READ;
}

/** The mode that the coordinator takes: an unspecified one is exclusive. */
export function effectiveMode(mode: LockMode): LockMode {
  return mode === LockMode.UNSPECIFIED ? LockMode.EXCLUSIVE : mode;
}

/** The request that renews a holding, for `lease` milliseconds or its former lease. */
export function renewalOf({ kind, grant }: Holding, lease?: number): Request {
  const { name, owner } = grant;
  const fields = {
    name,
    owner,
    sessionId: "",
    lease: lease === undefined ? undefined : toDuration(lease),
  };
  return kind === "lock"
    ? { $case: "renew", value: { ...fields, mode: grant.mode } }
    : { $case: "renewPermits", value: { ...fields, permitIds: grant.permitIds } };
}

/** The request that releases what one answer granted. */
export function releaseOf(holdings: readonly Holding[]): Request {
  const [first] = holdings;
  const fields = { sessionId: "", owner: first?.grant.owner ?? "", requestId: "" };
  const name = first?.grant.name ?? "";
  if (first?.kind === "permits") {
    const { permitIds } = first.grant;
    return { $case: "releasePermits", value: { ...fields, name, permitIds } };
  }
  if (first?.kind === "lock" && holdings.length === 1) {
    return { $case: "release", value: { ...fields, name, mode: first.grant.mode } };
  }
  const grants = holdings.flatMap((it) => (it.kind === "lock" ? [it.grant] : []));
  const locks = grants.map(({ name, mode }) => ({ name, mode }));
  return { $case: "releaseAll", value: { ...fields, locks } };
}
