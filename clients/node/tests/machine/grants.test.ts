/** The rows of the table "Grants" of `clients/session-machine.md`, and "Validity". */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { LockLostError, UnreachableError } from "../../src/errors.js";
import type { GuardEntry } from "../../src/machine/entries.js";
import { validUntil } from "../../src/machine/entries.js";
import type { Effect } from "../../src/machine/events.js";
import { renewalOf } from "../../src/machine/holding.js";
import { toDuration } from "../../src/machine/messages.js";
import type { Response } from "../../src/machine/messages.js";
import { LostReason } from "../../src/proto/lockkeeper/v1/types.js";
import type { Grant } from "../../src/proto/lockkeeper/v1/types.js";
import {
  allRequest,
  Bench,
  failed,
  grant,
  guardOf,
  kinds,
  LEASE,
  lost,
  one,
  only,
  permitRequest,
  permits,
  RENEW,
  sent,
} from "./bench.js";

const broken = new UnreachableError("http://one", "reset");

const renewed = (fields: Partial<Grant> = {}, name = "a"): Response => ({
  $case: "renewed",
  value: { grant: grant(name, fields) },
});
describe("a notice of a loss", () => {
  const validForOf = (given: number): unknown => {
    const bench = Bench.up();
    bench.held();
    const { value } = lost(LostReason.FORCE_RELEASED) as Response & { $case: "lost" };
    const validFor = toDuration(given);
    return only(bench.frame({ $case: "lost", value: { ...value, validFor } }), "lost")[0]?.guard
      .loss?.validFor;
  };

  test("says for how long nobody else can acquire the lock, at most until the lease ends", () => {
    assert.equal(validForOf(0), 0);
    assert.equal(validForOf(1_000), 1_000);
    assert.equal(validForOf(2 * LEASE), LEASE);
  });
});

/** The reasons of the guards that effects report as lost. */
function losses(effects: readonly Effect[]): unknown[] {
  return only(effects, "lost").map(({ guard }) => guard.loss?.reason);
}

describe("the validity of a grant", () => {
  test("is counted from before the request was sent", () => {
    const bench = Bench.up();
    const sentAt = bench.now;
    const opId = bench.lock();
    bench.now += 5_000;
    const guard = guardOf(bench.frame({ $case: "granted", value: grant() }, opId));
    assert.equal(validUntil(guard), sentAt + LEASE);
  });

  test("of an old answer is renewed first, and counted from before the renewal", () => {
    const bench = Bench.up();
    const opId = bench.lock();
    bench.now += LEASE / 3 + 1;
    const effects = bench.frame({ $case: "granted", value: grant() }, opId);
    assert.deepEqual(only(effects, "granted"), []);
    const renew = sent(effects, "renew");
    assert.equal(renew.lease, undefined);
    const sentAt = bench.now;
    bench.now += 100;
    const guard = guardOf(bench.frame(renewed(), renew.opId));
    assert.equal(validUntil(guard), sentAt + LEASE);
  });

  test("of an old answer with a lease of its own is renewed once", () => {
    const bench = Bench.up();
    const opId = bench.lock("a", { lease: 3_000 });
    bench.now += 60_000;
    const own = { watched: false, lease: toDuration(3_000), validFor: toDuration(2_900) };
    const effects = bench.frame({ $case: "granted", value: grant("a", own) }, opId);
    const guard = guardOf(bench.frame(renewed(own), sent(effects, "renew").opId));
    assert.deepEqual(kinds(bench.run(2_899)), []);
    assert.deepEqual(losses(bench.run(1)), ["EXPIRED"]);
    assert.equal(guard.loss?.reason, "EXPIRED");
  });

  test("of an old answer is confirmed by a resume as well", () => {
    const bench = Bench.up();
    const opId = bench.lock();
    bench.now += LEASE / 2;
    bench.frame({ $case: "granted", value: grant() }, opId);
    bench.ends(broken);
    bench.run(25);
    const sentAt = bench.now;
    assert.equal(validUntil(guardOf(bench.opened({ grants: [grant()] }))), sentAt + LEASE);
  });

  test("that cannot be confirmed fails the acquire, and releases the rest", () => {
    const bench = Bench.up();
    const { opId } = bench.start(allRequest(["a", "b"]));
    bench.now += LEASE / 2;
    const grants = [grant("a"), grant("b")];
    const effects = bench.frame({ $case: "grantedAll", value: { grants } }, opId);
    const [first] = only(effects, "send").map((it) => it.frame.opId);
    const end = bench.frame(failed(9, "NOT_OWNER"), first);
    assert.ok(one(end, "failed").error instanceof LockLostError);
    assert.equal(one(end, "failed").opId, opId);
    assert.deepEqual(kinds(end), ["releaseAll"]);
    assert.deepEqual(only(end, "lost"), []);
  });

  test("that is awaited by a caller who gives up is released", () => {
    const bench = Bench.up();
    const opId = bench.lock();
    bench.now += LEASE / 2;
    const renew = sent(bench.frame({ $case: "granted", value: grant() }, opId), "renew");
    assert.deepEqual(kinds(bench.step({ type: "abandon", opId })), ["release"]);
    assert.deepEqual(bench.frame(renewed(), renew.opId), []);
  });

  test("of a lock that its owner holds already is not extended by an old answer", () => {
    const bench = Bench.up();
    const guard = bench.held();
    const until = validUntil(guard);
    const opId = bench.lock();
    bench.now += LEASE / 2;
    bench.frame({ $case: "granted", value: grant("a", { holdCount: 2 }) }, opId);
    assert.equal(validUntil(guard), until);
  });

  test("of an old answer is not lent to another guard", () => {
    const bench = Bench.up();
    const late = bench.lock();
    bench.now += LEASE / 2;
    const sentAt = bench.now;
    const early = bench.lock();
    bench.now += 1_000;
    bench.frame({ $case: "granted", value: grant() }, late);
    const value = grant("a", { holdCount: 2 });
    const guard = guardOf(bench.frame({ $case: "granted", value }, early));
    assert.equal(validUntil(guard), sentAt + LEASE);
  });

  test("of an older grant is not lent to a newer one", () => {
    const bench = Bench.up();
    bench.held();
    const short = { validFor: toDuration(1_000), fencingToken: 8n };
    assert.equal(validUntil(bench.held("a", short)), bench.now + 1_000);
  });
});

describe("a renewal", () => {
  test("of a watched grant follows after the interval, counted from before the last", () => {
    const bench = Bench.up();
    const guard = bench.held();
    assert.ok(!kinds(bench.run(RENEW - 1)).includes("renew"));
    const renew = sent(only(bench.run(1), "send"), "renew");
    const sentAt = bench.now;
    bench.now += 1_000;
    bench.frame(renewed(), renew.opId);
    assert.equal(validUntil(guard), sentAt + LEASE);
    assert.equal(guard.grants[0]?.renewAt, sentAt + RENEW);
  });

  test("of a grant with another lease follows after 3/10 of that", () => {
    const bench = Bench.up();
    const [{ renewAt } = { renewAt: 0 }] = bench.held("a", { lease: toDuration(10_000) }).grants;
    assert.equal(renewAt, bench.now + 3_000);
  });

  test("of a coordinator without a renew interval follows after 3/10 of the lease", () => {
    const bench = new Bench();
    bench.step({ type: "open" });
    bench.opened({ renewInterval: undefined });
    assert.equal(bench.held().grants[0]?.renewAt, bench.now + 9_000);
  });

  test("is not sent for a lease that the request set", () => {
    const bench = Bench.up();
    bench.held("a", { watched: false });
    const sent = only(bench.run(LEASE), "send").map((it) => it.frame.request?.$case);
    assert.ok(!sent.includes("renew"));
  });

  test("does not shorten the validity", () => {
    const bench = Bench.up();
    const guard = bench.held();
    const until = validUntil(guard);
    bench.now += RENEW;
    const renew = sent(bench.step({ type: "tick" }), "renew");
    bench.frame(renewed({ validFor: toDuration(1_000) }), renew.opId);
    assert.equal(validUntil(guard), until);
  });

  test("that finds another owner is a loss", () => {
    const ways = [
      [[["state", "held_by_another"]], "TAKEN_OVER"],
      [[["state", "expired"]], "EXPIRED"],
      [[], "EXPIRED"],
    ] as const;
    for (const [metadata, reason] of ways) {
      const bench = Bench.up();
      bench.held();
      bench.now += RENEW;
      const { opId } = sent(bench.step({ type: "tick" }), "renew");
      const pairs = metadata.map(([key, value]): [string, string] => [key, value]);
      assert.deepEqual(losses(bench.frame(failed(9, "NOT_OWNER", pairs), opId)), [reason]);
    }
  });

  test("that finds no owner of an older grant is no loss of the newer one", () => {
    const bench = Bench.up();
    bench.held();
    bench.now += RENEW;
    const { opId } = sent(bench.step({ type: "tick" }), "renew");
    bench.held("a", { fencingToken: 8n });
    assert.deepEqual(losses(bench.frame(failed(9, "NOT_OWNER"), opId)), []);
    assert.deepEqual(kinds(bench.pass(200)), ["renew"]);
  });

  test("of an older grant says nothing about the newer one", () => {
    const bench = Bench.up();
    bench.held();
    bench.now += RENEW;
    const { opId } = sent(bench.step({ type: "tick" }), "renew");
    bench.frame(lost(LostReason.EXPIRED));
    const short = { watched: false, validFor: toDuration(1_000), fencingToken: 8n };
    const guard = bench.held("a", short);
    bench.frame(renewed(), opId);
    assert.equal(validUntil(guard), bench.now + 1_000);
    assert.equal(guard.grants[0]?.renewAt, undefined);
  });

  test("that fails otherwise is repeated, and only time decides", () => {
    const bench = Bench.up();
    const guard = bench.held();
    bench.now += RENEW;
    const { opId } = sent(bench.step({ type: "tick" }), "renew");
    assert.deepEqual(bench.frame(failed(14, "STORE_UNAVAILABLE"), opId), []);
    assert.equal(guard.loss, undefined);
    assert.deepEqual(bench.pass(199), []);
    assert.deepEqual(kinds(bench.pass(1)), ["renew"]);
  });

  test("starts anew on the next stream", () => {
    const bench = Bench.up();
    bench.held();
    bench.now += RENEW;
    bench.step({ type: "tick" });
    bench.ends(broken);
    bench.run(50);
    bench.opened({ grants: [grant()] });
    assert.deepEqual(kinds(bench.run(RENEW)).filter((it) => it === "renew"), ["renew"]);
  });

  test("by the user sets the validity, and finds a loss", () => {
    const bench = Bench.up();
    const own = { watched: false, validFor: toDuration(1_000) };
    const guard = bench.held("a", own, { lease: 1_000 });
    const [entry] = guard.grants as [GuardEntry["grants"][0]];
    const renews = (lease?: number): { opId: number; sent: Effect[] } =>
      bench.start(renewalOf(entry.holding, lease), { renews: entry });
    const { opId, sent: effects } = renews(5_000);
    assert.deepEqual(sent(effects, "renew").lease, toDuration(5_000));
    bench.frame(renewed({ ...own, validFor: toDuration(5_000) }), opId);
    assert.equal(validUntil(guard), bench.now + 5_000);
    const end = bench.frame(failed(9, "NOT_OWNER"), renews().opId);
    assert.ok(one(end, "failed").error instanceof LockLostError);
    assert.deepEqual(losses(end), ["EXPIRED"]);
  });
});

describe("a loss", () => {
  test("is reported when the validity ends", () => {
    const bench = Bench.up();
    bench.held("a", { watched: false, validFor: toDuration(1_000) });
    assert.deepEqual(losses(bench.pass(999)), []);
    assert.deepEqual(losses(bench.pass(1)), ["EXPIRED"]);
    assert.deepEqual(losses(bench.run(1_000)), []);
  });

  test("by a notice is reported once, with its reason and detail", () => {
    const bench = Bench.up();
    const guard = bench.held();
    const effects = bench.frame(lost(LostReason.FORCE_RELEASED, {}, "maintenance"));
    assert.deepEqual(losses(effects), ["FORCE_RELEASED"]);
    assert.equal(guard.loss?.detail, "maintenance");
    assert.deepEqual(bench.frame(lost(LostReason.EXPIRED)), []);
  });

  test("of an older grant is ignored", () => {
    const bench = Bench.up();
    bench.held("a", { fencingToken: 9007199254740993n });
    const older = lost(LostReason.EXPIRED, { fencingToken: 9007199254740992n });
    assert.deepEqual(bench.frame(older), []);
  });

  test("of what is being released is ignored", () => {
    const bench = Bench.up();
    bench.step({ type: "release", guard: bench.held() });
    assert.deepEqual(bench.frame(lost(LostReason.EXPIRED)), []);
    assert.deepEqual(losses(bench.run(LEASE)), []);
  });

  test("of one of several locks is that of all, once", () => {
    const bench = Bench.up();
    const { opId } = bench.start(allRequest(["a", "b"]));
    const grants = [grant("a"), grant("b", { validFor: toDuration(9_000), watched: false })];
    const guard = guardOf(bench.frame({ $case: "grantedAll", value: { grants } }, opId));
    assert.deepEqual(losses(bench.frame(lost(LostReason.TAKEN_OVER))), ["TAKEN_OVER"]);
    assert.deepEqual(losses(bench.run(9_000)), []);
    assert.equal(guard.loss?.resource, "a");
  });

  test("of a lock that one owner acquired twice reaches both guards", () => {
    const bench = Bench.up();
    const guards = [bench.held("a"), bench.held("a", { holdCount: 2 })];
    const effects = bench.frame(lost(LostReason.EXPIRED));
    assert.deepEqual(only(effects, "lost").map((it) => it.guard), guards);
  });

  test("of permits has no token", () => {
    const bench = Bench.up();
    const { opId } = bench.start(permitRequest(2));
    const value = permits(["p", "q"]);
    const guard = guardOf(bench.frame({ $case: "permitsGranted", value }, opId));
    const notice = { grant: permits(["q"]), reason: LostReason.EXPIRED };
    assert.deepEqual(losses(bench.frame({ $case: "permitsLost", value: notice })), ["EXPIRED"]);
    assert.equal(guard.loss?.fencingToken, 0n);
  });

  test("has words for every reason", () => {
    for (const reason of Object.values(LostReason).filter((it) => typeof it === "number")) {
      const bench = Bench.up();
      bench.held();
      const [guard] = only(bench.frame(lost(reason)), "lost").map((it) => it.guard);
      assert.ok(guard?.loss !== undefined);
      assert.doesNotMatch(guard.loss.message, /undefined/);
    }
  });

  test("of an unknown reason is reported without one", () => {
    const bench = Bench.up();
    bench.held();
    assert.deepEqual(losses(bench.frame(lost(LostReason.UNRECOGNIZED))), ["UNSPECIFIED"]);
  });
});

describe("at_risk and recovered", () => {
  test("are states, and take nothing", () => {
    const bench = Bench.up();
    const guard = bench.held();
    const risk = bench.frame({ $case: "atRisk", value: { validFor: toDuration(4_000) } });
    assert.deepEqual(one(risk, "state").change, { state: "at_risk", validFor: 4_000 });
    const again = bench.frame({ $case: "recovered", value: {} });
    assert.deepEqual(one(again, "state").change, { state: "connected" });
    assert.equal(guard.loss, undefined);
  });
});
