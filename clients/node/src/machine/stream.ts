/** The stream of a session: where it is open, how long it may be silent, and when to try again. */

import type { LockkeeperError } from "../errors.js";
import { MisconfiguredError, RefusedError, UnreachableError } from "../errors.js";
import {
  BACKOFF_MAX,
  BACKOFF_MIN,
  FIRST_PAUSE,
  LEAVE_TIMEOUT,
  OPEN_TIMEOUT,
  RESUME_TIMEOUT,
} from "./events.js";

/** The times that the coordinator has set, in milliseconds. */
export interface Rhythm {
  /** The lease of grants whose request sets none. */
  readonly lease: number;
  /** The age of the last renewal before the next, of grants with that lease. */
  readonly renewInterval: number;
  /** The silence before a ping, and after it; undefined if pings are not answered. */
  readonly pingInterval: number | undefined;
}

/** Failed attempts in a row, and how many of the last ones were refusals. */
interface Failures {
  readonly count: number;
  readonly refused: number;
}

type State =
  | { readonly name: "new" }
  | {
      readonly name: "up";
      lastFrameAt: number;
      pingedAt?: number;
      leaveAt?: number;
      isCloseSent: boolean;
    }
  | { readonly name: "down"; readonly retryAt: number; readonly failures: Failures }
  | {
      readonly name: "opening";
      readonly sentAt: number;
      readonly giveUpAt: number;
      readonly failures: Failures;
    }
  | { readonly name: "ended" };

/** What the passing of time asks for. */
export type StreamDuty = "ping" | "leave" | "silent" | "connect" | "timed_out" | "expired";

const NO_FAILURES: Failures = { count: 0, refused: 0 };

/** INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION, UNIMPLEMENTED: it will not accept it ever. */
const REFUSALS = new Set([3, 5, 9, 12]);
/** PERMISSION_DENIED, UNAUTHENTICATED: credentials may be replaced while a session lives. */
const DENIALS = new Set([7, 16]);

/** The state of the stream. */
export class StreamState {
  /** The number of the stream, which the I/O part repeats. */
  stream = 0;
  /** The endpoint in use, or the next to try. */
  endpoint = 0;
  /** The session ends if it is not resumed before. */
  resumeDeadline: number | undefined;
  /** The times that the coordinator has set; unknown before the session is open. */
  rhythm: Rhythm = { lease: 0, renewInterval: 0, pingInterval: undefined };
  #state: State = { name: "new" };
  /** Whether the session was open once. */
  #isSession = false;
  /** When the last stream was opened. */
  #openedAt = 0;
  /** Streams that have ended since the last progress: an answer, or a stream that lasted. */
  #fruitless = 0;
  /** Why the last attempt failed, or the stream broke. */
  #fault: UnreachableError | undefined;

  constructor(
    readonly endpoints: readonly string[],
    readonly random: () => number,
  ) {}

  get name(): State["name"] {
    return this.#state.name;
  }

  /** Whether events of a stream still matter: it is open or opening. */
  isCurrent(stream: number): boolean {
    const { name } = this.#state;
    return stream === this.stream && (name === "up" || name === "opening");
  }

  /** Whether frames can be sent. A coordinator that goes away gets no new ones. */
  get canSend(): boolean {
    const state = this.#state;
    return state.name === "up" && state.leaveAt === undefined && !state.isCloseSent;
  }

  /** Whether `close` was sent on this stream. */
  get isCloseSent(): boolean {
    return this.#state.name === "up" && this.#state.isCloseSent;
  }

  /** The address of the endpoint in use. */
  get address(): string {
    return this.endpoints[this.endpoint % this.endpoints.length] as string;
  }

  /** Whether the session was open once. */
  get isSession(): boolean {
    return this.#isSession;
  }

  /** Why there is no stream. */
  get fault(): UnreachableError {
    return this.#fault ?? new UnreachableError(this.address, "it has not answered yet");
  }

  #failed(why: LockkeeperError | string): void {
    const isKnown = why instanceof UnreachableError;
    const problem = typeof why === "string" ? why : why.message;
    this.#fault = isKnown ? why : new UnreachableError(this.address, problem);
  }

  /** When something may be due. */
  next(): number | undefined {
    const state = this.#state;
    const deadline = this.resumeDeadline ?? Infinity;
    switch (state.name) {
      case "up":
        return state.leaveAt ?? this.#silentAt(state.lastFrameAt, state.pingedAt);
      case "down":
        return Math.min(state.retryAt, deadline);
      case "opening":
        return Math.min(state.giveUpAt, deadline);
      default:
        return undefined;
    }
  }

  #silentAt(lastFrameAt: number, pingedAt: number | undefined): number {
    // No ping comes after `close`, which is the last frame.
    const interval = this.canSend ? this.rhythm.pingInterval : undefined;
    return (pingedAt ?? lastFrameAt) + (interval ?? Infinity);
  }

  /** What is due now. */
  due(now: number): StreamDuty | undefined {
    const state = this.#state;
    if (this.resumeDeadline !== undefined && this.resumeDeadline <= now) {
      return "expired";
    }
    switch (state.name) {
      case "up":
        if (state.leaveAt !== undefined) {
          return state.leaveAt <= now ? "leave" : undefined;
        }
        if (this.#silentAt(state.lastFrameAt, state.pingedAt) > now) {
          return undefined;
        }
        return state.pingedAt === undefined ? "ping" : "silent";
      case "down":
        return state.retryAt <= now ? "connect" : undefined;
      case "opening":
        return state.giveUpAt <= now ? "timed_out" : undefined;
      default:
        return undefined;
    }
  }

  /** Begins an attempt to open or to resume. */
  connecting(now: number): void {
    const failures = this.#state.name === "down" ? this.#state.failures : NO_FAILURES;
    const limit = this.#isSession ? this.#resumeTimeout(failures) : OPEN_TIMEOUT;
    this.stream += 1;
    this.#state = { name: "opening", sentAt: now, giveUpAt: now + limit, failures };
  }

  #resumeTimeout({ count }: Failures): number {
    const { lease } = this.rhythm;
    const round = Math.floor(count / this.endpoints.length);
    return Math.min(Math.min(RESUME_TIMEOUT, lease / 6) * 2 ** round, lease / 2);
  }

  /** The coordinator has accepted the session. Returns when the attempt began. */
  opened(now: number, rhythm: Rhythm): number {
    const sentAt = this.#state.name === "opening" ? this.#state.sentAt : now;
    this.#state = { name: "up", lastFrameAt: now, isCloseSent: false };
    this.rhythm = rhythm;
    this.#isSession = true;
    this.#openedAt = now;
    this.resumeDeadline = undefined;
    return sentAt;
  }

  /** A frame has arrived. */
  heard(now: number): void {
    if (this.#state.name === "up") {
      this.#state.lastFrameAt = now;
      delete this.#state.pingedAt;
    }
  }

  /** An operation was answered. */
  progressed(): void {
    this.#fruitless = 0;
  }

  /** A ping was sent. */
  pinged(now: number): void {
    if (this.#state.name === "up") {
      this.#state.pingedAt = now;
    }
  }

  /** The coordinator goes away; its last answers come before the end of the stream. */
  goingAway(now: number): void {
    if (this.#state.name === "up") {
      this.#state.leaveAt ??= now + LEAVE_TIMEOUT;
    }
  }

  /** `close` was sent. */
  closeSent(): void {
    if (this.#state.name === "up") {
      this.#state.isCloseSent = true;
    }
  }

  /** Whether the coordinator goes away. */
  get isLeaving(): boolean {
    return this.#state.name === "up" && this.#state.leaveAt !== undefined;
  }

  /** The open stream has ended: the next endpoint is tried after a pause that spreads clients, and
   *  grows if streams end again and again without progress. */
  broke(now: number, why: LockkeeperError | string): void {
    this.#failed(why);
    this.resumeDeadline ??= now + this.rhythm.lease;
    this.endpoint += 1;
    this.#fruitless = now >= this.#openedAt + BACKOFF_MAX ? 1 : this.#fruitless + 1;
    const first = FIRST_PAUSE * this.random();
    const next = Math.min(this.#backoff(this.#fruitless - 1), this.rhythm.lease / 6);
    const retryAt = now + (this.#fruitless === 1 ? first : next);
    this.#state = { name: "down", retryAt, failures: NO_FAILURES };
  }

  /** An attempt has failed. Returns whether that is final. */
  attemptFailed(now: number, error: LockkeeperError): boolean {
    this.#failed(error);
    const before = this.#state.name === "opening" ? this.#state.failures : NO_FAILURES;
    // Only a coordinator gives a reason: a proxy without a route answers UNIMPLEMENTED, too.
    const isCoordinators = error instanceof RefusedError && error.reason !== undefined;
    const failures = {
      count: before.count + 1,
      refused: isCoordinators && REFUSALS.has(error.code) ? before.refused + 1 : 0,
    };
    const endpoints = this.endpoints.length;
    // To open a new session, each endpoint is tried once.
    const isLast = isFinal(error) || failures.count >= endpoints;
    if (this.#isSession ? failures.refused >= endpoints : isLast) {
      this.#state = { name: "ended" };
      return true;
    }
    this.endpoint += 1;
    const round = Math.floor(failures.count / endpoints);
    const isRoundOver = failures.count % endpoints === 0;
    const retryAt = now + (isRoundOver ? this.#backoff(round) : 0);
    this.#state = { name: "down", retryAt, failures };
    return false;
  }

  #backoff(round: number): number {
    const pause = Math.min(BACKOFF_MIN * 2 ** (round - 1), BACKOFF_MAX);
    return pause * (0.5 + this.random() / 2);
  }

  /** The session is over. */
  end(): void {
    this.#state = { name: "ended" };
    this.resumeDeadline = undefined;
  }
}

/** Whether the same request would fail again. */
export function isFinal(error: LockkeeperError): boolean {
  const code = error instanceof RefusedError ? error.code : 0;
  return REFUSALS.has(code) || DENIALS.has(code) || error instanceof MisconfiguredError;
}
