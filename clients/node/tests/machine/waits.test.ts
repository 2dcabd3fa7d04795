/** A wait limit that passes while no stream is open ends the wait in the client. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { UnreachableError } from "../../src/errors.js";
import type { Effect } from "../../src/machine/events.js";
import {
  Bench,
  failed,
  failedFor,
  grant,
  kinds,
  one,
  only,
  PING,
  resume,
  sent,
  tryRequest,
} from "./bench.js";

const reset = new UnreachableError("http://one:1", "reset");
const refused = new UnreachableError("http://two:2", "connection refused");

/** The failure of a wait whose limit has passed. */
function ended(effects: readonly Effect[], opId: number): UnreachableError {
  const failed = one(effects, "failed");
  assert.equal(failed.opId, opId);
  assert.ok(failed.error instanceof UnreachableError);
  return failed.error;
}

/** A bench whose stream broke. */
function broken(): Bench {
  const bench = Bench.up();
  bench.ends(reset);
  bench.effects = [];
  return bench;
}

describe("a limit", () => {
  test("that passes without a stream ends the wait, which is never sent", () => {
    const bench = broken();
    const opId = bench.lock("a", { wait: 300 });
    bench.run(50);
    bench.ends(refused);
    bench.run(249);
    assert.deepEqual(only(bench.effects, "failed"), []);
    bench.run(1);
    assert.equal(ended(bench.effects, opId), refused);
    assert.deepEqual(kinds(bench.opened()), []);
  });

  test("of a wait that may have been granted is like a cancel by its caller", () => {
    const bench = Bench.up();
    const opId = bench.lock("a", { wait: 300 });
    const { requestId } = sent(bench.effects, "acquire");
    bench.effects = [];
    bench.ends(reset);
    bench.run(50);
    assert.deepEqual(
      resume(bench.effects).grants.map((it) => it.name),
      ["a"],
    );
    bench.run(250);
    assert.equal(ended(bench.effects, opId), reset);
    const effects = bench.opened({ grants: [grant("a")] });
    assert.deepEqual(kinds(effects), ["acquire", "cancel"]);
    assert.equal(sent(effects, "acquire").requestId, requestId);
    const late = bench.frame({ $case: "granted", value: grant("a") }, opId);
    assert.deepEqual(kinds(late), ["release"]);
    assert.deepEqual(only(late, "granted"), []);
  });

  test("is the coordinator's as long as the stream is open", () => {
    const bench = Bench.up();
    const opId = bench.lock("a", { wait: 100 });
    bench.run(200);
    assert.deepEqual(only(bench.effects, "failed"), []);
    assert.equal(ended(bench.ends(reset), opId), reset);
  });

  test("is the coordinator's again after a resume in time", () => {
    const bench = Bench.up();
    bench.lock("a", { wait: 100 });
    bench.ends(reset);
    bench.run(50);
    bench.opened();
    bench.run(100);
    assert.deepEqual(only(bench.effects, "failed"), []);
  });

  test("is overrun by at most two pings if the coordinator is silent", () => {
    const bench = Bench.up();
    const opId = bench.lock("a", { wait: 10 });
    bench.run(2 * PING);
    const { message } = ended(bench.effects, opId);
    assert.equal(message, "no coordinator at http://one: no answer to a ping");
  });

  test("that passed before a retry leaves one try", () => {
    const bench = Bench.up();
    const opId = bench.lock("a", { wait: 100 });
    bench.frame(failedFor("STORE_UNAVAILABLE", 1_000), opId);
    bench.effects = [];
    bench.run(1_000);
    assert.deepEqual(sent(bench.effects, "acquire").waitTimeout, { seconds: 0n, nanos: 0 });
  });

  test("replaces a pause before a retry when the stream ends", () => {
    const bench = Bench.up();
    const opId = bench.lock("a", { wait: 100 });
    bench.frame(failedFor("STORE_UNAVAILABLE", 5_000), opId);
    bench.ends(reset);
    bench.run(100);
    assert.equal(ended(bench.effects, opId), reset);
  });

  test("covers the opening of the session, but a limit of 0 waits for it", () => {
    const bench = new Bench(["http://one"]);
    bench.step({ type: "open" });
    const [opId, attempt] = [bench.lock("a", { wait: 100 }), bench.lock("b", { wait: 0 })];
    bench.run(100);
    const { message } = ended(bench.effects, opId);
    assert.equal(message, "no coordinator at http://one: it has not answered yet");
    assert.equal(sent(bench.opened(), "acquire").opId, BigInt(attempt));
  });

  test("of 0 ends at once while a session is resumed", () => {
    const bench = broken();
    assert.equal(ended(bench.effects, bench.lock("a", { wait: 0 })), reset);
  });
});

describe("a try", () => {
  const question = { $case: "describeLatch", value: { name: "a" } } as const;
  for (const request of [tryRequest(), question]) {
    test(`without a limit lasts 6 s while a session is resumed: ${request.$case}`, () => {
      const bench = broken();
      const { opId } = bench.start(request);
      bench.run(5_999);
      assert.deepEqual(only(bench.effects, "failed"), []);
      bench.run(1);
      ended(bench.effects, opId);
    });
  }

  test("without a limit waits for each endpoint of a new session", () => {
    const bench = new Bench(["http://one", "http://two"]);
    bench.step({ type: "open" });
    const { opId } = bench.start(tryRequest());
    bench.run(6_000);
    assert.equal(sent(bench.opened(), "tryAcquire").opId, BigInt(opId));
  });

  test("that fails after its limit ends, and a late grant is released", () => {
    const bench = Bench.up();
    const { opId } = bench.start(tryRequest(), { waitUntil: bench.now + 100 });
    bench.frame(failed(14, "OUTCOME_UNKNOWN"), opId);
    bench.run(200);
    one(bench.frame(failed(14, "STORE_UNAVAILABLE"), opId), "failed");
    bench.run(200);
    const value = { acquired: true, grant: grant(), holderRemainingLease: undefined };
    assert.equal(sent(bench.frame({ $case: "tried", value }, opId), "release").name, "a");
  });
});
