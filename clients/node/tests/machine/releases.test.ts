/** Releases, from the table "Grants" of `clients/session-machine.md`. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { UnreachableError } from "../../src/errors.js";
import { validUntil } from "../../src/machine/entries.js";
import { toDuration } from "../../src/machine/messages.js";
import { LostReason } from "../../src/proto/lockkeeper/v1/types.js";
import {
  allRequest,
  Bench,
  failed,
  grant,
  guardOf,
  kinds,
  lost,
  one,
  only,
  permitRequest,
  permits,
  resume,
  sent,
} from "./bench.js";

describe("a release", () => {
  test("is sent once, with a request id, and answered once", () => {
    const bench = Bench.up();
    const guard = bench.held();
    const release = sent(bench.step({ type: "release", guard }), "release");
    assert.notEqual(release.requestId, "");
    assert.deepEqual(bench.step({ type: "release", guard }), []);
    const done = { $case: "released", value: { released: true, holdCount: 0 } } as const;
    assert.deepEqual(one(bench.frame(done, release.opId), "released"), { type: "released", guard });
  });

  test("of a lost grant fails with the loss, and is sent nevertheless", () => {
    const bench = Bench.up();
    const guard = bench.held();
    bench.frame(lost(LostReason.STORE_UNREACHABLE));
    const effects = bench.step({ type: "release", guard });
    assert.equal(one(effects, "released").error, guard.loss);
    assert.deepEqual(kinds(effects), ["release"]);
    const { opId } = sent(effects, "release");
    assert.deepEqual(bench.frame(failed(9, "NOT_OWNER"), opId), []);
  });

  test("of a lost grant leaves the new one of the same owner", () => {
    const bench = Bench.up();
    const guard = bench.held("a", { fencingToken: 5n });
    bench.frame(lost(LostReason.EXPIRED, { fencingToken: 5n }));
    bench.held("a", { fencingToken: 6n });
    const effects = bench.step({ type: "release", guard });
    assert.equal(one(effects, "released").error, guard.loss);
    assert.deepEqual(kinds(effects), []);
  });

  test("of a lost grant that is held once more is sent, because both holds count", () => {
    const bench = Bench.up();
    const guard = bench.held("a");
    bench.frame(lost(LostReason.EXPIRED));
    bench.held("a", { holdCount: 2 });
    assert.deepEqual(kinds(bench.step({ type: "release", guard })), ["release"]);
  });

  test("of several locks leaves only those that are held anew", () => {
    const bench = Bench.up();
    const { opId } = bench.start(allRequest(["a", "b"]));
    const value = { grants: [grant("a"), grant("b")] };
    const guard = guardOf(bench.frame({ $case: "grantedAll", value }, opId));
    bench.frame(lost(LostReason.EXPIRED));
    bench.held("a", { fencingToken: 8n });
    const release = sent(bench.step({ type: "release", guard }), "release");
    assert.equal(release.name, "b");
    const done = { $case: "released", value: { released: true, holdCount: 0 } } as const;
    bench.frame(done, release.opId);
    bench.ends(new UnreachableError("http://one", "reset"));
    const named = resume(bench.run(25)).grants;
    assert.deepEqual(named.map((it) => it.name), ["a"]);
  });

  test("of permits names their ids", () => {
    const bench = Bench.up();
    const { opId } = bench.start(permitRequest(2));
    const value = permits(["p", "q"]);
    const guard = guardOf(bench.frame({ $case: "permitsGranted", value }, opId));
    const release = sent(bench.step({ type: "release", guard }), "releasePermits");
    assert.deepEqual(release.permitIds, ["p", "q"]);
  });

  test("of one hold leaves the other", () => {
    const bench = Bench.up();
    const first = bench.held("a");
    const second = bench.held("a", { holdCount: 2 });
    const { opId } = sent(bench.step({ type: "release", guard: first }), "release");
    bench.frame({ $case: "released", value: { released: false, holdCount: 1 } }, opId);
    const effects = bench.frame(lost(LostReason.EXPIRED));
    assert.deepEqual(only(effects, "lost").map((it) => it.guard), [second]);
  });

  test("does not lend its validity to a new grant of the same owner", () => {
    const bench = Bench.up();
    bench.step({ type: "release", guard: bench.held("a") });
    const short = { watched: false, validFor: toDuration(1_000), fencingToken: 8n };
    const guard = bench.held("a", short);
    assert.equal(validUntil(guard), bench.now + 1_000);
  });
});
