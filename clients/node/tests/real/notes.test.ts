/** Notes of holders, and forced releases with a grace period, against a real coordinator. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import {
  LockLostError,
  MisconfiguredError,
  NotGrantedError,
  RefusedError,
} from "../../src/index.js";
import type { Holding, Lockkeeper, Waiting } from "../../src/index.js";
import { clientOf, errorOf } from "../clients.js";
import { Coordinator, eventually } from "../world.js";

const note = { reason: "release 1.4", labels: { team: "web", run: "7" } };
const GRACE = 15_000;

async function noteOf(refused: Promise<unknown>): Promise<unknown> {
  const error = await errorOf(refused);
  assert.ok(error instanceof NotGrantedError, String(error));
  return error.holderNote && { ...error.holderNote, labels: { ...error.holderNote.labels } };
}

describe("a note", () => {
  const acquires: Record<string, (client: Lockkeeper) => Promise<Holding | null>> = {
    lock: (it) => it.lock("a", note),
    tryLock: (it) => it.tryLock("a", note),
    lockAll: (it) => it.lockAll(["a", "b"], note),
    tryLockAll: (it) => it.tryLockAll(["a", "b"], note),
  };
  test("is shown to others", async (t) => {
    const client = clientOf(t, (await Coordinator.start(t)).url);
    const waits: Waiting[] = [];
    client.on("waiting", (it) => waits.push(it));
    for (const [how, acquire] of Object.entries(acquires)) {
      const held = await acquire(client);
      assert.deepEqual(await noteOf(client.lock("a", { wait: 50 })), note, how);
      assert.deepEqual(await noteOf(client.lockAll(["c", "a"], { wait: 50 })), note, how);
      const seen = await client.describe("a");
      assert.equal(seen.holders[0]?.note?.reason, note.reason, how);
      assert.deepEqual({ ...seen.holders[0].note.labels }, note.labels, how);
      await held?.release();
    }
    assert.ok(waits.length >= 8, String(waits.length));
    assert.deepEqual(new Set(waits.map((it) => it.holderNote?.reason)), new Set([note.reason]));
    await client.lock("a");
    assert.equal(await noteOf(client.lock("a", { wait: 0 })), undefined);
    assert.equal((await client.describe("a")).holders[0]?.note, undefined);
  });

  test("may come without a session", async (t) => {
    const client = clientOf(t, (await Coordinator.start(t)).url);
    await client.connect();
    assert.ok(await client.calls.tryAcquire("a", note));
    assert.deepEqual(await noteOf(client.lock("a", { wait: 0 })), note);
  });

  test("that cannot be used is refused", async (t) => {
    const client = clientOf(t, (await Coordinator.start(t)).url);
    const wrong = { labels: { run: 7 } } as unknown as { labels: Record<string, string> };
    assert.ok((await errorOf(client.lock("a", wrong))) instanceof MisconfiguredError);
    const bad = [{ reason: "x".repeat(257) }, { labels: { "a=b": "" } }];
    const reasons = bad.map(async (options) => {
      const error = await errorOf(client.lock("a", options));
      return error instanceof RefusedError ? error.reason : error;
    });
    assert.deepEqual(await Promise.all(reasons), ["INVALID_NOTE_REASON", "INVALID_NOTE_LABELS"]);
  });
});

test("a forced release waits for the holder", async (t) => {
  const client = clientOf(t, (await Coordinator.start(t)).url);
  const lock = await client.lock("a");
  const aborted = new Promise((resolve) => {
    lock.signal.addEventListener("abort", resolve);
  });
  const next = client.lock("a");
  const begun = performance.now();
  const options = { reason: "maintenance", gracePeriod: GRACE };
  const forced = await client.calls.forceRelease("a", options);
  assert.deepEqual([forced.released, forced.holderCount], [true, 1]);
  assert.ok(forced.closedFor > 0 && forced.closedFor <= GRACE, String(forced.closedFor));
  await aborted;
  const took = performance.now() - begun;
  const { loss } = lock;
  assert.ok(loss instanceof LockLostError);
  assert.ok(loss.validFor > GRACE - took - 1_000 && loss.validFor <= GRACE, String(loss.validFor));
  assert.equal(lock.validFor, 0);
  assert.equal(await client.tryLock("a"), null);
  assert.equal(await errorOf(lock.release()), loss);
  await (await next).release();
  assert.ok(performance.now() - begun < loss.validFor, "the release did not end the period");
});

test("a forced release uses the coordinator that answers", async (t) => {
  const { url } = await Coordinator.start(t);
  const lock = await clientOf(t, url).lock("a");
  const { calls } = clientOf(t, ["http://127.0.0.1:1", url]);
  const why = { reason: "maintenance" };
  const expected = { released: true, holderCount: 1, closedFor: 0 };
  assert.deepEqual(await calls.forceRelease("a", why), expected);
  await eventually("the loss", () => lock.signal.aborted);
  assert.ok((await errorOf(lock.release())) instanceof LockLostError);
  assert.equal((await calls.forceRelease("a", why)).released, false);
  const refused = await errorOf(calls.forceRelease("a", { reason: " " }));
  assert.ok(refused instanceof RefusedError && refused.reason === "INVALID_REASON");
});
