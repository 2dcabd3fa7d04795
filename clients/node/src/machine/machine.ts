/**
 * The session machine: a function of a state, an event and the time, which returns effects. It
 * has no sockets, timers or callbacks. `clients/session-machine.md` specifies it.
 */

import { RefusedError, SessionEndedError, UnreachableError } from "../errors.js";
import type { LockkeeperError } from "../errors.js";
import { OnDisconnect } from "../proto/lockkeeper/v1/session.js";
import type { SessionOpened, SessionResponse } from "../proto/lockkeeper/v1/session.js";
import { CLOSE_TIMEOUT } from "./events.js";
import type { Effect, Event, SessionChange } from "./events.js";
import { ofLock, ofPermits } from "./holding.js";
import { closed, frame, lostReason, toDuration, toMs } from "./messages.js";
import type { Request, Response } from "./messages.js";
import { StreamState } from "./stream.js";
import type { Rhythm, StreamDuty } from "./stream.js";
import { Work } from "./work.js";

/** What a session is opened with. */
export interface SessionSettings {
  /** The addresses of the coordinators, for people; at least one. */
  readonly endpoints: readonly string[];
  /** The lease in milliseconds; the coordinator's if unset. */
  readonly lease?: number | undefined;
  readonly clientName?: string | undefined;
  readonly releaseOnDisconnect?: boolean | undefined;
  /** Returns numbers from 0 to 1 that other clients do not get. */
  readonly random: () => number;
  /** Returns strings that no other operation uses. */
  readonly newRequestId: () => string;
}

/** The state of a session. */
export class SessionMachine {
  readonly #settings: SessionSettings;
  readonly #stream: StreamState;
  readonly #work: Work;
  #effects: Effect[] = [];
  /** When a session that is being closed ends at the latest. */
  #closeDeadline: number | undefined;
  /** The failure of the last attempt to open or resume. */
  #failure: LockkeeperError | undefined;
  /** Why the session is over. */
  #ended: LockkeeperError | undefined;
  #sessionId = "";
  #resumeToken: Buffer = Buffer.alloc(0);

  constructor(settings: SessionSettings) {
    this.#settings = settings;
    this.#stream = new StreamState(settings.endpoints, settings.random);
    const push = (effect: Effect): void => void this.#effects.push(effect);
    this.#work = new Work(this.#stream, push, settings.newRequestId);
  }

  /** An id for the next operation. */
  nextId(): number {
    return this.#work.nextId();
  }

  /** Whether the session is over. It is before anyone learns of that. */
  get isOver(): boolean {
    return this.#ended !== undefined;
  }

  /** Whether anything is held. */
  get holds(): boolean {
    return this.#work.holds;
  }

  /** When the next `tick` is due; undefined if nothing is. */
  wakeAt(): number | undefined {
    if (this.#ended !== undefined) {
      return undefined;
    }
    const own = Math.min(this.#closeDeadline ?? Infinity, this.#stream.next() ?? Infinity);
    const next = Math.min(own, this.#work.next());
    return next === Infinity ? undefined : next;
  }

  /** Takes an event at a time in milliseconds, and returns what has to be done, in this order. */
  step(event: Event, now: number): Effect[] {
    if (this.#ended === undefined) {
      this.#on(event, now);
      this.#meetDeadlines(now);
    } else {
      this.#afterEnd(event, this.#ended);
    }
    const effects = this.#effects;
    this.#effects = [];
    return effects;
  }

  #push(effect: Effect): void {
    this.#effects.push(effect);
  }

  #on(event: Event, now: number): void {
    switch (event.type) {
      case "open":
        this.#connect(now);
        return;
      case "frame":
        if (this.#stream.isCurrent(event.stream)) {
          this.#onFrame(event.frame, now);
        }
        return;
      case "stream_ended":
        if (this.#stream.isCurrent(event.stream)) {
          this.#onStreamEnded(event.error, now);
        }
        return;
      case "start":
        this.#work.start(event.operation, now);
        return;
      case "abandon":
        this.#work.abandon(event.opId, now);
        return;
      case "release": {
        const { guard } = event;
        if (guard.loss !== undefined) {
          this.#push({ type: "released", guard, error: guard.loss });
        }
        this.#work.release(guard, guard.loss !== undefined, now);
        return;
      }
      case "close":
        this.#close(now);
        return;
      case "tick":
        return;
    }
  }

  #afterEnd(event: Event, error: LockkeeperError): void {
    if (event.type === "start") {
      this.#push({ type: "failed", opId: event.operation.opId, error });
    } else if (event.type === "release") {
      const { guard } = event;
      this.#push({ type: "released", guard, error: guard.loss ?? error });
    }
  }

  #meetDeadlines(now: number): void {
    if (this.#ended === undefined) {
      this.#work.meetDeadlines(now);
    }
    if (this.#closeDeadline !== undefined && this.#closeDeadline <= now) {
      this.#end(new SessionEndedError("it was closed, and no coordinator confirmed that in time"));
    }
    for (let duty = this.#stream.due(now); duty !== undefined; duty = this.#stream.due(now)) {
      this.#perform(duty, now);
      this.#work.meetDeadlines(now); // The end of a stream ends waits whose limit has passed.
    }
  }

  #perform(duty: StreamDuty, now: number): void {
    switch (duty) {
      case "ping":
        this.#stream.pinged(now);
        this.#push({ type: "send", frame: frame(0, { $case: "ping", value: {} }) });
        return;
      case "silent":
        this.#leave("no answer to a ping", now);
        return;
      case "leave":
        this.#leave("the coordinator is stopping", now);
        return;
      case "connect":
        this.#connect(now);
        return;
      case "timed_out":
        this.#giveUp("the coordinator does not answer", now);
        return;
      case "expired": {
        const last = this.#failure === undefined ? "" : `; ${this.#failure.message}`;
        const why = `no coordinator could be reached for as long as the lease${last}`;
        this.#end(new SessionEndedError(why));
      }
    }
  }

  // --- the stream

  #connect(now: number): void {
    const request = this.#stream.isSession ? this.#resumeRequest() : this.#openRequest();
    this.#stream.connecting(now);
    const { stream, endpoint } = this.#stream;
    const place = endpoint % this.#settings.endpoints.length;
    this.#push({ type: "connect", stream, endpoint: place, first: frame(0, request) });
  }

  #openRequest(): Request {
    const { lease, clientName, releaseOnDisconnect } = this.#settings;
    const value = {
      lease: lease === undefined ? undefined : toDuration(lease),
      clientName: clientName ?? "",
      onDisconnect: releaseOnDisconnect === true ? OnDisconnect.RELEASE : OnDisconnect.KEEP,
      sendsPings: true,
      sendsClose: true,
    };
    return { $case: "open", value };
  }

  #resumeRequest(): Request {
    const value = {
      sessionId: this.#sessionId,
      resumeToken: this.#resumeToken,
      sendsPings: true,
      sendsClose: true,
      ...this.#work.named(),
    };
    return { $case: "resume", value };
  }

  #onOpened(opened: SessionOpened, now: number): void {
    const isResume = this.#stream.isSession;
    this.#sessionId = opened.sessionId;
    this.#resumeToken = opened.resumeToken;
    const sentAt = this.#stream.opened(now, rhythmOf(opened));
    this.#failure = undefined;
    if (!isResume) {
      this.#push({ type: "opened" });
    }
    this.#report({ state: "connected" });
    const held = [...opened.grants.map(ofLock), ...opened.permits.map(ofPermits)];
    this.#work.opened(held, sentAt, now);
    this.#sendClose();
  }

  #onStreamEnded(error: LockkeeperError | undefined, now: number): void {
    if (this.#stream.name === "opening") {
      if (error === undefined) {
        this.#giveUp("the coordinator ended the stream", now);
      } else {
        this.#attemptFailed(error, now);
      }
    } else if (error === undefined && this.#stream.isCloseSent) {
      this.#end(closed(), true);
    } else if (this.#stream.isLeaving) {
      this.#broke("the coordinator is stopping", now);
    } else {
      this.#broke(error ?? "the coordinator ended the stream", now);
      if (error instanceof RefusedError && error.reason === "MESSAGE_TOO_LARGE") {
        this.#work.limitRequests(Number(error.metadata["bytes_max"] ?? Infinity), now);
      }
    }
  }

  #leave(cause: string, now: number): void {
    this.#push({ type: "cancel_stream", stream: this.#stream.stream });
    this.#broke(cause, now);
  }

  #broke(why: LockkeeperError | string, now: number): void {
    this.#stream.broke(now, why);
    this.#work.streamEnded();
    const cause = typeof why === "string" ? why : why.message;
    this.#report({ state: "resuming", cause });
  }

  #giveUp(why: string, now: number): void {
    this.#push({ type: "cancel_stream", stream: this.#stream.stream });
    this.#attemptFailed(new UnreachableError(this.#stream.address, why), now);
  }

  #attemptFailed(error: LockkeeperError, now: number): void {
    this.#failure = error;
    this.#push({ type: "attempt_failed", error });
    if (!this.#stream.attemptFailed(now, error)) {
      return;
    }
    if (this.#closeDeadline !== undefined) {
      // No coordinator knows the session: an earlier `close` has arrived.
      this.#end(closed(), true);
    } else {
      this.#end(this.#stream.isSession ? new SessionEndedError(error.message) : error);
    }
  }

  #report(change: SessionChange): void {
    this.#push({ type: "state", change });
  }

  #onFrame({ opId, response }: SessionResponse, now: number): void {
    if (this.#stream.name === "opening") {
      if (response?.$case === "opened") {
        this.#onOpened(response.value, now);
      } else {
        this.#giveUp("the coordinator did not say that the session is open", now);
      }
      return;
    }
    this.#stream.heard(now);
    if (response !== undefined) {
      this.#onResponse(Number(opId), response, now);
    }
  }

  #onResponse(opId: number, response: Response, now: number): void {
    switch (response.$case) {
      case "lost": {
        const { grant, reason, detail } = response.value;
        const validFor = toMs(response.value.validFor);
        const loss = { reason: lostReason(reason), detail, validFor };
        this.#work.onLost(grant && ofLock(grant), loss, now);
        return;
      }
      case "permitsLost": {
        const { grant, reason } = response.value;
        const loss = { reason: lostReason(reason), detail: "" };
        this.#work.onLost(grant && ofPermits(grant), loss, now);
        return;
      }
      case "yieldRequested":
        this.#work.onAsked(response.value, now);
        return;
      case "atRisk":
        this.#report({ state: "at_risk", validFor: toMs(response.value.validFor) });
        return;
      case "recovered":
        this.#report({ state: "connected" });
        return;
      case "goingAway":
        this.#stream.goingAway(now);
        return;
      case "opened":
        this.#resumeToken = response.value.resumeToken;
        return;
      default:
        this.#work.onAnswer(opId, response, now);
    }
  }

  // --- the end

  #close(now: number): void {
    if (this.#closeDeadline !== undefined) {
      return;
    }
    this.#work.close();
    if (this.#stream.isSession) {
      this.#closeDeadline = now + CLOSE_TIMEOUT;
      this.#sendClose();
    } else {
      this.#end(closed(), true);
    }
  }

  #sendClose(): void {
    if (this.#closeDeadline !== undefined && this.#stream.canSend) {
      this.#stream.closeSent();
      this.#push({ type: "send", frame: frame(0, { $case: "close", value: {} }) });
    }
  }

  /** The session is over. `isConfirmed`: the user closed it, and nothing is held any more. */
  #end(error: LockkeeperError, isConfirmed = false): void {
    if (this.#ended !== undefined) {
      return;
    }
    this.#ended = error;
    if (this.#stream.isCurrent(this.#stream.stream)) {
      this.#push({ type: "cancel_stream", stream: this.#stream.stream });
    }
    this.#stream.end();
    const cause = error instanceof SessionEndedError ? error.detail : error.message;
    this.#work.end(error, cause);
    if (this.#stream.isSession) {
      this.#report({ state: "ended", cause });
    }
    this.#push({ type: "ended", ...(isConfirmed ? {} : { error }) });
  }
}

function rhythmOf(opened: SessionOpened): Rhythm {
  const lease = toMs(opened.lease);
  const renewInterval = toMs(opened.renewInterval);
  const pingInterval = toMs(opened.pingInterval);
  return {
    lease,
    renewInterval: renewInterval > 0 ? renewInterval : (lease * 3) / 10,
    pingInterval: pingInterval > 0 ? pingInterval : undefined,
  };
}
