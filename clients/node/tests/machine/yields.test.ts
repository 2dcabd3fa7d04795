/** Requests of other callers to release a grant. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { toDuration } from "../../src/machine/messages.js";
import type { Response } from "../../src/machine/messages.js";
import { Bench, grant, guardOf, LEASE, one, only, sent } from "./bench.js";

const WITHIN = 5_000;

const asked = (name: string, fencingToken = grant(name).fencingToken): Response => ({
  $case: "yieldRequested",
  value: {
    grant: grant(name, { fencingToken, validFor: undefined }),
    by: "ops",
    reason: "why",
    within: toDuration(WITHIN),
    preempt: true,
  },
});

describe("a request to yield", () => {
  test("is told, and the grant stays held", () => {
    const bench = Bench.up();
    const guard = bench.held();
    const effect = one(bench.frame(asked("a")), "asked");
    const expected = { name: "a", by: "ops", reason: "why", within: WITHIN, preempts: true };
    assert.deepEqual(effect.request, expected);
    assert.equal(effect.grant, guard.grants[0]);
    assert.deepEqual(effect.grant.asked, { request: expected, until: bench.now + WITHIN });
    assert.equal(guard.loss, undefined);
  });

  test("for another grant is ignored", () => {
    const bench = Bench.up();
    const early = bench.frame(asked("a"));
    const guard = bench.held();
    const { fencingToken } = grant("a");
    const others = [asked("b"), asked("a", fencingToken - 1n), asked("a", fencingToken + 1n)];
    const effects = [early, ...others.map((it) => bench.frame(it))];
    bench.step({ type: "release", guard });
    effects.push(bench.frame(asked("a")));
    assert.deepEqual(effects, [[], [], [], [], []]);
  });

  test("is known to a guard that is delivered later, and to one more hold", () => {
    const bench = Bench.up();
    const opId = bench.lock();
    bench.now += LEASE / 3 + 1;
    const renew = sent(bench.frame({ $case: "granted", value: grant() }, opId), "renew");
    bench.frame(asked("a"));
    const value = { grant: grant() };
    const late = guardOf(bench.frame({ $case: "renewed", value }, renew.opId));
    assert.equal(late.grants[0]?.asked?.request.reason, "why");
    const again = bench.held();
    assert.equal(again.grants[0], late.grants[0]);
    const { fencingToken } = grant();
    assert.equal(bench.held("a", { fencingToken: fencingToken + 1n }).grants[0]?.asked, undefined);
    assert.deepEqual(only(bench.effects, "lost"), []);
  });
});
