/** What the session holds, until when, and by which guards. */

import { LockLostError } from "../errors.js";
import type { LostReason } from "../errors.js";
import type { PermitGrant } from "../proto/lockkeeper/v1/semaphore.js";
import type { Grant } from "../proto/lockkeeper/v1/types.js";
import { Deadlines } from "./deadlines.js";
import type { GrantEntry, GuardEntry } from "./entries.js";
import { isRead, keysOf, tokenOf } from "./holding.js";
import type { Holding } from "./holding.js";
import { toMs } from "./messages.js";
import type { Rhythm } from "./stream.js";

/** Why a grant was lost. */
export interface Loss {
  readonly reason: LostReason;
  readonly detail: string;
  /** How long no other owner can acquire it from now on; 0 if unset. */
  readonly validFor?: number;
}

/** The part of `valid_for` that may pass before an answer: a renewal has to follow an older one. */
const STALE_AFTER = 1 / 3;

/** All that the session holds. */
export class GrantTable {
  readonly #byKey = new Map<string, GrantEntry>();
  readonly #entries = new Set<GrantEntry>();
  /** The guards that are not confirmed, by the operations that acquired them. */
  readonly #awaited = new Map<number, GuardEntry>();
  readonly #deadlines = new Deadlines<GrantEntry>();

  /**
   * Adds what an answer granted, to a request sent at `sentAt`. Only the time of the request is
   * known, not that of the grant: if the answer is old, the guard is not confirmed until renewals
   * have said until when it is valid.
   */
  grant(
    now: number,
    sentAt: number,
    rhythm: Rhythm,
    opId: number,
    holdings: readonly Holding[],
  ): GuardEntry {
    const isStale = ({ grant }: Holding): boolean =>
      now - sentAt > toMs(grant.validFor) * STALE_AFTER;
    const add = (it: Holding): GrantEntry => this.#add(now, sentAt, rhythm, it, isStale(it));
    const grants = holdings.map(add);
    const guard: GuardEntry = {
      opId,
      holdings,
      grants,
      unconfirmed: new Set(grants.filter((_, index) => isStale(holdings[index] as Holding))),
      loss: undefined,
      isReleased: false,
    };
    grants.forEach((it) => it.guards.add(guard));
    if (guard.unconfirmed.size > 0) {
      this.#awaited.set(opId, guard);
    }
    return guard;
  }

  #add(
    now: number,
    sentAt: number,
    rhythm: Rhythm,
    holding: Holding,
    isStale: boolean,
  ): GrantEntry {
    const until = sentAt + toMs(holding.grant.validFor);
    let entry = this.find(holding);
    if (entry === undefined || entry.guards.size === 0) {
      // What is being released is not extended: it is a new grant, or one that ends as the old.
      if (entry !== undefined) {
        this.#remove(entry);
      }
      entry = {
        holding,
        keys: keysOf(holding),
        validUntil: isStale ? now + leaseOf(holding, rhythm) : until,
        isConfirmed: !isStale,
        renewAt: undefined,
        isRenewing: false,
        asked: undefined,
        guards: new Set(),
        due: 0,
        place: -1,
      };
      this.#entries.add(entry);
      for (const key of entry.keys) {
        this.#byKey.set(key, entry);
      }
    } else {
      const isNewer = tokenOf(holding) > tokenOf(entry.holding);
      entry.asked = tokenOf(entry.holding) === tokenOf(holding) ? entry.asked : undefined;
      entry.holding = holding;
      // Neither an assumption nor an older grant lends its end.
      const isLent = isStale || (entry.isConfirmed && !isNewer);
      entry.validUntil = isLent ? Math.max(entry.validUntil, until) : until;
      entry.isConfirmed ||= !isStale;
    }
    entry.renewAt = isStale ? now : renewAt(sentAt, holding, rhythm);
    return entry;
  }

  /** The entry of a grant in a message. */
  find(holding: Holding): GrantEntry | undefined {
    for (const key of keysOf(holding)) {
      const entry = this.#byKey.get(key);
      if (entry !== undefined) {
        return entry;
      }
    }
    return undefined;
  }

  /** The number of grants. */
  get size(): number {
    return this.#entries.size;
  }

  /** The guards whose callers have not got them yet. */
  allAwaited(): GuardEntry[] {
    return [...this.#awaited.values()];
  }

  /** The guard of an operation whose caller has not got it yet. */
  awaited(opId: number): GuardEntry | undefined {
    return this.#awaited.get(opId);
  }

  /** Everything that is held, to be named when the session is resumed. */
  named(): { grants: Grant[]; permits: PermitGrant[] } {
    const grants: Grant[] = [];
    const permits: PermitGrant[] = [];
    for (const { holding } of this.#entries) {
      if (holding.kind === "lock") {
        grants.push(holding.grant);
      } else {
        permits.push(holding.grant);
      }
    }
    return { grants, permits };
  }

  /**
   * Takes over the answer to a renewal, or to a resume, that was sent at `sentAt`. Returns the
   * guards that are confirmed by it.
   */
  renewed(now: number, sentAt: number, rhythm: Rhythm, holding: Holding): GuardEntry[] {
    const entry = this.find(holding);
    // The answer about an older grant of its owner says nothing about the newer one.
    if (entry === undefined || tokenOf(holding) < tokenOf(entry.holding)) {
      return [];
    }
    const until = sentAt + toMs(holding.grant.validFor);
    entry.holding = holding;
    entry.renewAt = renewAt(sentAt, holding, rhythm);
    if (until <= now) {
      return [];
    }
    entry.validUntil = entry.isConfirmed ? Math.max(entry.validUntil, until) : until;
    entry.isConfirmed = true;
    const confirmed = [...entry.guards].filter(
      (it) => it.unconfirmed.delete(entry) && it.unconfirmed.size === 0,
    );
    confirmed.forEach((it) => this.#awaited.delete(it.opId));
    return confirmed;
  }

  /** Removes a lost grant, and returns the guards that are lost by it. */
  lose(entry: GrantEntry, loss: Loss): GuardEntry[] {
    if (!this.#entries.has(entry)) {
      return [];
    }
    this.#remove(entry);
    const lost = [...entry.guards].filter((it) => it.loss === undefined);
    lost.forEach((it) => (it.loss = lostError(entry, loss)));
    return lost;
  }

  /** The session has ended: removes everything, and returns the guards that are lost by it. */
  loseAll(loss: Loss): GuardEntry[] {
    return [...this.#entries].flatMap((it) => this.lose(it, loss));
  }

  /**
   * Begins the release of a guard. Its loss is not reported from here on. Returns what is to be
   * released: not a lock of a lost guard that its owner holds anew, by a grant with a newer token,
   * because a release would take that.
   */
  release(guard: GuardEntry): Holding[] {
    guard.isReleased = true;
    this.#awaited.delete(guard.opId);
    for (const entry of guard.grants) {
      entry.guards.delete(guard);
      if (entry.guards.size === 0) {
        this.#deadlines.delete(entry);
      }
    }
    return guard.holdings.filter((_, index) => {
      return !this.#isHeldAnew(guard.grants[index] as GrantEntry);
    });
  }

  /**
   * Whether a lock was lost, and its owner has a newer grant. With the same token it is a further
   * hold of the grant, but of a reader that is unknown: the token is the last writer's.
   */
  #isHeldAnew(lost: GrantEntry): boolean {
    const current = this.find(lost.holding);
    if (current === undefined || current === lost) {
      return false;
    }
    return isRead(lost.holding) || tokenOf(current.holding) > tokenOf(lost.holding);
  }

  /** The release of a guard has ended. Until then a resume names what it held. */
  released(guard: GuardEntry): void {
    for (const entry of guard.grants) {
      if (entry.guards.size === 0) {
        this.#remove(entry);
      }
    }
  }

  /** The answers to renewals are lost. */
  streamEnded(): void {
    for (const entry of this.#entries) {
      entry.isRenewing = false;
    }
  }

  /** Everything that is held. */
  entries(): Iterable<GrantEntry> {
    return this.#entries;
  }

  /** Sets when a grant has to be looked at: it expires, or is to be renewed if that can be sent. */
  schedule(entry: GrantEntry, canSend: boolean): void {
    if (entry.guards.size > 0 && this.#entries.has(entry)) {
      const canRenew = canSend && !entry.isRenewing;
      const renewAt = canRenew ? (entry.renewAt ?? Infinity) : Infinity;
      this.#deadlines.set(entry, Math.min(renewAt, entry.validUntil));
    }
  }

  /** When the next grant has to be looked at. */
  next(): number | undefined {
    return this.#deadlines.next();
  }

  /** The next grant to look at now. */
  popDue(now: number): GrantEntry | undefined {
    return this.#deadlines.popDue(now);
  }

  #remove(entry: GrantEntry): void {
    this.#entries.delete(entry);
    this.#deadlines.delete(entry);
    for (const key of entry.keys) {
      if (this.#byKey.get(key) === entry) {
        this.#byKey.delete(key);
      }
    }
  }
}

/** The error that reports the loss of a grant. */
export function lostError({ holding }: GrantEntry, loss: Loss): LockLostError {
  const { reason, detail, validFor } = loss;
  return new LockLostError(holding.grant.name, reason, tokenOf(holding), detail, validFor);
}

/**
 * A little before the coordinator's watchdog, which counts from the last renewal of either side.
 * Only the answer to a request says until when a grant is valid, because only the age of a request
 * is known.
 */
function renewAt(sentAt: number, holding: Holding, rhythm: Rhythm): number | undefined {
  if (!holding.grant.watched) {
    return undefined;
  }
  const lease = leaseOf(holding, rhythm);
  return sentAt + (lease === rhythm.lease ? rhythm.renewInterval : (lease * 3) / 10);
}

function leaseOf({ grant }: Holding, { lease }: Rhythm): number {
  return grant.lease === undefined ? lease : toMs(grant.lease);
}
