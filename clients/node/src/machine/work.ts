/** The operations and the grants of a session, and what answers and time do to them. */

import type { LockkeeperError, RefusedError } from "../errors.js";
import type { Grant } from "../proto/lockkeeper/v1/types.js";
import type { PermitGrant } from "../proto/lockkeeper/v1/semaphore.js";
import type { YieldRequested } from "../proto/lockkeeper/v1/session.js";
import { refusedBy } from "../status.js";
import { answerOf, waitingOf } from "./answer.js";
import type { Answer } from "./answer.js";
import type { GrantEntry, GuardEntry } from "./entries.js";
import { OPEN_TIMEOUT, REQUEST_BYTES_MAX, RETRY_PAUSE } from "./events.js";
import type { Effect } from "./events.js";
import { GrantTable, lostError } from "./grant_table.js";
import type { Loss } from "./grant_table.js";
import { lockKey, ofLock, releaseOf, renewalOf, tokenOf } from "./holding.js";
import type { Holding } from "./holding.js";
import { closed, frame, toMs } from "./messages.js";
import type { Request, Response } from "./messages.js";
import { acquires, asks, frameOf, nameOf, operation, tooLarge, waits } from "./operation.js";
import type { NewOperation, Operation, Purpose } from "./operation.js";
import { OperationTable } from "./operation_table.js";
import type { StreamState } from "./stream.js";

/** Where effects go. */
export type Push = (effect: Effect) => void;

/** Operations without an answer, and grants. */
export class Work {
  readonly #grants = new GrantTable();
  readonly #operations: OperationTable;
  /** Whether the user has closed the session. */
  #isClosing = false;
  /** The largest request that is sent. */
  #bytesMax = REQUEST_BYTES_MAX;
  #lastId = 0;

  constructor(
    readonly stream: StreamState,
    readonly push: Push,
    readonly newRequestId: () => string,
  ) {
    this.#operations = new OperationTable(stream.random, newRequestId);
  }

  nextId(): number {
    this.#lastId += 1;
    return this.#lastId;
  }

  /** Whether anything is held. */
  get holds(): boolean {
    return this.#grants.size > 0;
  }

  /** When something is due. */
  next(): number {
    return Math.min(this.#grants.next() ?? Infinity, this.#operations.next() ?? Infinity);
  }

  /** Does what is due. */
  meetDeadlines(now: number): void {
    for (let it = this.#grants.popDue(now); it; it = this.#grants.popDue(now)) {
      this.#check(it, now);
    }
    for (let it = this.#operations.popDue(now); it; it = this.#operations.popDue(now)) {
      if (this.stream.name === "up") {
        this.#send(it, now);
      } else {
        this.#endWait(it, now);
      }
    }
  }

  /** The limit of a wait has passed without a stream: it ends as if its caller gave up. */
  #endWait({ opId }: Operation, now: number): void {
    this.push({ type: "failed", opId, error: this.stream.fault });
    this.abandon(opId, now);
  }

  // --- operations

  /** Starts an operation of a caller: sends it now, or when there is a stream. */
  start(start: NewOperation, now: number): void {
    if (this.#isClosing) {
      this.push({ type: "failed", opId: start.opId, error: closed() });
      return;
    }
    const { renews, request } = start;
    // What waits for no holder does not wait for long while nothing answers, either.
    const isShort = (acquires(request) && !waits(request)) || asks(request);
    const limit = now + Math.max(OPEN_TIMEOUT, start.patience ?? 0);
    const waitUntil = start.waitUntil ?? (isShort && this.stream.isSession ? limit : undefined);
    const purpose: Purpose = renews ? { kind: "caller", renews } : { kind: "caller" };
    const added = this.#create({ ...start, waitUntil }, purpose);
    const error = tooLarge(added, this.#bytesMax, now);
    if (error !== undefined) {
      this.push({ type: "failed", opId: start.opId, error });
      return;
    }
    this.#add(added, now);
    if (this.stream.name !== "up") {
      // A limit of 0 means to try, for which a new session is opened first.
      this.#operations.limitWait(added, this.stream.isSession ? undefined : now);
    }
  }

  #start(request: Request, purpose: Purpose, now: number): void {
    this.#add(this.#create({ opId: this.nextId(), request }, purpose), now);
  }

  #create(start: NewOperation, purpose: Purpose): Operation {
    const hasId = "requestId" in start.request.value;
    return operation(start, purpose, hasId ? this.newRequestId() : "");
  }

  #add(it: Operation, now: number): void {
    this.#operations.add(it);
    this.#send(it, now);
  }

  #send(it: Operation, now: number): void {
    if (!this.stream.canSend) {
      return;
    }
    this.#operations.sent(it, now);
    this.push({ type: "send", frame: frameOf(it, now) });
    if (it.isAbandoned && waits(it.request)) {
      this.#cancel(it);
    }
  }

  #cancel({ opId }: Operation): void {
    this.push({ type: "send", frame: frame(opId, { $case: "cancel", value: {} }) });
  }

  /** The caller no longer waits. What is granted nevertheless is released. */
  abandon(opId: number, now: number): void {
    const guard = this.#grants.awaited(opId);
    if (guard !== undefined) {
      this.release(guard, true, now);
      return;
    }
    const it = this.#operations.get(opId);
    if (it === undefined) {
      return;
    }
    it.isAbandoned = true;
    if (it.sentAt === undefined && !it.isUncertain) {
      this.#operations.take(opId);
    } else if (it.sentAt !== undefined && waits(it.request) && this.stream.canSend) {
      this.#cancel(it);
    }
  }

  /** The coordinator has ended the stream because of a larger request, which would end the next. */
  limitRequests(bytesMax: number, now: number): void {
    this.#bytesMax = Math.min(bytesMax, this.#bytesMax);
    for (const it of this.#operations.all()) {
      const error = tooLarge(it, this.#bytesMax, now);
      if (error !== undefined) {
        this.#operations.take(it.opId);
        this.#fail(it, error);
      }
    }
  }

  /** The answers to what was sent will not come. */
  streamEnded(): void {
    this.#operations.streamEnded();
    this.#grants.streamEnded();
  }

  /** What a resume has to name. */
  named(): { grants: Grant[]; permits: PermitGrant[] } {
    const { grants, permits } = this.#grants.named();
    grants.push(...this.#operations.possiblyHeld((it) => this.#isNew(it)));
    return { grants, permits };
  }

  #isNew(grant: Grant): boolean {
    return this.#grants.find(ofLock(grant)) === undefined;
  }

  /** The session was opened, or resumed with these holdings: sends what has no answer. */
  opened(held: readonly Holding[], sentAt: number, now: number): void {
    const keys = held.flatMap((it) => (it.kind === "lock" ? [lockKey(it.grant)] : []));
    const partial = this.#operations.resumed(new Set(keys), (it) => this.#isNew(it));
    this.#renewed(held, sentAt, now);
    if (this.#isClosing) {
      return;
    }
    for (const grant of partial) {
      this.#start(releaseOf([ofLock(grant)]), { kind: "cleanup" }, now);
    }
    for (const it of this.#operations.all()) {
      if (it.sentAt === undefined) {
        this.#send(it, now);
      }
    }
    for (const entry of this.#grants.entries()) {
      this.#grants.schedule(entry, this.stream.canSend);
    }
  }

  /** An answer, or the state of a wait. */
  onAnswer(opId: number, response: Response, now: number): void {
    const it = this.#operations.get(opId);
    // An answer to what was not sent on this stream is a repeat.
    if (it?.sentAt === undefined) {
      return;
    }
    const waiting = waitingOf(response, nameOf(it.request));
    if (waiting !== undefined) {
      if (!it.isAbandoned) {
        this.push({ type: "waiting", waiting });
      }
      return;
    }
    this.stream.progressed();
    if (response.$case === "failed") {
      this.#onFailed(it, refusedBy(response.value), now);
    } else {
      this.#operations.take(opId);
      this.#onSuccess(it, it.sentAt, response, answerOf(response), now);
    }
  }

  #onSuccess(it: Operation, sentAt: number, response: Response, answer: Answer, now: number): void {
    if (answer.kind === "renewed") {
      this.#renewed(answer.holdings, sentAt, now);
    }
    if (it.purpose.kind === "renewal") {
      it.purpose.renews.isRenewing = false;
      this.#grants.schedule(it.purpose.renews, this.stream.canSend);
    } else if (it.purpose.kind === "release") {
      this.#released(it.purpose, undefined);
    } else if (answer.kind === "granted") {
      this.#granted(it, sentAt, answer.holdings, now);
    } else if (answer.kind === "not_granted") {
      // The end of the session ends its waits.
      this.#fail(it, this.#isClosing ? closed() : answer.of(nameOf(it.request)));
    } else if (it.purpose.kind === "caller" && !it.isAbandoned) {
      this.push({ type: "answered", opId: it.opId, response });
    }
  }

  #fail({ opId, purpose, isAbandoned }: Operation, error: LockkeeperError): void {
    if (purpose.kind === "release") {
      this.#released(purpose, error);
    } else if (purpose.kind === "caller" && !isAbandoned) {
      this.push({ type: "failed", opId, error });
    }
  }

  #onFailed(it: Operation, failure: RefusedError, now: number): void {
    const { purpose } = it;
    if (this.#isClosing && purpose.kind === "caller") {
      this.#operations.take(it.opId);
      this.#fail(it, closed());
      return;
    }
    const next = this.#operations.failed(it, failure, now, this.stream.rhythm.lease);
    if (next !== "over") {
      if (next === "send_again") {
        this.#send(it, now);
      } else if (!it.isAbandoned && (it.waitUntil ?? Infinity) <= now) {
        this.push({ type: "failed", opId: it.opId, error: failure });
        this.abandon(it.opId, now);
      }
      return;
    }
    this.#operations.take(it.opId);
    const renews = "renews" in purpose ? purpose.renews : undefined;
    // The renewal of an older grant says nothing about a newer one of the same owner.
    const isOlder = renews !== undefined && it.token < tokenOf(renews.holding);
    if (renews !== undefined && failure.reason === "NOT_OWNER" && !isOlder) {
      const isTaken = failure.metadata["state"] === "held_by_another";
      const loss: Loss = { reason: isTaken ? "TAKEN_OVER" : "EXPIRED", detail: "" };
      this.#fail(it, lostError(renews, loss));
      this.#lose(renews, loss, now);
    } else if (purpose.kind === "renewal") {
      // Only time decides: neither a store that is down nor a refusal has taken the grant.
      purpose.renews.isRenewing = false;
      purpose.renews.renewAt = now + Math.min(RETRY_PAUSE, this.stream.rhythm.lease / 6);
      this.#grants.schedule(purpose.renews, this.stream.canSend);
    } else {
      this.#fail(it, failure);
    }
  }

  // --- grants

  #granted(it: Operation, sentAt: number, holdings: Holding[], now: number): void {
    if (it.isAbandoned) {
      this.#start(releaseOf(holdings), { kind: "late_release" }, now);
      return;
    }
    const guard = this.#grants.grant(now, sentAt, this.stream.rhythm, it.opId, holdings);
    for (const entry of guard.grants) {
      this.#grants.schedule(entry, this.stream.canSend);
    }
    if (guard.unconfirmed.size === 0) {
      this.push({ type: "granted", opId: it.opId, guard });
    }
  }

  #renewed(holdings: readonly Holding[], sentAt: number, now: number): void {
    for (const holding of holdings) {
      for (const guard of this.#grants.renewed(now, sentAt, this.stream.rhythm, holding)) {
        this.push({ type: "granted", opId: guard.opId, guard });
      }
      const entry = this.#grants.find(holding);
      if (entry !== undefined) {
        this.#grants.schedule(entry, this.stream.canSend);
      }
    }
  }

  /** Renews a grant if that is due, or reports that it has expired. */
  #check(entry: GrantEntry, now: number): void {
    if (entry.validUntil <= now) {
      this.#lose(entry, { reason: "EXPIRED", detail: "" }, now);
      return;
    }
    const isDue = entry.renewAt !== undefined && entry.renewAt <= now;
    if (isDue && !entry.isRenewing && this.stream.canSend) {
      entry.isRenewing = true;
      this.#start(renewalOf(entry.holding), { kind: "renewal", renews: entry }, now);
    }
    this.#grants.schedule(entry, this.stream.canSend);
  }

  /** The coordinator says that a grant is lost. */
  onLost(gone: Holding | undefined, loss: Loss, now: number): void {
    const entry = gone && this.#grants.find(gone);
    // Without guards it is being released. A lower token is that of an older grant.
    if (entry && entry.guards.size > 0 && tokenOf(gone) >= tokenOf(entry.holding)) {
      const validFor = Math.max(0, Math.min(loss.validFor ?? 0, entry.validUntil - now));
      this.#lose(entry, { ...loss, validFor }, now);
    }
  }

  /** Another caller asks for a grant. */
  onAsked(asked: YieldRequested, now: number): void {
    const holding = asked.grant && ofLock(asked.grant);
    const grant = holding && this.#grants.find(holding);
    if (grant && grant.guards.size > 0 && tokenOf(holding) === tokenOf(grant.holding)) {
      const { by, reason, preempt: preempts } = asked;
      const within = toMs(asked.within);
      const request = { name: grant.holding.grant.name, by, reason, within, preempts };
      grant.asked = { request, until: now + within };
      this.push({ type: "asked", grant, request });
    }
  }

  #lose(entry: GrantEntry, loss: Loss, now: number): void {
    for (const guard of this.#grants.lose(entry, loss)) {
      if (guard.unconfirmed.size === 0) {
        this.push({ type: "lost", guard });
      } else {
        this.push({ type: "failed", opId: guard.opId, error: lostError(entry, loss) });
        // Of several locks the others are still held.
        this.release(guard, true, now);
      }
    }
  }

  /** Releases a guard, even a lost one: a coordinator that was not reachable may still hold it. */
  release(guard: GuardEntry, isReported: boolean, now: number): void {
    if (!guard.isReleased) {
      const left = this.#grants.release(guard);
      if (left.length > 0) {
        this.#start(releaseOf(left), { kind: "release", guard, isReported }, now);
      }
    }
  }

  #released(
    { guard, isReported }: Extract<Purpose, { kind: "release" }>,
    error: LockkeeperError | undefined,
  ): void {
    this.#grants.released(guard);
    if (!isReported) {
      this.push({ type: "released", guard, ...(error && { error }) });
    }
  }

  // --- the end

  /** The user closes the session: no operation acquires anything from here on. */
  close(): void {
    this.#isClosing = true;
    for (const it of this.#operations.all()) {
      if (acquires(it.request) || waits(it.request)) {
        this.#fail(it, closed());
        it.isAbandoned = true;
      }
    }
    for (const guard of this.#grants.allAwaited()) {
      this.push({ type: "failed", opId: guard.opId, error: closed() });
      this.#grants.release(guard);
    }
  }

  /** The session is over: everything is lost, and no operation will be answered. */
  end(error: LockkeeperError, detail: string): void {
    for (const guard of this.#grants.loseAll({ reason: "UNSPECIFIED", detail })) {
      if (guard.unconfirmed.size === 0) {
        this.push({ type: "lost", guard });
      } else {
        this.push({ type: "failed", opId: guard.opId, error });
      }
    }
    for (const it of this.#operations.all()) {
      this.#operations.take(it.opId);
      this.#fail(it, error);
    }
  }
}
