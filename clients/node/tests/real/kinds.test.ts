/** Every kind of object, against a real coordinator. */

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Lockkeeper, LockLostError, NotGrantedError, RefusedError } from "../../src/index.js";
import { clientOf, errorOf } from "../clients.js";
import { Coordinator, eventually } from "../world.js";

let coordinator: Coordinator;
const afters: (() => unknown)[] = [];

before(async () => {
  const context = { after: (it: () => unknown) => void afters.push(it) };
  coordinator = await Coordinator.start(context as unknown as TestContext);
});
after(async () => {
  for (const it of afters) {
    await it();
  }
});

const open = (t: TestContext): Lockkeeper => clientOf(t, coordinator.url, { lease: 5_000 });

describe("a lock", () => {
  test("excludes the tasks of one client, and of others", async (t) => {
    const [one, other] = [open(t), open(t)];
    let [holders, most, grants] = [0, 0, 0];
    const work = async (client: Lockkeeper): Promise<void> => {
      for (let i = 0; i < 5; i += 1) {
        const lock = await client.lock("shared");
        holders += 1;
        most = Math.max(most, holders);
        grants += 1;
        await sleep(1);
        holders -= 1;
        await lock.release();
      }
    };
    await Promise.all([work(one), work(one), work(other), work(other)]);
    assert.deepEqual([most, grants], [1, 20]);
  });

  test("says what it is, and until when it is held", async (t) => {
    const client = open(t);
    const lock = await client.lock("a", { owner: "worker", mode: "fair" });
    const seenAs = [lock.name, lock.mode, lock.owner, lock.holdCount];
    assert.deepEqual(seenAs, ["a", "fair", "worker", 1]);
    assert.equal(typeof lock.fencingToken, "bigint");
    assert.ok(lock.fencingToken > 1n << 50n);
    assert.ok(lock.validFor > 2_000 && lock.validFor <= 5_000, String(lock.validFor));
    assert.deepEqual([lock.signal.aborted, lock.loss], [false, undefined]);
    const seen = await client.describe("a");
    assert.deepEqual([seen.holderCount, seen.lastFencingToken], [1, lock.fencingToken]);
    assert.equal(seen.holders[0]?.owner, "worker");
    assert.equal((await client.checkToken("a", lock.fencingToken)).current, true);
    assert.equal((await client.checkToken("a", lock.fencingToken - 1n)).current, false);
    await lock.release();
    assert.equal(lock.signal.aborted, false);
    assert.equal((await client.describe("a")).holderCount, 0);
    assert.equal((await client.describe("a")).mode, undefined);
  });

  test("is acquired again by the same owner, and gets a larger token in a new grant", async (t) => {
    const client = open(t);
    const first = await client.lock("again", { owner: "me" });
    const second = await client.lock("again", { owner: "me" });
    assert.deepEqual([second.holdCount, second.fencingToken], [2, first.fencingToken]);
    await first.release();
    assert.equal(await client.tryLock("again"), null);
    await second.release();
    const third = await client.tryLock("again");
    assert.ok(third !== null && third.fencingToken > first.fencingToken);
  });

  test("is not granted within the time to wait", async (t) => {
    const [one, other] = [open(t), open(t)];
    await one.lock("busy");
    assert.equal(await other.tryLock("busy"), null);
    const error = await errorOf(other.lock("busy", { wait: 50 }));
    assert.ok(error instanceof NotGrantedError);
    assert.deepEqual([error.resource, error.reason], ["busy", "WAIT_TIMEOUT"]);
    assert.ok((error.holderRemainingLease ?? 0) > 0);
    assert.ok((await errorOf(other.lock("busy", { wait: 0 }))) instanceof NotGrantedError);
  });

  test("reports the wait", async (t) => {
    const [one, other] = [open(t), open(t)];
    await one.lock("watched");
    const seen: [string, number][] = [];
    other.on("waiting", ({ name, position }) => seen.push([name, position]));
    await errorOf(other.lock("watched", { wait: 50 }));
    assert.deepEqual(seen[0], ["watched", 1]);
  });

  test("in read mode is shared, in write mode it is not", async (t) => {
    const [one, other] = [open(t), open(t)];
    const readers = await Promise.all([
      one.lock("rw", { mode: "read" }),
      other.lock("rw", { mode: "read" }),
    ]);
    assert.equal(await one.tryLock("rw", { mode: "write" }), null);
    await Promise.all(readers.map((it) => it.release()));
    const writer = await one.lock("rw", { mode: "write" });
    assert.equal(await other.tryLock("rw", { mode: "read" }), null);
    assert.equal(writer.mode, "write");
  });

  test("with a lease of its own is renewed by its user, or lost", async (t) => {
    const client = open(t);
    const lock = await client.lock("leased", { lease: 400 });
    await lock.renew(60_000);
    assert.ok(lock.validFor > 30_000);
    const short = await client.lock("short", { lease: 150 });
    await eventually("the lock is lost", () => short.signal.aborted);
    assert.ok(short.signal.reason instanceof LockLostError);
    assert.equal(short.signal.reason.reason, "EXPIRED");
    assert.equal(short.validFor, 0);
    assert.ok((await errorOf(short.renew())) instanceof LockLostError);
    assert.ok((await errorOf(short.release())) instanceof LockLostError);
  });

  test("is released with a block, and refused with the reason of the coordinator", async (t) => {
    const client = open(t);
    {
      await using lock = await client.lock("block");
      assert.equal((await client.describe("block")).lastFencingToken, lock.fencingToken);
    }
    assert.equal((await client.describe("block")).holderCount, 0);
    const error = await errorOf(client.lock("{}bad"));
    assert.ok(error instanceof RefusedError);
    assert.deepEqual([error.code, error.reason], [3, "INVALID_NAME"]);
  });

  test("is released once, whoever asks", async (t) => {
    const client = open(t);
    const lock = await client.lock("once");
    await Promise.all([lock.release(), lock.release(), lock[Symbol.asyncDispose]()]);
    assert.notEqual(await client.tryLock("once"), null);
  });
});

describe("request", () => {
  test("calls a function under the lock, and returns what it returns", async (t) => {
    const client = open(t);
    const result = await client.request("r", async (lock) => {
      assert.equal(await client.tryLock("r"), null);
      return lock.name;
    });
    assert.equal(result, "r");
    assert.notEqual(await client.tryLock("r"), null);
  });

  test("releases the lock if the function fails, and fails as the function does", async (t) => {
    const client = open(t);
    const failure = new Error("no");
    const request = client.request("rf", { wait: 1_000 }, () => Promise.reject(failure));
    assert.equal(await errorOf(request), failure);
    assert.notEqual(await client.tryLock("rf"), null);
  });

  test("calls the function with null if the lock is not available", async (t) => {
    const client = open(t);
    await client.lock("ra");
    assert.equal(await client.request("ra", { ifAvailable: true }, (lock) => lock), null);
  });

  test("fails if the lock was lost while the function ran", async (t) => {
    const client = open(t);
    const request = client.request("rl", { lease: 150 }, (lock) =>
      eventually("the lock is lost", () => lock.signal.aborted),
    );
    assert.ok((await errorOf(request)) instanceof LockLostError);
  });
});

describe("several locks", () => {
  test("are acquired together or not at all", async (t) => {
    const [one, other] = [open(t), open(t)];
    const all = await one.lockAll(["x", { name: "y", mode: "read" }]);
    assert.deepEqual(all.names, ["x", "y"]);
    assert.deepEqual([...all.fencingTokens.keys()], ["x", "y"]);
    assert.equal(await other.tryLockAll(["w", "x"]), null);
    assert.notEqual(await other.tryLock("w"), null);
    assert.ok((await errorOf(other.lockAll(["v", "x"], { wait: 20 }))) instanceof NotGrantedError);
    await all.release();
    const next = await other.tryLockAll(["x", "y"]);
    assert.ok(next !== null && next.validFor > 0);
  });
});

describe("a semaphore", () => {
  test("grants its permits, and no more", async (t) => {
    const [one, other] = [open(t), open(t)];
    const semaphore = one.semaphore("s");
    const missing = await errorOf(semaphore.acquire());
    assert.ok(missing instanceof RefusedError && missing.reason === "SEMAPHORE_NOT_FOUND");
    assert.equal(await semaphore.setPermits(3), 3);
    assert.equal(await semaphore.setPermits(9, { onlyIfAbsent: true }), 3);
    const permits = await semaphore.acquire(2);
    assert.deepEqual([permits.count, permits.permitIds.length, permits.name], [2, 2, "s"]);
    assert.equal(await other.semaphore("s").tryAcquire(2), null);
    const error = await errorOf(other.semaphore("s").acquire(2, { wait: 20 }));
    assert.ok(error instanceof NotGrantedError && error.available === 1);
    const seen = await semaphore.describe();
    assert.deepEqual([seen.permits, seen.available, seen.holderCount], [3, 1, 1]);
    await permits.release();
    await using all = await other.semaphore("s").acquire(3);
    assert.ok(all.validFor > 0);
  });
});

describe("a latch", () => {
  test("opens when it was counted down", async (t) => {
    const [one, other] = [open(t), open(t)];
    const latch = one.latch("l");
    assert.equal(await latch.setCount(2, { ttl: 60_000 }), 2);
    assert.ok((await errorOf(latch.wait({ wait: 20 }))) instanceof NotGrantedError);
    const waits = other.latch("l").wait();
    assert.equal(await latch.countDown(), 1);
    const seen = await latch.describe();
    assert.equal(seen.count, 1);
    assert.ok((seen.remainingTtl ?? 0) > 0);
    assert.equal(await latch.countDown(), 0);
    await waits;
    assert.equal(await latch.delete(), false);
    const error = await errorOf(latch.countDown());
    assert.ok(error instanceof RefusedError && error.reason === "COUNT_EXCEEDED");
  });
});

describe("calls without a session", () => {
  test("hold a lock by an owner and a lease", async (t) => {
    const { calls, ...client } = open(t);
    assert.ok(client);
    const grant = await calls.tryAcquire("c", { owner: "job", lease: 10_000 });
    assert.ok(grant !== null && grant.validFor > 5_000 && grant.fencingToken > 0n);
    assert.equal(await calls.tryAcquire("c", { owner: "other" }), null);
    assert.ok((await calls.renew("c", "job", { lease: 60_000 })).validFor > 30_000);
    assert.equal((await calls.checkToken("c", grant.fencingToken)).held, true);
    await calls.release("c", "job");
    const error = await errorOf(calls.release("c", "job"));
    assert.ok(error instanceof RefusedError);
    assert.deepEqual([error.reason, error.metadata["state"]], ["NOT_OWNER", "expired"]);
    assert.equal((await calls.describe("c")).holderCount, 0);
  });
});
