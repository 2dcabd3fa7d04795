/** The thin I/O part of a session: it feeds the machine, and does what the machine asks for. */

import { randomUUID } from "node:crypto";

import { status } from "@grpc/grpc-js";
import type { ClientDuplexStream, StatusObject } from "@grpc/grpc-js";

import { Clock } from "./clock.js";
import { toError } from "./connector.js";
import type { Connector } from "./connector.js";
import type { Address } from "./address.js";
import { SessionEndedError } from "./errors.js";
import type { LockkeeperError } from "./errors.js";
import type { GrantEntry, GuardEntry } from "./machine/entries.js";
import type { Effect, Event, SessionChange, Waiting, YieldRequest } from "./machine/events.js";
import { SessionMachine } from "./machine/machine.js";
import type { SessionSettings } from "./machine/machine.js";
import type { Request, Response } from "./machine/messages.js";
import type { NewOperation } from "./machine/operation.js";
import { LONGEST, TIMER_MAX } from "./options.js";
import type { Logger } from "./options.js";
import type { LockServiceClient } from "./proto/lockkeeper/v1/lock_service.js";
import type { SessionRequest, SessionResponse } from "./proto/lockkeeper/v1/session.js";
import { traceparent } from "./telemetry.js";

/**
 * A timer does not run while the machine sleeps; the clock does. What is held is looked at this
 * often, so that its loss in that time is noticed soon.
 */
const CHECK_INTERVAL = 1_000;

/** What a session reports besides the ends of its operations. */
export interface SessionListener {
  onChange(change: SessionChange): void;
  onWaiting(waiting: Waiting): void;
  onYieldRequested(request: YieldRequest): void;
}

/** What a guard learns. */
export interface GuardListener {
  onLost(): void;
  onYieldRequested(request: YieldRequest): void;
}

/** How an operation is run. */
export interface RunOptions {
  readonly wait?: number | undefined;
  readonly patience?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly renews?: NewOperation["renews"];
}

/** What an operation ends with: what it acquired, or another answer. */
type Outcome = GuardEntry | Response;

/** The two ends of a promise. */
interface Settle<T> {
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
}

interface Stream {
  readonly number: number;
  client?: LockServiceClient;
  call?: ClientDuplexStream<SessionRequest, SessionResponse>;
  isCancelled: boolean;
}

/** One session. */
export class Session {
  readonly #clock = new Clock();
  readonly #machine: SessionMachine;
  readonly #callers = new Map<number, Settle<Outcome>>();
  readonly #releases = new Map<GuardEntry, Settle<undefined>>();
  readonly #guards = new Map<GuardEntry, GuardListener>();
  readonly #openers: Settle<undefined>[] = [];
  readonly #closers: Settle<undefined>[] = [];
  #state: "opening" | "open" | "ended" = "opening";
  #endedBy: LockkeeperError | undefined;
  readonly #events: Event[] = [];
  #isRunning = false;
  #stream: Stream | undefined;
  #timer: NodeJS.Timeout | undefined;
  #timerAt = Infinity;

  constructor(
    readonly connector: Connector,
    settings: Pick<SessionSettings, "lease" | "clientName" | "releaseOnDisconnect">,
    readonly logger: Logger,
    readonly listener: SessionListener,
  ) {
    this.#machine = new SessionMachine({
      ...settings,
      endpoints: connector.addresses.map((it) => it.text),
      random: Math.random,
      newRequestId: randomUUID,
    });
    this.#dispatch({ type: "open" });
  }

  /** Whether the session is over, although its end may not have been reported to everyone yet. */
  get isOver(): boolean {
    return this.#machine.isOver;
  }

  /** Waits until the session is open. Fails if it cannot be opened. */
  opened(): Promise<undefined> {
    return new Promise((resolve, reject) => {
      if (this.#state === "opening") {
        this.#openers.push({ resolve, reject });
      } else if (this.#state === "open") {
        resolve(undefined);
      } else {
        reject(this.#endedBy ?? new SessionEndedError("it was closed"));
      }
    });
  }

  /** Runs an operation to its end. It is started when this is called. */
  run(request: Request, options: RunOptions = {}): Promise<Outcome> {
    const { wait, patience, signal, renews } = options;
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const opId = this.#machine.nextId();
      const onAbort = (): void => {
        this.#callers.delete(opId);
        this.#dispatch({ type: "abandon", opId });
        reject(signal?.reason);
      };
      const settled = (): void => signal?.removeEventListener("abort", onAbort);
      this.#callers.set(opId, {
        resolve: (it) => {
          settled();
          resolve(it);
        },
        reject: (error) => {
          settled();
          reject(error);
        },
      });
      signal?.addEventListener("abort", onAbort, { once: true });
      const waitUntil = wait === undefined || wait > LONGEST ? undefined : this.#clock.now() + wait;
      const operation = { opId, request, waitUntil, patience, renews, traceparent: traceparent() };
      this.#dispatch({ type: "start", operation });
    });
  }

  /** Releases a guard, once. */
  release(guard: GuardEntry): Promise<undefined> {
    return new Promise((resolve, reject) => {
      this.#releases.set(guard, { resolve, reject });
      this.#dispatch({ type: "release", guard });
    });
  }

  /** Tells a guard what it has to know. At most one listener for each guard. */
  listen(guard: GuardEntry, listener: GuardListener): void {
    this.#guards.set(guard, listener);
  }

  /** Ends the session. Fails if no coordinator confirms that in time. */
  close(): Promise<undefined> {
    return new Promise((resolve, reject) => {
      if (this.#state === "ended") {
        resolve(undefined);
        return;
      }
      this.#closers.push({ resolve, reject });
      this.#dispatch({ type: "close" });
    });
  }

  /** The time by which grants are valid. */
  now(): number {
    return this.#clock.check();
  }

  /** Feeds the machine. An event that an effect leads to comes after the other effects. */
  #dispatch(event: Event): void {
    this.#events.push(event);
    if (this.#isRunning) {
      return;
    }
    this.#isRunning = true;
    try {
      for (let next = this.#events.shift(); next !== undefined; next = this.#events.shift()) {
        for (const effect of this.#machine.step(next, this.#clock.now())) {
          this.#perform(effect);
        }
      }
    } finally {
      this.#isRunning = false;
      this.#setTimer();
    }
  }

  #setTimer(): void {
    const wakeAt = this.#machine.wakeAt();
    if (wakeAt === undefined) {
      clearTimeout(this.#timer);
      this.#timerAt = Infinity;
      return;
    }
    const now = this.#clock.now();
    const at = Math.min(wakeAt, now + (this.#machine.holds ? CHECK_INTERVAL : TIMER_MAX));
    if (at >= this.#timerAt) {
      return; // The timer that is set comes first, and sets the next.
    }
    clearTimeout(this.#timer);
    this.#timerAt = at;
    this.#timer = setTimeout(
      () => {
        // Frames that have arrived while this process was busy come before the passing of time.
        setImmediate(() => {
          this.#timerAt = Infinity;
          this.#clock.check();
          this.#dispatch({ type: "tick" });
        });
      },
      Math.max(Math.ceil(at - now), 0),
    );
  }

  #perform(effect: Effect): void {
    switch (effect.type) {
      case "connect":
        void this.#connect(effect.stream, effect.endpoint, effect.first);
        return;
      case "cancel_stream":
        this.#cancelStream();
        return;
      case "send":
        this.#stream?.call?.write(effect.frame);
        if (effect.frame.request?.$case === "close") {
          // Some proxies pass on the coordinator's end of a stream when they have the client's.
          this.#stream?.call?.end();
        }
        return;
      case "opened":
        this.#state = "open";
        this.#openers.splice(0).forEach((it) => {
          it.resolve(undefined);
        });
        return;
      case "granted":
        this.#granted(effect.opId, effect.guard);
        return;
      case "answered":
        this.#take(effect.opId)?.resolve(effect.response);
        return;
      case "failed":
        this.#take(effect.opId)?.reject(effect.error);
        return;
      case "waiting":
        this.listener.onWaiting(effect.waiting);
        return;
      case "asked":
        this.#asked(effect.grant, effect.request);
        return;
      case "lost":
        this.#lost(effect.guard);
        return;
      case "released":
        this.#released(effect.guard, effect.error);
        return;
      case "state":
        this.#changed(effect.change);
        return;
      case "attempt_failed":
        this.logger.debug(`attempt to connect failed: ${effect.error.message}`);
        return;
      case "ended":
        this.#end(effect.error);
    }
  }

  #take(opId: number): Settle<Outcome> | undefined {
    const caller = this.#callers.get(opId);
    this.#callers.delete(opId);
    return caller;
  }

  #granted(opId: number, guard: GuardEntry): void {
    const caller = this.#take(opId);
    if (caller === undefined) {
      // The caller gave up while this was on its way from the machine.
      this.#dispatch({ type: "release", guard });
      return;
    }
    caller.resolve(guard);
  }

  #asked(grant: GrantEntry, request: YieldRequest): void {
    this.logger.info(`${request.name}: asked to yield: ${request.reason}`);
    grant.guards.forEach((it) => this.#guards.get(it)?.onYieldRequested(request));
    this.listener.onYieldRequested(request);
  }

  #lost(guard: GuardEntry): void {
    const listener = this.#guards.get(guard);
    this.#guards.delete(guard);
    listener?.onLost();
    this.logger.warn(String(guard.loss?.message));
  }

  #released(guard: GuardEntry, error: LockkeeperError | undefined): void {
    const caller = this.#releases.get(guard);
    this.#releases.delete(guard);
    this.#guards.delete(guard);
    if (error === undefined) {
      caller?.resolve(undefined);
    } else {
      caller?.reject(error);
    }
  }

  #changed(change: SessionChange): void {
    const cause = "cause" in change ? `: ${change.cause}` : "";
    const line = `session ${change.state.replace("_", " ")}${cause}`;
    if (change.state === "connected" || cause === ": it was closed") {
      this.logger.debug(line);
    } else {
      this.logger.warn(line);
    }
    this.listener.onChange(change);
  }

  #end(error: LockkeeperError | undefined): void {
    this.#state = "ended";
    this.#endedBy = error;
    this.#openers.splice(0).forEach((it) => {
      it.reject(error ?? new SessionEndedError("it was closed"));
    });
    this.#closers.splice(0).forEach((it) => {
      if (error === undefined) {
        it.resolve(undefined);
      } else {
        it.reject(error);
      }
    });
  }

  // --- the stream

  async #connect(number: number, endpoint: number, first: SessionRequest): Promise<void> {
    this.#cancelStream();
    const stream: Stream = { number, isCancelled: false };
    this.#stream = stream;
    const address = this.connector.addresses[endpoint] as Address;
    try {
      const headers = await this.connector.headers();
      if (!stream.isCancelled) {
        stream.client = this.connector.connect(address);
        stream.call = stream.client.session(headers);
        this.#read(stream, stream.call, address);
        stream.call.write(first);
      }
    } catch (error) {
      this.#streamEnded(stream, toError(error, address, false));
    }
  }

  #read(stream: Stream, call: NonNullable<Stream["call"]>, address: Address): void {
    const { number } = stream;
    call.on("data", (frame: SessionResponse) => {
      if (!stream.isCancelled) {
        this.#dispatch({ type: "frame", stream: number, frame });
      }
    });
    // The last frames may still be in the stream's buffer.
    call.on("status", ({ code }: StatusObject) => {
      if (code === status.OK) {
        setImmediate(() => {
          this.#streamEnded(stream, undefined);
        });
      }
    });
    call.on("error", (error) => {
      setImmediate(() => {
        this.#streamEnded(stream, toError(error, address, false));
      });
    });
  }

  #streamEnded(stream: Stream, error: LockkeeperError | undefined): void {
    if (!stream.isCancelled) {
      stream.isCancelled = true;
      stream.client?.close();
      const ended = { type: "stream_ended", stream: stream.number } as const;
      this.#dispatch(error === undefined ? ended : { ...ended, error });
    }
  }

  #cancelStream(): void {
    const stream = this.#stream;
    if (stream !== undefined && !stream.isCancelled) {
      stream.isCancelled = true;
      stream.call?.cancel();
      stream.client?.close();
    }
  }
}
