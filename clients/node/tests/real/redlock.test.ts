/** The adapter of redlock beside redlock itself: the same program runs on both. */

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { describe, test } from "node:test";
import type { TestContext } from "node:test";

import { LockLostError, RefusedError, SessionEndedError } from "../../src/index.js";
import { ExecutionError, Redlock } from "../../src/redlock.js";
import type { RedlockAbortSignal } from "../../src/redlock.js";
import { clientOf, errorOf, forceRelease } from "../clients.js";
import { afterwards, Coordinator, eventually, startRedis } from "../world.js";

/** What both have. */
interface RedlockShape {
  acquire(resources: string[], duration: number, settings?: object): Promise<LockShape>;
  release(lock: LockShape): Promise<{ attempts: unknown }>;
  extend(lock: LockShape, duration: number): Promise<LockShape>;
  using<T>(
    resources: string[],
    duration: number,
    routine: (signal: RedlockAbortSignal) => Promise<T>,
  ): Promise<T>;
  on(event: "error", listener: (error: unknown) => void): unknown;
  quit(): Promise<void>;
}

interface LockShape {
  readonly resources: string[];
  readonly value: string;
  readonly expiration: number;
  release(): Promise<unknown>;
  extend(duration: number): Promise<LockShape>;
}

type Make = (settings?: object) => RedlockShape;

async function original(t: TestContext): Promise<Make> {
  const url = await startRedis(t);
  const require = createRequire(import.meta.url);
  type Client = new (url: string) => { disconnect(): void };
  const { Redis } = require("ioredis") as { Redis: Client };
  const redlock = require("redlock") as {
    default: new (clients: object[], settings?: object) => RedlockShape;
  };
  return (settings) => {
    const client = new Redis(url);
    afterwards(t, () => {
      client.disconnect();
    });
    const made = new redlock.default([client], settings);
    made.on("error", () => undefined);
    return made;
  };
}

async function ours(t: TestContext): Promise<Make> {
  const coordinator = await Coordinator.start(t);
  const make = (settings?: object): Redlock =>
    new Redlock(clientOf(t, coordinator.url), settings);
  return make;
}

for (const [name, start] of Object.entries({ redlock: original, "lockkeeper/redlock": ours })) {
  describe(name, () => {
    test("acquires, extends and releases", async (t) => {
      const redlock = (await start(t))();
      const lock = await redlock.acquire(["{r}a", "{r}b"], 10_000);
      assert.deepEqual(lock.resources, ["{r}a", "{r}b"]);
      assert.equal(typeof lock.value, "string");
      assert.ok(lock.expiration > Date.now() && lock.expiration <= Date.now() + 10_000);
      const longer = await lock.extend(60_000);
      assert.ok(longer.expiration > Date.now() + 30_000);
      assert.equal(lock.expiration, 0);
      assert.ok((await redlock.release(longer)).attempts);
      await (await redlock.acquire(["{r}b"], 10_000)).release();
    });

    test("does not acquire what is locked, and waits for it", async (t) => {
      const make = await start(t);
      const [one, other] = [make(), make()];
      const lock = await one.acquire(["a"], 30_000);
      const failure = await errorOf(other.acquire(["a"], 1_000, { retryCount: 0 }));
      assert.ok(failure instanceof Error && failure.name === "ExecutionError");
      const waiting = other.acquire(["a"], 10_000, { retryCount: -1, retryDelay: 50 });
      await lock.release();
      await (await waiting).release();
    });

    test("fails with an ExecutionError when its client is closed", async (t) => {
      const redlock = (await start(t))({ retryCount: 0 });
      const lock = await redlock.acquire(["a"], 10_000);
      await redlock.quit();
      for (const work of [redlock.acquire(["a"], 10_000), lock.extend(10_000), lock.release()]) {
        const error = await errorOf(work);
        assert.ok(error instanceof Error && error.name === "ExecutionError", String(error));
      }
    });

    test("refuses to extend what has expired", async (t) => {
      const redlock = (await start(t))({ retryCount: 0 });
      const lock = await redlock.acquire(["a"], 150);
      await eventually("it has expired", () => lock.expiration < Date.now());
      const error = await errorOf(lock.extend(1_000));
      assert.ok(error instanceof Error && error.name === "ExecutionError");
    });

    test("using: extends until the function ends, and then releases", async (t) => {
      const make = await start(t);
      // Extended every 200 ms, so that a machine which is late by a second loses no lock.
      const [one, other] = [make({ automaticExtensionThreshold: 1_800 }), make({ retryCount: 0 })];
      const begun = performance.now();
      const result = await one.using(["a"], 2_000, async (signal) => {
        await eventually("more than a duration", () => performance.now() - begun > 2_500);
        assert.ok((await errorOf(other.acquire(["a"], 10_000))) instanceof Error);
        assert.deepEqual([signal.aborted, signal.error], [false, undefined]);
        return "result";
      });
      assert.equal(result, "result");
      await (await other.acquire(["a"], 10_000)).release();
    });

    test("using: fails as the function does, and releases", async (t) => {
      const make = await start(t);
      const [one, other] = [make(), make({ retryCount: 0 })];
      const failure = new Error("no");
      assert.equal(await errorOf(one.using(["a"], 5_000, () => Promise.reject(failure))), failure);
      await (await other.acquire(["a"], 10_000)).release();
    });

    test("using: refuses a duration that is too short to extend", async (t) => {
      const redlock = (await start(t))();
      const using = redlock.using(["a"], 500, () => Promise.resolve());
      assert.ok((await errorOf(using)) instanceof Error);
    });
  });
}

describe("lockkeeper/redlock, unlike redlock,", () => {
  test("aborts the signal at once when the lock is lost, and fails", async (t) => {
    const coordinator = await Coordinator.start(t);
    const redlock = new Redlock(clientOf(t, coordinator.url));
    const using = redlock.using(["a"], 60_000, async (signal) => {
      await forceRelease(coordinator, "a", "maintenance");
      await eventually("the signal is aborted", () => signal.aborted);
      assert.ok(signal.error instanceof LockLostError);
    });
    const error = await errorOf(using);
    assert.ok(error instanceof Error && error.name === "ExecutionError");
    assert.match(error.message, /an operator force-released it: maintenance$/);
  });

  test("says why it failed", async (t) => {
    const coordinator = await Coordinator.start(t);
    const redlock = new Redlock(clientOf(t, coordinator.url));
    const seen: unknown[] = [];
    redlock.on("error", (error) => seen.push(error));
    const error = await errorOf(redlock.acquire(["{}"], 5_000));
    assert.ok(error instanceof ExecutionError && error.cause instanceof RefusedError);
    assert.equal(error.cause.reason, "INVALID_LOCKS");
    assert.deepEqual(seen, [error.cause]);
    await redlock.quit();
    const closed = await errorOf(redlock.acquire(["a"], 5_000));
    assert.ok(closed instanceof ExecutionError && closed.cause instanceof SessionEndedError);
  });

  test("has fencing tokens", async (t) => {
    const coordinator = await Coordinator.start(t);
    const redlock = new Redlock(clientOf(t, coordinator.url));
    const lock = await redlock.acquire(["a"], 5_000);
    assert.ok((lock.fencingTokens.get("a") ?? 0n) > 0n);
    await redlock.quit();
  });
});
