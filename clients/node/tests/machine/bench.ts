/** Drives a machine by events at stated times, and keeps what it asks for. */

import assert from "node:assert/strict";

import type { LockkeeperError } from "../../src/errors.js";
import { RefusedError } from "../../src/errors.js";
import type { GuardEntry } from "../../src/machine/entries.js";
import type { Effect, Event } from "../../src/machine/events.js";
import { SessionMachine } from "../../src/machine/machine.js";
import { toDuration } from "../../src/machine/messages.js";
import type { Request, Response } from "../../src/machine/messages.js";
import type { NewOperation } from "../../src/machine/operation.js";
import { lockRequest, locksRequest, permitsRequest } from "../../src/requests.js";
import type { AcquireOptions, LockOptions } from "../../src/options.js";
import { SessionOpened, SessionRequest } from "../../src/proto/lockkeeper/v1/session.js";
import { PermitGrant } from "../../src/proto/lockkeeper/v1/semaphore.js";
import type { LostReason } from "../../src/proto/lockkeeper/v1/types.js";
import { Grant, LockMode } from "../../src/proto/lockkeeper/v1/types.js";

export const LEASE = 30_000;
export const PING = 5_000;
export const RENEW = 9_000;

/** A machine with its time. */
export class Bench {
  now = 1_000;
  effects: Effect[] = [];
  stream = 0;
  /** What `random` returns. */
  random = 0.5;
  readonly machine: SessionMachine;
  #ids = 0;

  constructor(endpoints: string[] = ["http://one"], lease?: number) {
    this.machine = new SessionMachine({
      endpoints,
      lease,
      clientName: "bench",
      random: () => this.random,
      newRequestId: () => `id-${String((this.#ids += 1))}`,
    });
  }

  /** Feeds an event, and returns its effects. */
  step(event: Event): Effect[] {
    const effects = this.machine.step(event, this.now);
    for (const effect of effects) {
      if (effect.type === "connect") {
        this.stream = effect.stream;
      }
    }
    this.effects.push(...effects);
    return effects;
  }

  /** Lets time pass in one step. */
  pass(ms: number): Effect[] {
    this.now += ms;
    return this.step({ type: "tick" });
  }

  /** Wakes the machine whenever it asks for it, until a time from now has passed. */
  run(ms: number): Effect[] {
    const [end, effects] = [this.now + ms, [] as Effect[]];
    for (let at = this.machine.wakeAt(); at !== undefined && at <= end; ) {
      this.now = Math.max(at, this.now);
      effects.push(...this.step({ type: "tick" }));
      const next = this.machine.wakeAt();
      assert.ok(next === undefined || next > at, "the machine asks for the same time again");
      at = next;
    }
    this.now = end;
    return effects;
  }

  frame(response: Response, opId: number | bigint = 0): Effect[] {
    return this.step({
      type: "frame",
      stream: this.stream,
      frame: { opId: BigInt(opId), response },
    });
  }

  ends(error?: LockkeeperError): Effect[] {
    return this.step({ type: "stream_ended", stream: this.stream, ...(error && { error }) });
  }

  /** Opens the session, or confirms that it is resumed. */
  opened(fields: Partial<SessionOpened> = {}): Effect[] {
    return this.frame({ $case: "opened", value: opened(fields) });
  }

  /** A bench with an open session. */
  static up(endpoints?: string[]): Bench {
    const bench = new Bench(endpoints);
    bench.step({ type: "open" });
    bench.opened();
    return bench;
  }

  start(request: Request, options: Partial<NewOperation> = {}): { opId: number; sent: Effect[] } {
    const opId = this.machine.nextId();
    return { opId, sent: this.step({ type: "start", operation: { opId, request, ...options } }) };
  }

  lock(name = "a", options: LockOptions = {}): number {
    const { wait } = options;
    const waitUntil = wait === undefined ? undefined : this.now + wait;
    return this.start(lockRequest("wait", name, options, "me"), { waitUntil }).opId;
  }

  /** Acquires a lock and returns its guard. */
  held(name = "a", fields: Partial<Grant> = {}, options: LockOptions = {}): GuardEntry {
    const opId = this.lock(name, options);
    return guardOf(this.frame({ $case: "granted", value: grant(name, fields) }, opId));
  }
}

/** An answer to `open` or `resume`. */
export function opened(fields: Partial<SessionOpened> = {}): SessionOpened {
  return SessionOpened.fromPartial({
    sessionId: "session",
    resumeToken: Buffer.from("token"),
    lease: toDuration(LEASE),
    pingInterval: toDuration(PING),
    renewInterval: toDuration(RENEW),
    ...fields,
  });
}

/** A watched grant that is valid for a lease. */
export function grant(name = "a", fields: Partial<Grant> = {}): Grant {
  return Grant.fromPartial({
    name,
    mode: LockMode.EXCLUSIVE,
    owner: "me",
    holdCount: 1,
    fencingToken: 7n,
    lease: toDuration(LEASE),
    validFor: toDuration(LEASE),
    watched: true,
    ...fields,
  });
}

/** The notice that a lock was lost. */
export function lost(reason: LostReason, fields: Partial<Grant> = {}, detail = ""): Response {
  const value = { grant: grant("a", { validFor: undefined, ...fields }), reason, detail };
  return { $case: "lost", value };
}

/** Watched permits that are valid for a lease. */
export function permits(ids: string[], fields: Partial<PermitGrant> = {}): PermitGrant {
  return PermitGrant.fromPartial({
    name: "s",
    owner: "me",
    permits: ids.length,
    permitIds: ids,
    lease: toDuration(LEASE),
    validFor: toDuration(LEASE),
    watched: true,
    ...fields,
  });
}

export const tryRequest = (name = "a", options: LockOptions = {}): Request =>
  lockRequest("try", name, options, "me");
export const allRequest = (names: string[], options: LockOptions = {}): Request =>
  locksRequest("wait", names, options, "me");
export const permitRequest = (count: number, options: AcquireOptions = {}): Request =>
  permitsRequest("wait", "s", count, options, "me");

/** A failure as an answer. */
export function failed(code: number, reason: string, metadata: [string, string][] = []): Response {
  const info = Buffer.concat([
    text(1, reason),
    ...metadata.map(([key, value]) => bytes(3, Buffer.concat([text(1, key), text(2, value)]))),
  ]);
  const details = [{ typeUrl: "type.googleapis.com/google.rpc.ErrorInfo", value: info }];
  return { $case: "failed", value: { code, message: "no", details } };
}

/** A failure with a pause before the next attempt. */
export function failedFor(reason: string, ms: number): Response {
  const failure = failed(14, reason);
  if (failure.$case === "failed") {
    const delay = Buffer.from([0x08, ms / 1000]);
    const typeUrl = "type.googleapis.com/google.rpc.RetryInfo";
    failure.value.details.push({ typeUrl, value: bytes(1, delay) });
  }
  return failure;
}

const text = (field: number, value: string): Buffer => bytes(field, Buffer.from(value));
const bytes = (field: number, value: Buffer): Buffer =>
  Buffer.concat([Buffer.from([(field << 3) | 2, value.length]), value]);

export const refusal = (code: number): RefusedError =>
  new RefusedError({ code, message: "no", reason: "REASON" });

/** The effects of one type. */
export function only<T extends Effect["type"]>(
  effects: readonly Effect[],
  type: T,
): Extract<Effect, { type: T }>[] {
  return effects.filter((it): it is Extract<Effect, { type: T }> => it.type === type);
}

/** The one effect of a type. */
export function one<T extends Effect["type"]>(
  effects: readonly Effect[],
  type: T,
): Extract<Effect, { type: T }> {
  const found = only(effects, type);
  assert.equal(found.length, 1, `${type}: ${JSON.stringify(effects.map((it) => it.type))}`);
  return found[0] as Extract<Effect, { type: T }>;
}

/** The frames that were sent, as they are on the wire. */
export function frames(effects: readonly Effect[]): SessionRequest[] {
  const sent = only(effects, "send").map((it) => it.frame);
  return sent.map((it) => SessionRequest.decode(SessionRequest.encode(it).finish()));
}

/** The kinds of the frames that were sent. */
export function kinds(effects: readonly Effect[]): string[] {
  return frames(effects).map((it) => it.request?.$case ?? "");
}

type Sent<K extends Request["$case"]> = Extract<Request, { $case: K }>["value"] & { opId: bigint };

/** The fields of the one frame of a kind that was sent. */
export function sent<K extends Request["$case"]>(
  effects: readonly Effect[],
  kind: K,
): Sent<K> {
  const found = frames(effects).filter((it) => it.request?.$case === kind);
  assert.equal(found.length, 1, `${kind} among ${kinds(effects).join()}`);
  return { ...found[0]?.request?.value, opId: found[0]?.opId } as unknown as Sent<K>;
}

/** What the frame that opens a stream resumes. */
export function resume(
  effects: readonly Effect[],
): Extract<Request, { $case: "resume" }>["value"] & { endpoint: number } {
  const { first, endpoint } = one(effects, "connect");
  assert.ok(first.request?.$case === "resume");
  assert.ok(first.request.value.sendsPings && first.request.value.sendsClose);
  return { ...first.request.value, endpoint };
}

export function guardOf(effects: readonly Effect[]): GuardEntry {
  return one(effects, "granted").guard;
}
