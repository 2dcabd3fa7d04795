/** Locks that are handed over by ticket, against a real coordinator. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, test } from "node:test";

import { LockLostError, MisconfiguredError, RefusedError } from "../../src/index.js";
import { clientOf, errorOf } from "../clients.js";
import { Coordinator, SECRET, startRedis } from "../world.js";

/** Why a ticket was refused. */
function state(error: unknown): string | undefined {
  assert.ok(error instanceof RefusedError && error.reason === "TICKET_REFUSED", String(error));
  return error.metadata["state"];
}

describe("a ticket", () => {
  test("takes the lock over, once", async (t) => {
    const { url } = await Coordinator.start(t);
    const [client, other] = [clientOf(t, url), clientOf(t, url)];
    const given = await client.lock("a");
    const controller = new AbortController();
    const waiter = errorOf(client.lock("a", { signal: controller.signal }));
    const ticket = await given.offer();
    await given.renew();
    const lost = once(given.signal, "abort");
    const taken = await other.claim("a", ticket);
    assert.deepEqual([taken.name, taken.mode], ["a", "exclusive"]);
    assert.ok(taken.fencingToken > given.fencingToken);
    await lost;
    const { loss } = given;
    assert.ok(loss instanceof LockLostError && loss.reason === "HANDED_OVER");
    assert.equal(await errorOf(given.offer()), loss);
    assert.equal(await errorOf(given.release()), loss);
    assert.equal(state(await errorOf(client.claim("a", ticket))), "over");
    controller.abort(new Error("on purpose"));
    assert.equal(((await waiter) as Error).message, "on purpose");
    await taken.renew();
    await taken.release();
    assert.ok(await client.tryLock("a"));
  });

  test("works between coordinators", async (t) => {
    const store = await startRedis(t);
    const settings = { store, set: [SECRET] };
    const one = await Coordinator.start(t, settings);
    const two = await Coordinator.start(t, settings);
    const given = await clientOf(t, one.url).lock("a");
    const lost = once(given.signal, "abort");
    const taken = await clientOf(t, two.url).claim("a", await given.offer({ within: 60_000 }));
    await lost;
    assert.equal(given.loss?.reason, "HANDED_OVER");
    assert.equal(taken.loss, undefined);
  });

  test("that cannot be used says why", async (t) => {
    const { url } = await Coordinator.start(t);
    const [client, other] = [clientOf(t, url), clientOf(t, url)];
    const lock = await client.lock("a");
    const ticket = await lock.offer();
    assert.equal(state(await errorOf(other.claim("a", "none"))), "invalid");
    assert.equal(state(await errorOf(other.claim("b", ticket))), "invalid");
    const long = await errorOf(lock.offer({ within: 11 * 60_000 }));
    assert.ok(long instanceof RefusedError && long.reason === "INVALID_WITHIN");
    for (const [promise, field] of [
      [lock.offer({ within: -1 }), "within"],
      [other.claim("a", ""), "ticket"],
    ] as const) {
      const wrong = await errorOf(promise);
      assert.ok(wrong instanceof MisconfiguredError && wrong.field === field, String(wrong));
    }
    const signal = AbortSignal.abort(new Error("on purpose"));
    assert.equal(((await errorOf(lock.offer({ signal }))) as Error).message, "on purpose");
    const aborted = await errorOf(other.claim("a", ticket, { signal }));
    assert.equal((aborted as Error).message, "on purpose");
    assert.equal(lock.loss, undefined);
    const reader = await client.lock("rw", { mode: "read" });
    assert.ok((await errorOf(reader.offer())) instanceof RefusedError);
  });
});

describe("a lock delay", () => {
  test("keeps a lock closed after a loss, and not after a release", async (t) => {
    const { url } = await Coordinator.start(t);
    const [client, other] = [clientOf(t, url), clientOf(t, url)];
    await other.connect();
    const delay = { lockDelay: 2_000 };
    for (const how of ["lock", "tryLock"] as const) {
      const lost = await client[how]("a", { ...delay, lease: 1_000 });
      assert.ok(lost);
      const begun = performance.now();
      await once(lost.signal, "abort");
      assert.equal(lost.loss?.reason, "EXPIRED");
      assert.equal(await other.tryLock("a"), null);
      const next = await other.lock("a", delay);
      assert.ok(performance.now() - begun > delay.lockDelay);
      await next.release();
      await (await client.tryLock("a"))?.release();
    }
  });

  test("is for one lock", async (t) => {
    const client = clientOf(t, (await Coordinator.start(t)).url);
    const delay = { lockDelay: 1_000 };
    const errors = [client.lockAll(["a"], delay), client.tryLockAll(["a"], delay)];
    errors.push(client.lock("a", { lockDelay: 0 }) as never);
    for (const error of await Promise.all(errors.map(errorOf))) {
      assert.ok(error instanceof MisconfiguredError && error.field === "lockDelay");
    }
    const refused = await errorOf(client.lock("a", { ...delay, mode: "read" }));
    assert.ok(refused instanceof RefusedError && refused.reason === "INVALID_LOCK_DELAY");
  });
});
