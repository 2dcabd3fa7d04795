/** What callers say to each other about a lock, and deadlocks, against a real coordinator. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, test } from "node:test";

import {
  LockLostError,
  MisconfiguredError,
  NotGrantedError,
  RefusedError,
} from "../../src/index.js";
import type { Deadlock, Explanation, YieldRequest } from "../../src/index.js";
import { clientOf, errorOf } from "../clients.js";
import { Coordinator, eventually } from "../world.js";

const WITHIN = 30_000;

describe("hold at least", () => {
  test("keeps a lock held after its release", async (t) => {
    const client = clientOf(t, (await Coordinator.start(t)).url);
    const least = { holdAtLeast: 1_500 };
    for (const how of ["lock", "tryLock"] as const) {
      const begun = performance.now();
      await (await client[how]("a", least))?.release();
      assert.equal(await client.tryLock("a"), null, how);
      await (await client.lock("a")).release();
      assert.ok(performance.now() - begun >= least.holdAtLeast, how);
    }
  });

  test("is for one lock", async (t) => {
    const client = clientOf(t, (await Coordinator.start(t)).url);
    const least = { holdAtLeast: 1_000 };
    const errors = [client.lockAll(["a"], least), client.tryLockAll(["a"], least)];
    errors.push(client.lock("a", { holdAtLeast: 0 }) as never);
    for (const error of await Promise.all(errors.map(errorOf))) {
      assert.ok(error instanceof MisconfiguredError && error.field === "holdAtLeast");
    }
    const preferred = await errorOf(client.lockAll(["a"], { mode: "fair", preferred: true }));
    assert.ok(preferred instanceof MisconfiguredError && preferred.field === "preferred");
    const refused = await errorOf(client.lock("a", { ...least, mode: "read" }));
    assert.ok(refused instanceof RefusedError && refused.reason === "INVALID_HOLD_AT_LEAST");
  });
});

describe("a wait", () => {
  test("is explained", async (t) => {
    const { url } = await Coordinator.start(t);
    const [client, other] = [clientOf(t, url), clientOf(t, url)];
    const mine = { owner: "mine" };
    await client.lock("a", mine);
    const last = await other.lock("b", { reason: "release 1.4" });
    const wait = client.lock("b", mine);
    let seen: Explanation | undefined;
    // A wait is known once it is older than a second.
    await eventually("the chain", async () => {
      seen = await other.calls.explain("a");
      return seen.locks.length === 2;
    });
    const [first, second] = seen?.locks ?? [];
    assert.deepEqual([first?.name, first?.mode, first?.holderCount], ["a", "exclusive", 1]);
    assert.equal(first?.holders[0]?.owner, "mine");
    const waits = first.holders[0].waits[0];
    assert.deepEqual([waits?.name, waits?.isHolder, waits?.mode], ["b", true, "exclusive"]);
    assert.ok((waits?.waitingFor ?? 0) >= 1_000);
    assert.equal(second?.holders[0]?.note?.reason, "release 1.4");
    assert.deepEqual(seen?.deadlocks, []);
    await last.release();
    await (await wait).release();
  });

  test("of named owners is part of a deadlock, and ends if it asks for that", async (t) => {
    const { url } = await Coordinator.start(t);
    const [client, other] = [clientOf(t, url), clientOf(t, url)];
    const [one, two] = [{ owner: "one" }, { owner: "two" }];
    await client.lock("a", one);
    const b = await other.lock("b", two);
    const goesOn = client.lock("b", one);
    const abort = new AbortController();
    const stays = errorOf(other.lock("a", { ...two, signal: abort.signal }));
    let deadlocks: readonly Deadlock[] = [];
    await eventually("a deadlock", async () => {
      ({ deadlocks } = await client.calls.explain("a"));
      return deadlocks.some((it) => !it.isPossible);
    });
    const waits = deadlocks[0]?.waits.map(({ owner, name }) => `${owner} ${String(name)}`);
    assert.deepEqual(waits?.sort(), ["one b", "two a"]);
    abort.abort();
    await stays;
    const ended = await errorOf(other.lock("a", { ...two, endOnDeadlock: true }));
    assert.ok(ended instanceof NotGrantedError && ended.reason === "DEADLOCK", String(ended));
    assert.equal(ended.message, "a: not granted, the wait was a deadlock");
    await b.release();
    await (await goesOn).release();
  });
});

describe("a request to yield", () => {
  test("reaches the holder, which may go on", async (t) => {
    const { url } = await Coordinator.start(t);
    const [client, other] = [clientOf(t, url), clientOf(t, url, { clientName: "deploy" })];
    const events: YieldRequest[] = [];
    client.on("yieldRequested", (it) => events.push(it));
    const lock = await client.lock("a");
    assert.equal(lock.yieldRequest, undefined);
    const asked = new Promise<YieldRequest>((resolve) => {
      lock.onYieldRequested(resolve);
    });
    const options = { reason: "release 1.4", within: WITHIN };
    const answer = await other.calls.requestYield("a", options);
    assert.deepEqual([answer.holderCount, answer.reachedCount], [1, 1]);
    assert.equal(answer.reached[0]?.owner, lock.owner);
    assert.deepEqual(answer.unreached, []);
    const { within, ...request } = await asked;
    const expected = { name: "a", by: "deploy", reason: "release 1.4", preempts: false };
    assert.deepEqual(request, expected);
    assert.ok(within > 0 && within <= WITHIN, String(within));
    assert.deepEqual(lock.yieldRequest, { ...expected, within });
    assert.deepEqual(events, [lock.yieldRequest]);
    const standing = await new Promise<YieldRequest>((resolve) => {
      lock.onYieldRequested(resolve);
    });
    assert.equal(standing, lock.yieldRequest);
    await lock.renew();
    await lock.release();
    assert.equal((await other.calls.requestYield("a", options)).holderCount, 0);
  });

  test("that preempts takes the lock at its end", async (t) => {
    const { url } = await Coordinator.start(t);
    const [client, other] = [clientOf(t, url), clientOf(t, url)];
    const lock = await client.lock("a");
    const asked: YieldRequest[] = [];
    lock.onYieldRequested((it) => asked.push(it));
    const lost = once(lock.signal, "abort");
    await other.calls.requestYield("a", { reason: "urgent", within: 500, preempt: true });
    await lost;
    assert.deepEqual([asked.length, asked[0]?.preempts], [1, true]);
    const { loss } = lock;
    assert.ok(loss instanceof LockLostError && loss.reason === "PREEMPTED");
    assert.equal(loss.detail, "urgent");
    assert.ok(loss.validFor > 0);
    assert.equal(lock.yieldRequest, undefined);
    assert.equal(await errorOf(lock.release()), loss);
    await (await other.lock("a")).release();
  });

  test("that cannot be used is refused", async (t) => {
    const { calls } = clientOf(t, (await Coordinator.start(t)).url);
    const refused = await errorOf(calls.requestYield("a", { reason: " " }));
    assert.ok(refused instanceof RefusedError && refused.reason === "INVALID_REASON");
    const wrong = await errorOf(calls.requestYield("a", { reason: "why", within: -1 }));
    assert.ok(wrong instanceof MisconfiguredError && wrong.field === "within");
  });
});
