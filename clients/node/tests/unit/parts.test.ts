/** The small parts: addresses, options, the clock, deadlines, durations. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { parseAddress } from "../../src/address.js";
import { Clock } from "../../src/clock.js";
import { toError } from "../../src/connector.js";
import { Lockkeeper, MisconfiguredError, UnreachableError } from "../../src/index.js";
import type { ClientOptions, LockMode } from "../../src/index.js";
import { Deadlines } from "../../src/machine/deadlines.js";
import type { Scheduled } from "../../src/machine/deadlines.js";
import { toDuration, toMs } from "../../src/machine/messages.js";
import { errorOf } from "../clients.js";

describe("an address", () => {
  test("is a URL, or a host and a port", () => {
    const targets = [
      ["http://locks:7625", "dns:locks:7625", false],
      ["locks:7625", "dns:locks:7625", false],
      ["https://locks:7625/", "dns:locks:7625", true],
      ["https://locks", "dns:locks:443", true],
      ["http://[::1]:7625", "dns:[::1]:7625", false],
      ["unix:///run/lockkeeper.sock", "unix:/run/lockkeeper.sock", false],
    ] as const;
    for (const [text, target, isTls] of targets) {
      const address = parseAddress(text);
      assert.deepEqual([address.target, address.isTls], [target, isTls], text);
    }
    assert.equal(parseAddress("locks:7625").text, "http://locks:7625");
  });

  test("of another form is refused, and named", () => {
    for (const text of ["", "http://", "unix://x", "redis://locks:1", "http://locks:1/path"]) {
      const named = { name: MisconfiguredError.name, message: /^endpoints: "/ };
      assert.throws(() => parseAddress(text), named, text);
    }
  });
});

test("a call without an answer has no reachable coordinator: nobody has refused it", () => {
  const late = { code: 4, details: "Deadline exceeded after 9.998s,Waiting for LB pick" };
  const error = toError(late, parseAddress("locks:1"), true);
  assert.ok(error instanceof UnreachableError);
  assert.equal(error.message, "no coordinator at http://locks:1: the coordinator does not answer");
});

describe("options", () => {
  test("that cannot be used name their field, and nothing is sent", async () => {
    const wrong: [Partial<ClientOptions>, string][] = [
      [{ endpoints: [] }, "endpoints"],
      [{ lease: 0 }, "lease"],
      [{ token: "a", tokenFile: "b" }, "token"],
      [{ endpoints: "https://locks:1", tls: { keyFile: "/k" } }, "tls.keyFile"],
      [{ endpoints: "https://locks:1", tls: { caFile: "/no/such/file" } }, "tls.caFile"],
    ];
    for (const [options, field] of wrong) {
      const create = (): Lockkeeper => new Lockkeeper({ endpoints: "locks:1", ...options });
      assert.throws(create, { name: MisconfiguredError.name, field });
    }
    const client = new Lockkeeper({ endpoints: "locks:1" });
    const calls = [
      [client.lock(""), "name"],
      [client.lock("a", { wait: -1 }), "wait"],
      [client.lock("a", { wait: Number.NaN }), "wait"],
      [client.lock("a", { lease: Infinity }), "lease"],
      [client.lock("a", { mode: "shared" as LockMode }), "mode"],
      [client.lock("a", { minReplicaAcks: 1.5 }), "minReplicaAcks"],
      [client.lockAll(["a", ""]), "names"],
      [client.semaphore("s").acquire(-1), "permits"],
      [client.calls.tryAcquire("a", { lease: -1 }), "lease"],
    ] as const;
    for (const [call, field] of calls) {
      const error = await errorOf(call);
      assert.ok(error instanceof MisconfiguredError, String(error));
      assert.equal(error.field, field);
    }
    assert.equal(client.state, undefined);
    await client.close();
  });
});

describe("the clock", () => {
  test("also counts the time in which the machine slept", () => {
    let [monotonic, uptime] = [1_000, 50_000];
    const clock = new Clock(
      () => monotonic,
      () => uptime,
    );
    assert.equal(clock.check(), 1_000);
    monotonic += 10;
    uptime += 20; // The resolution of the uptime is no sleep.
    assert.equal(clock.check(), 1_010);
    uptime += 60_000;
    assert.equal(clock.now(), 1_010);
    assert.equal(clock.check(), 61_020);
    monotonic += 5;
    uptime += 5;
    assert.equal(clock.now(), 61_025);
  });

  test("never goes back", () => {
    let uptime: number | undefined = 50_000;
    const clock = new Clock(
      () => 1_000,
      () => uptime,
    );
    uptime = 1;
    assert.equal(clock.check(), 1_000);
    uptime = undefined;
    assert.equal(clock.check(), 1_000);
  });
});

describe("deadlines", () => {
  test("come in the order of their times, however they were set, moved and removed", () => {
    const deadlines = new Deadlines<Scheduled>();
    const entries = Array.from({ length: 200 }, () => ({ due: 0, place: -1 }));
    let seed = 1;
    const random = (): number => (seed = (seed * 48_271) % 2_147_483_647) % 1_000;
    for (const round of [1, 2]) {
      for (const entry of entries) {
        deadlines.set(entry, random() * round);
      }
    }
    const removed = entries.filter((_, index) => index % 3 === 0);
    removed.forEach((it) => {
      deadlines.delete(it);
      deadlines.delete(it);
    });
    const seen = [];
    assert.equal(deadlines.popDue(-1), undefined);
    for (let it = deadlines.popDue(Infinity); it; it = deadlines.popDue(Infinity)) {
      seen.push(it);
    }
    const left = entries.filter((it) => !removed.includes(it));
    assert.equal(seen.length, left.length);
    assert.deepEqual(
      seen.map((it) => it.due),
      left.map((it) => it.due).sort((one, other) => one - other),
    );
    assert.equal(deadlines.next(), undefined);
  });
});

describe("durations", () => {
  test("keep parts of milliseconds, and large numbers", () => {
    for (const ms of [0, 1, 999, 1_000, 1_500.25, 86_400_000]) {
      assert.equal(toMs(toDuration(ms)), ms);
    }
    assert.equal(toMs(undefined), 0);
  });
});
