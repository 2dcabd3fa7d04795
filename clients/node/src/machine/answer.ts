/** What an answer means for the operation that it ends. */

import { NotGrantedError } from "../errors.js";
import type { NotGrantedReason } from "../errors.js";
import { holderNote } from "../note.js";
import type { Duration } from "../proto/google/protobuf/duration.js";
import type { NotGranted, Waiting as WireWaiting } from "../proto/lockkeeper/v1/lock.js";
import type { Waiting } from "./events.js";
import { ofLock, ofPermits } from "./holding.js";
import type { Holding } from "./holding.js";
import { notGrantedReason, toMs } from "./messages.js";
import type { Response } from "./messages.js";

/** What an answer means: a grant, the end of a wait without one, a renewal, or something else. */
export type Answer =
  | { readonly kind: "granted"; readonly holdings: Holding[] }
  | { readonly kind: "renewed"; readonly holdings: Holding[] }
  | { readonly kind: "not_granted"; readonly of: (name: string) => NotGrantedError }
  | { readonly kind: "other" };

const OTHER: Answer = { kind: "other" };

/** What an answer means. */
export function answerOf({ $case, value }: Response): Answer {
  switch ($case) {
    case "granted":
      return granted([ofLock(value)]);
    case "claimed":
      return granted(value.grant === undefined ? [] : [ofLock(value.grant)]);
    case "grantedAll":
      return granted(value.grants.map(ofLock));
    case "permitsGranted":
      return granted([ofPermits(value)]);
    case "tried":
      return value.acquired && value.grant !== undefined
        ? granted([ofLock(value.grant)])
        : heldByOther("WAIT_TIMEOUT", value);
    case "triedAll":
      return value.acquired
        ? granted(value.grants.map(ofLock))
        : heldByOther("WAIT_TIMEOUT", value);
    case "permitsTried":
      return value.acquired && value.grant !== undefined
        ? granted([ofPermits(value.grant)])
        : notGranted("WAIT_TIMEOUT", value.available);
    case "notGranted":
      return heldByOther(notGrantedReason(value.reason), value);
    case "permitsNotGranted":
      return notGranted(notGrantedReason(value.reason), value.available);
    case "latchNotOpened":
      return notGranted(notGrantedReason(value.reason));
    case "renewed":
      return { kind: "renewed", holdings: value.grant === undefined ? [] : [ofLock(value.grant)] };
    case "permitsRenewed":
      return { kind: "renewed", holdings: value.grants.map(ofPermits) };
    default:
      return OTHER;
  }
}

function granted(holdings: Holding[]): Answer {
  return { kind: "granted", holdings };
}

function notGranted(reason: NotGrantedReason, available?: number): Answer {
  const of = (name: string): NotGrantedError =>
    new NotGrantedError(name, reason, undefined, available);
  return { kind: "not_granted", of };
}

function heldByOther(reason: NotGrantedReason, answer: Omit<NotGranted, "reason">): Answer {
  const { holderRemainingLease: lease, holderNote: note } = answer;
  const remaining = lease === undefined ? undefined : toMs(lease);
  const of = (name: string): NotGrantedError =>
    new NotGrantedError(name, reason, remaining, undefined, note);
  return { kind: "not_granted", of };
}

/** What a notice says about a wait for `name`; undefined if it is another frame. */
export function waitingOf({ $case, value }: Response, name: string): Waiting | undefined {
  switch ($case) {
    case "waiting":
      return ofWaiting(name, value);
    case "waitingForAll":
      return ofWaiting(value.name, value.waiting);
    case "waitingForPermits": {
      const { position, available, nextLeaseEnd } = value;
      return { name, position, available, ...remaining(nextLeaseEnd) };
    }
    case "waitingForLatch":
      return { name, position: 0, count: value.count };
    default:
      return undefined;
  }
}

function ofWaiting(name: string, waiting: WireWaiting | undefined): Waiting {
  return {
    name,
    position: waiting?.position ?? 0,
    ...remaining(waiting?.holderRemainingLease),
    ...holderNote(waiting?.holderNote),
  };
}

function remaining(lease: Duration | undefined): { holderRemainingLease?: number } {
  return lease === undefined ? {} : { holderRemainingLease: toMs(lease) };
}
