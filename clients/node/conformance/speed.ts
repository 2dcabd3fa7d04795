/** How fast the client is, beside a bare stream of gRPC. */

import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";

import { credentials } from "@grpc/grpc-js";
import type { ClientDuplexStream } from "@grpc/grpc-js";

import { Lockkeeper } from "../src/index.js";
import { LockServiceClient } from "../src/proto/lockkeeper/v1/lock_service.js";
import { OnDisconnect } from "../src/proto/lockkeeper/v1/session.js";
import type { SessionRequest, SessionResponse } from "../src/proto/lockkeeper/v1/session.js";
import { LockMode } from "../src/proto/lockkeeper/v1/types.js";

/** What is measured. */
export interface Speed {
  readonly endpoints: readonly string[];
  readonly tasks: number;
  readonly seconds: number;
}

/** Acquires and releases the lock of a task. */
type Pair = (task: number) => Promise<void>;

type Request = SessionRequest["request"];
type Response = NonNullable<SessionResponse["response"]>;

/** The milliseconds before each measurement. */
const WARM_UP = 1000;

/** Pairs of an acquire and a release in a time. */
class Rate {
  #pairs = 0;
  #milliseconds = 0;

  get perSecond(): number {
    return (this.#pairs * 1000) / this.#milliseconds;
  }

  /** Counts the pairs of all tasks in half of the time, for there are two turns. */
  async add({ tasks, seconds }: Speed, pair: Pair): Promise<void> {
    let pairs = 0;
    const state = { isOver: false };
    const work = async (task: number): Promise<void> => {
      while (!state.isOver) {
        await pair(task);
        pairs += 1;
      }
    };
    const all = Promise.all(Array.from({ length: tasks }, (_, task) => work(task)));
    try {
      await Promise.race([sleep(WARM_UP), all]);
      const [before, begin] = [pairs, performance.now()];
      await Promise.race([sleep(seconds * 500), all]);
      this.#pairs += pairs - before;
      this.#milliseconds += performance.now() - begin;
    } finally {
      state.isOver = true;
    }
    await all;
  }
}

/** Measures the client and a bare stream in turns, so that a busy machine slows both alike. */
export async function measureSpeed(speed: Speed): Promise<object> {
  const [client, bare] = [new Rate(), new Rate()];
  for (let turn = 0; turn < 2; turn += 1) {
    await addClient(client, speed);
    await addBare(bare, speed);
  }
  return { pairs_per_second: client.perSecond, bare_pairs_per_second: bare.perSecond };
}

async function addClient(rate: Rate, speed: Speed): Promise<void> {
  await using client = new Lockkeeper({ endpoints: speed.endpoints });
  await rate.add(speed, async (task) => {
    const lock = await client.tryLock(`speed-${String(task)}`);
    if (lock === null) {
      throw new Error("not acquired");
    }
    await lock.release();
  });
}

// --- without the client

async function addBare(rate: Rate, speed: Speed): Promise<void> {
  const address = String(speed.endpoints[0]).replace("http://", "");
  const client = new LockServiceClient(address, credentials.createInsecure());
  const stream = new BareStream(client.session());
  try {
    await stream.open();
    await rate.add(speed, (task) => stream.pair(task));
    await stream.close();
  } finally {
    client.close();
  }
}

/** A session's stream of gRPC, shared by tasks. */
class BareStream {
  readonly #call: ClientDuplexStream<SessionRequest, SessionResponse>;
  /** By operation, which is the task's number plus 1. */
  readonly #callers = new Map<bigint, (answer: Response | undefined) => void>();
  #lastOwner = 0;

  constructor(call: ClientDuplexStream<SessionRequest, SessionResponse>) {
    this.#call = call;
    call.on("data", ({ opId, response }: SessionResponse) => {
      this.#callers.get(opId)?.(response);
    });
    call.on("error", () => {
      this.#callers.forEach((answered) => {
        answered(undefined);
      });
    });
  }

  async open(): Promise<void> {
    const lease = undefined;
    const onDisconnect = OnDisconnect.UNSPECIFIED;
    const value = { lease, clientName: "", onDisconnect, sendsPings: false, sendsClose: false };
    await this.#ask(0n, { $case: "open", value });
  }

  /** Ends the session. */
  async close(): Promise<void> {
    const ended = once(this.#call, "end");
    this.#call.end();
    await ended;
  }

  /** Sends what the client sends: owners and request ids are as long and as different. */
  async pair(task: number): Promise<void> {
    this.#lastOwner += 1;
    const opId = BigInt(task + 1);
    const lock = { name: `bare-${String(task)}`, mode: LockMode.EXCLUSIVE, sessionId: "" };
    const of = { ...lock, owner: `guard-${String(this.#lastOwner)}` };
    const acquire = { ...of, requestId: randomUUID(), lease: undefined, minReplicaAcks: 0 };
    const tried = await this.#ask(opId, { $case: "tryAcquire", value: acquire });
    if (tried?.$case !== "tried" || !tried.value.acquired) {
      throw new Error(`not acquired: ${JSON.stringify(tried)}`);
    }
    const release = { ...of, requestId: randomUUID() };
    const released = await this.#ask(opId, { $case: "release", value: release });
    if (released?.$case !== "released" || !released.value.released) {
      throw new Error(`not released: ${JSON.stringify(released)}`);
    }
  }

  /** Resolves to undefined if the stream breaks. */
  #ask(opId: bigint, request: Request): Promise<Response | undefined> {
    return new Promise((resolve) => {
      this.#callers.set(opId, resolve);
      this.#call.write({ opId, request, traceparent: "" });
    });
  }
}
