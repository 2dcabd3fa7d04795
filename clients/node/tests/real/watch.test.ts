/** Locks that are watched, or waited for without being acquired, against a real coordinator. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import {
  MisconfiguredError,
  NotGrantedError,
  RefusedError,
  SessionEndedError,
  UnreachableError,
} from "../../src/index.js";
import type { LockEvent, Lockkeeper } from "../../src/index.js";
import { clientOf, errorOf, forceRelease } from "../clients.js";
import { Coordinator, startRedis, startSilence } from "../world.js";

/** Events one after the other. */
class Seen {
  readonly #events: AsyncGenerator<LockEvent, void, undefined>;

  constructor(client: Lockkeeper, name: string) {
    this.#events = client.watch(name);
  }

  async next<K extends LockEvent["type"]>(type: K): Promise<Extract<LockEvent, { type: K }>> {
    const { done, value } = await this.#events.next();
    assert.ok(done !== true);
    assert.equal(value.type, type, JSON.stringify(value, (_, it: unknown) => String(it)));
    return value as Extract<LockEvent, { type: K }>;
  }

  async end(): Promise<void> {
    await this.#events.return();
  }
}

describe("a watch", () => {
  test("sees the life of a lock", async (t) => {
    const coordinator = await Coordinator.start(t);
    const [client, other] = [clientOf(t, coordinator.url), clientOf(t, coordinator.url)];
    const seen = new Seen(other, "a");
    const state = await seen.next("state");
    const none = { holders: [], holderCount: 0, waiterCount: 0, lastFencingToken: 0n };
    assert.deepEqual(state, { type: "state", ...none });
    const lock = await client.lock("a", { reason: "release 1.4" });
    const granted = await seen.next("granted");
    assert.equal(granted.fencingToken, lock.fencingToken);
    assert.equal(granted.holder.owner, lock.owner);
    assert.equal(granted.holder.note?.reason, "release 1.4");
    const controller = new AbortController();
    const wait = errorOf(client.lock("a", { signal: controller.signal }));
    assert.equal((await seen.next("waiters")).waiterCount, 1);
    controller.abort();
    await wait;
    assert.equal((await seen.next("waiters")).waiterCount, 0);
    await lock.release();
    const { end, fencingToken } = await seen.next("ended");
    assert.deepEqual([end, fencingToken], ["RELEASED", lock.fencingToken]);
    assert.equal((await seen.next("free")).lastFencingToken, lock.fencingToken);
    await client.lock("a");
    await seen.next("granted");
    await forceRelease(coordinator, "a", "maintenance");
    const forced = await seen.next("ended");
    assert.deepEqual([forced.end, forced.detail], ["FORCE_RELEASED", "maintenance"]);
    await seen.end();
  });

  test("goes on at another coordinator, and tells of the gap", async (t) => {
    const store = await startRedis(t);
    const one = await Coordinator.start(t, { store });
    const two = await Coordinator.start(t, { store });
    const seen = new Seen(clientOf(t, [one.url, two.url]), "a");
    await seen.next("state");
    await one.end("SIGKILL");
    assert.equal((await seen.next("gap")).reason, "UNHEARD");
    await seen.next("state");
    const lock = await clientOf(t, two.url).lock("a");
    assert.equal((await seen.next("granted")).fencingToken, lock.fencingToken);
    await seen.end();
  });

  test("ends with its loop, or with its signal", async (t) => {
    const client = clientOf(t, (await Coordinator.start(t)).url);
    for await (const { type } of client.watch("a")) {
      assert.equal(type, "state");
      break;
    }
    const controller = new AbortController();
    const events = client.watch("a", { signal: controller.signal });
    await events.next();
    const next = errorOf(events.next());
    controller.abort(new Error("on purpose"));
    assert.equal(((await next) as Error).message, "on purpose");
  });

  test("ends with its client, also while it looks for a coordinator", async (t) => {
    const coordinator = await Coordinator.start(t);
    const client = clientOf(t, coordinator.url);
    const [events, unread] = [client.watch("a"), client.watch("a")];
    await Promise.all([events.next(), unread.next()]);
    const next = errorOf(events.next());
    await coordinator.end("SIGKILL");
    await client.close();
    assert.ok((await next) instanceof SessionEndedError);
    assert.ok((await errorOf(unread.next())) instanceof SessionEndedError);
  });

  test("that cannot begin says why", async (t) => {
    const client = clientOf(t, (await Coordinator.start(t)).url);
    const bad = await errorOf(client.watch("{}").next());
    assert.ok(bad instanceof RefusedError && bad.reason === "INVALID_NAME", String(bad));
    const wrong = await errorOf(client.watch("").next());
    assert.ok(wrong instanceof MisconfiguredError && wrong.field === "name");
  });
});

describe("a wait until a lock is free", () => {
  test("ends when it is, or at its limit, or with its signal", async (t) => {
    const { url } = await Coordinator.start(t);
    const [client, other] = [clientOf(t, url), clientOf(t, url)];
    await other.connect();
    const lock = await client.lock("a");
    const waits: Promise<void>[] = [];
    for (const by of [other, other.calls]) {
      for (const wait of [0, 50]) {
        const held = await errorOf(by.awaitFree("a", { wait }));
        assert.ok(held instanceof NotGrantedError && held.reason === "WAIT_TIMEOUT", String(held));
        assert.equal(held.resource, "a");
        assert.ok((held.holderRemainingLease ?? 0) > 0);
      }
      const controller = new AbortController();
      const given = errorOf(by.awaitFree("a", { signal: controller.signal }));
      controller.abort(new Error("on purpose"));
      assert.equal(((await given) as Error).message, "on purpose");
      waits.push(by.awaitFree("a"), by.awaitFree("a", { wait: 60_000 }));
    }
    await lock.release();
    await Promise.all(waits);
    await other.awaitFree("a", { wait: 0 });
    await other.calls.awaitFree("a", { wait: 0 });
  });

  test("goes on at another coordinator without a session", async (t) => {
    const store = await startRedis(t);
    const one = await Coordinator.start(t, { store });
    const two = await Coordinator.start(t, { store });
    const lock = await clientOf(t, two.url).lock("a");
    const { calls } = clientOf(t, [one.url, two.url]);
    const wait = calls.awaitFree("a", { wait: 60_000 });
    await one.end("SIGKILL");
    assert.ok((await errorOf(calls.awaitFree("a", { wait: 50 }))) instanceof NotGrantedError);
    await lock.release();
    await wait;
  });

  test("that cannot go on says why", async (t) => {
    const client = clientOf(t, (await Coordinator.start(t)).url);
    for (const by of [client, client.calls]) {
      const bad = await errorOf(by.awaitFree("{}"));
      assert.ok(bad instanceof RefusedError && bad.reason === "INVALID_NAME", String(bad));
      const wrong = await errorOf(by.awaitFree("a", { wait: -1 }));
      assert.ok(wrong instanceof MisconfiguredError && wrong.field === "wait");
    }
    const silent = await startSilence(t);
    const nowhere = await errorOf(clientOf(t, silent).calls.awaitFree("a", { wait: 10 }));
    assert.ok(nowhere instanceof UnreachableError && nowhere.address === silent);
  });
});
