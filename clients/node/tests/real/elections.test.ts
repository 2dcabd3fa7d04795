/** Elections, against a real coordinator. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, test } from "node:test";

import {
  LockLostError,
  MisconfiguredError,
  NotGrantedError,
  RefusedError,
  UnreachableError,
} from "../../src/index.js";
import type {
  CampaignOptions,
  Election,
  ElectionEvent,
  Leader,
  YieldRequest,
} from "../../src/index.js";
import { clientOf, errorOf, forceRelease } from "../clients.js";
import { Coordinator, eventually, startRedis, startSilence } from "../world.js";

/** More than the store keeps. */
const MANY_VALUES = 70;

/** Events one after the other. */
class Seen {
  readonly #events: AsyncGenerator<ElectionEvent, void, undefined>;

  constructor(election: Election, options: Parameters<Election["observe"]>[0] = {}) {
    this.#events = election.observe(options);
  }

  async next(): Promise<ElectionEvent> {
    const { done, value } = await this.#events.next();
    assert.ok(done !== true);
    return value;
  }

  /** The next leader. There may be none before it has proclaimed its value. */
  async leader(): Promise<Leader> {
    let event = await this.next();
    while (event.type === "no_leader") {
      event = await this.next();
    }
    assert.ok(event.type === "leader", event.type);
    return event.leader;
  }

  async expect(term: bigint, value: string): Promise<Leader> {
    const leader = await this.leader();
    assert.deepEqual([leader.term, leader.value], [term, value]);
    return leader;
  }

  async end(): Promise<void> {
    await this.#events.return();
  }
}

describe("an election", () => {
  test("has leaders in order, and observers see every term", async (t) => {
    const { url } = await Coordinator.start(t);
    const [client, other] = [clientOf(t, url, { clientName: "app-1" }), clientOf(t, url)];
    await other.connect();
    const election = other.election("e");
    assert.equal(await election.leader(), null);
    const seen = new Seen(election);
    assert.equal((await seen.next()).type, "no_leader");
    const first = await client.election("e").campaign("a:1");
    const leader = await seen.expect(first.term, "a:1");
    assert.equal(leader.clientName, "app-1");
    assert.deepEqual(await election.leader(), leader);
    assert.equal(await first.proclaim("a:2"), leader.revision + 1n);
    assert.equal((await seen.expect(first.term, "a:2")).revision, leader.revision + 1n);

    const wait = election.campaign("b:1");
    assert.ok((await errorOf(election.campaign("b:2", { wait: 50 }))) instanceof NotGrantedError);
    await first.resign();
    const second = await wait;
    assert.ok(second.term > first.term);
    await seen.expect(second.term, "b:1");
    const late = await errorOf(first.proclaim("late"));
    assert.ok(late instanceof RefusedError && late.reason === "NOT_OWNER");
    await second.release();
    assert.equal((await seen.next()).type, "no_leader");
    await seen.end();
  });

  test("is led by a preferred candidate before the others", async (t) => {
    const { url } = await Coordinator.start(t);
    const [client, other] = [clientOf(t, url), clientOf(t, url)];
    const first = await client.election("e").campaign("first");
    const asked = new Promise<YieldRequest>((resolve) => {
      first.onYieldRequested(resolve);
    });
    const led: string[] = [];
    const campaign = async (value: string, options: CampaignOptions = {}): Promise<void> => {
      const leadership = await other.election("e").campaign(value, options);
      led.push(value);
      await leadership.resign();
    };
    const waits = campaign("waits");
    await eventually("a candidate waits", async () => {
      return (await client.describe("e")).waiterCount === 1;
    });
    const preferred = campaign("preferred", { preferred: true });
    await asked;
    await first.resign();
    await Promise.all([waits, preferred]);
    assert.deepEqual(led, ["preferred", "waits"]);
  });

  test("has no candidate that gave up, and no leader whose value is refused", async (t) => {
    const { url } = await Coordinator.start(t);
    const [client, other] = [clientOf(t, url), clientOf(t, url)];
    const first = await client.election("e").campaign("first");
    const controller = new AbortController();
    const { signal } = controller;
    const given = errorOf(other.election("e").campaign("never", { signal }));
    const next = other.election("e").campaign("next");
    controller.abort(new Error("on purpose"));
    assert.equal((await given as Error).message, "on purpose");
    await first.resign();
    const leadership = await next;
    assert.equal((await client.election("e").leader())?.value, "next");
    await leadership.resign();
    const refused = await errorOf(client.election("e").campaign("x".repeat(1025)));
    assert.ok(refused instanceof RefusedError, String(refused));
    assert.ok(await other.tryLock("e"));
    const wrong = await errorOf(client.election("e").campaign(7 as unknown as string));
    assert.ok(wrong instanceof MisconfiguredError && wrong.field === "value");
  });

  test("tells a leader that it has lost", async (t) => {
    const coordinator = await Coordinator.start(t);
    const client = clientOf(t, coordinator.url);
    const leadership = await client.election("e").campaign("a");
    const lost = once(leadership.signal, "abort");
    await forceRelease(coordinator, "e", "maintenance");
    await lost;
    const { loss } = leadership;
    assert.ok(loss instanceof LockLostError && loss.reason === "FORCE_RELEASED");
    assert.equal(await errorOf(leadership.proclaim("b")), loss);
    assert.equal(await errorOf(leadership.resign()), loss);
    assert.equal(await client.election("e").leader(), null);
  });
});

describe("an observer", () => {
  test("goes on after a revision, and is told of a gap", async (t) => {
    const client = clientOf(t, (await Coordinator.start(t)).url);
    const election = client.election("e");
    const leadership = await election.campaign("0");
    const afterRevision = (await election.leader())?.revision ?? 0n;
    await leadership.proclaim("1");
    const after = new Seen(election, { afterRevision });
    assert.equal((await after.expect(leadership.term, "1")).revision, afterRevision + 1n);
    await after.end();
    for (let value = 2; value < MANY_VALUES; value += 1) {
      await leadership.proclaim(String(value));
    }
    const late = new Seen(election, { afterRevision });
    assert.equal((await late.next()).type, "missed");
    assert.ok((await late.leader()).revision > afterRevision + 1n);
    await late.end();
  });

  test("goes on at another coordinator", async (t) => {
    const store = await startRedis(t);
    const one = await Coordinator.start(t, { store });
    const two = await Coordinator.start(t, { store });
    const watcher = clientOf(t, [one.url, two.url]);
    const seen = new Seen(watcher.election("e"));
    assert.equal((await seen.next()).type, "no_leader");
    const leadership = await clientOf(t, two.url).election("e").campaign("1");
    const { revision } = await seen.expect(leadership.term, "1");
    await one.end("SIGKILL");
    await leadership.proclaim("2");
    await leadership.proclaim("3");
    assert.equal((await seen.expect(leadership.term, "2")).revision, revision + 1n);
    await seen.expect(leadership.term, "3");
    await seen.end();
  });

  test("that has seen no leader is told of a gap", async (t) => {
    const [one, two] = [await Coordinator.start(t), await Coordinator.start(t)];
    const seen = new Seen(clientOf(t, [one.url, two.url]).election("e"));
    assert.equal((await seen.next()).type, "no_leader");
    await one.end("SIGKILL");
    assert.equal((await seen.next()).type, "missed");
    assert.equal((await seen.next()).type, "no_leader");
    await seen.end();
  });

  test("ends with its loop, or with its signal", async (t) => {
    const election = clientOf(t, (await Coordinator.start(t)).url).election("e");
    for await (const event of election.observe()) {
      assert.equal(event.type, "no_leader");
      break;
    }
    const controller = new AbortController();
    const { signal } = controller;
    const events = election.observe({ signal });
    await events.next();
    const next = errorOf(events.next());
    controller.abort(new Error("on purpose"));
    assert.equal(((await next) as Error).message, "on purpose");
    const aborted = errorOf(election.observe({ signal }).next());
    assert.equal(((await aborted) as Error).message, "on purpose");
  });

  test("that cannot begin says why", async (t) => {
    const { url } = await Coordinator.start(t);
    const bad = await errorOf(clientOf(t, url).election("{}").observe().next());
    assert.ok(bad instanceof RefusedError && bad.reason === "INVALID_NAME", String(bad));
    const silent = await startSilence(t);
    const nowhere = clientOf(t, ["http://127.0.0.1:1", silent]).election("e");
    const error = await errorOf(nowhere.observe().next());
    assert.ok(error instanceof UnreachableError && error.address === silent, String(error));
  });
});
