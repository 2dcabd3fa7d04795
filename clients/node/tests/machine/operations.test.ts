/** The rows of the table "Operations" of `clients/session-machine.md`. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { NotGrantedError, RefusedError, UnreachableError } from "../../src/errors.js";
import { toDuration } from "../../src/machine/messages.js";
import type { Request, Response } from "../../src/machine/messages.js";
import { lockRequest } from "../../src/requests.js";
import type { Effect } from "../../src/machine/events.js";
import type { SessionOpened } from "../../src/proto/lockkeeper/v1/session.js";
import { NotGrantedReason } from "../../src/proto/lockkeeper/v1/types.js";
import {
  allRequest,
  Bench,
  failed,
  failedFor,
  grant,
  kinds,
  LEASE,
  one,
  only,
  permitRequest,
  permits,
  resume,
  sent,
  tryRequest,
} from "./bench.js";

const broken = new UnreachableError("http://one", "reset");
const timeout = NotGrantedReason.WAIT_TIMEOUT;

/** Breaks the stream and opens the next one. */
function reopen(bench: Bench, fields: Partial<SessionOpened> = {}): Effect[] {
  bench.ends(broken);
  bench.run(50);
  return bench.opened(fields);
}

describe("an operation", () => {
  test("is sent at once with a request id of its own and what is left of its wait", () => {
    const bench = Bench.up();
    const first = sent(bench.start(tryRequest()).sent, "tryAcquire");
    const second = sent(bench.start(tryRequest()).sent, "tryAcquire");
    assert.notEqual(first.requestId, "");
    assert.notEqual(first.requestId, second.requestId);
    bench.effects = [];
    bench.lock("a", { wait: 1_500 });
    assert.deepEqual(sent(bench.effects, "acquire").waitTimeout, toDuration(1_500));
    bench.effects = [];
    bench.lock("a");
    assert.equal(sent(bench.effects, "acquire").waitTimeout, undefined);
  });

  test("carries the trace context of its caller", () => {
    const bench = Bench.up();
    const { sent: effects } = bench.start(tryRequest(), { traceparent: "00-11-22-01" });
    assert.equal(one(effects, "send").frame.traceparent, "00-11-22-01");
  });

  test("that waits says so", () => {
    const bench = Bench.up();
    const opId = bench.lock();
    const value = { position: 2, holderRemainingLease: toDuration(900) };
    const { waiting } = one(bench.frame({ $case: "waiting", value }, opId), "waiting");
    assert.deepEqual(waiting, { name: "a", position: 2, holderRemainingLease: 900 });
    const all = bench.start(allRequest(["a", "b"])).opId;
    const busy = { name: "b", waiting: { position: 1, holderRemainingLease: undefined } };
    const next = one(bench.frame({ $case: "waitingForAll", value: busy }, all), "waiting");
    assert.deepEqual(next.waiting, { name: "b", position: 1 });
  });

  test("of each kind ends not granted", () => {
    const bench = Bench.up();
    const holderRemainingLease = toDuration(1_000);
    const awaitLatch = { name: "l", sessionId: "", waitTimeout: undefined };
    const ends: [Request, Response][] = [
      [
        lockRequest("wait", "a", {}, "me"),
        { $case: "notGranted", value: { reason: timeout, holderRemainingLease } },
      ],
      [
        tryRequest(),
        { $case: "tried", value: { acquired: false, grant: undefined, holderRemainingLease } },
      ],
      [
        permitRequest(1),
        { $case: "permitsNotGranted", value: { reason: timeout, available: 3 } },
      ],
      [
        { $case: "awaitLatch", value: awaitLatch },
        { $case: "latchNotOpened", value: { reason: timeout, count: 1 } },
      ],
    ];
    const errors = ends.map(([request, response]) => {
      const { opId } = bench.start(request);
      const { error } = one(bench.frame(response, opId), "failed");
      assert.ok(error instanceof NotGrantedError);
      assert.equal(error.reason, "WAIT_TIMEOUT");
      return [error.resource, error.holderRemainingLease, error.available];
    });
    assert.deepEqual(errors, [
      ["a", 1_000, undefined],
      ["a", 1_000, undefined],
      ["s", undefined, 3],
      ["l", undefined, undefined],
    ]);
  });

  test("ends with another answer, once", () => {
    const bench = Bench.up();
    const value = { name: "l", by: 1, requestId: "" };
    const { opId } = bench.start({ $case: "countDown", value });
    const answer = { $case: "countedDown", value: { count: 4 } } as const;
    assert.deepEqual(one(bench.frame(answer, opId), "answered").response, answer);
    assert.deepEqual(bench.frame(answer, opId), []);
  });

  test("that is refused ends with the reason", () => {
    const bench = Bench.up();
    const { error } = one(bench.frame(failed(3, "INVALID_NAME"), bench.lock()), "failed");
    assert.ok(error instanceof RefusedError);
    assert.deepEqual([error.code, error.reason], [3, "INVALID_NAME"]);
    assert.equal(error.message, "INVALID_NAME: no");
  });
});

describe("a temporary failure", () => {
  for (const reason of ["STORE_UNAVAILABLE", "DRAINING", "OUTCOME_UNKNOWN"]) {
    test(`${reason} is followed by a repeat with the same request id`, () => {
      const bench = Bench.up();
      const { opId, sent: first } = bench.start(tryRequest());
      assert.deepEqual(bench.frame(failed(14, reason), opId), []);
      // An answer to what is not sent is ignored.
      const value = { acquired: true, grant: grant(), holderRemainingLease: undefined };
      assert.deepEqual(bench.frame({ $case: "tried", value }, opId), []);
      assert.deepEqual(bench.pass(149), []);
      const again = sent(bench.pass(1), "tryAcquire");
      assert.equal(again.requestId, sent(first, "tryAcquire").requestId);
      assert.equal(again.opId, BigInt(opId));
    });
  }

  test("is followed by a repeat after the pause that the coordinator names", () => {
    const bench = Bench.up();
    const { opId } = bench.start(tryRequest());
    bench.frame(failedFor("STORE_UNAVAILABLE", 4_000), opId);
    assert.equal(bench.machine.wakeAt(), bench.now + 3_000);
  });

  test("is given up after a lease, or after the patience of the caller", () => {
    for (const patience of [undefined, 1_000]) {
      const bench = Bench.up();
      const { opId } = bench.start(lockRequest("wait", "a", {}, "me"), { patience });
      const since = bench.now;
      while (bench.now < since + (patience ?? LEASE)) {
        assert.deepEqual(only(bench.frame(failed(14, "STORE_UNAVAILABLE"), opId), "failed"), []);
        bench.run(200);
      }
      one(bench.frame(failed(14, "STORE_UNAVAILABLE"), opId), "failed");
    }
  });

  test("makes an acquire uncertain: a resume names it", () => {
    const bench = Bench.up();
    bench.frame(failed(14, "OUTCOME_UNKNOWN"), bench.start(tryRequest()).opId);
    bench.ends(broken);
    assert.deepEqual(resume(bench.run(50)).grants.map((it) => it.name), ["a"]);
  });
});

describe("NOT_OWNER", () => {
  test("for an uncertain acquire starts a new attempt", () => {
    const bench = Bench.up();
    const { opId, sent: first } = bench.start(tryRequest());
    reopen(bench);
    const next = bench.frame(failed(9, "NOT_OWNER"), opId);
    assert.notEqual(sent(next, "tryAcquire").requestId, sent(first, "tryAcquire").requestId);
    one(bench.frame(failed(9, "NOT_OWNER"), opId), "failed");
  });

  test("for an uncertain acquire whose caller has gone ends it", () => {
    const bench = Bench.up();
    const opId = bench.lock();
    reopen(bench);
    bench.step({ type: "abandon", opId });
    assert.deepEqual(bench.frame(failed(9, "NOT_OWNER"), opId), []);
  });

  test("for another acquire is a refusal", () => {
    const bench = Bench.up();
    one(bench.frame(failed(9, "NOT_OWNER"), bench.lock()), "failed");
  });
});

describe("a caller that gives up", () => {
  test("before the operation was sent: it is forgotten", () => {
    const bench = new Bench();
    bench.step({ type: "open" });
    bench.step({ type: "abandon", opId: bench.lock() });
    assert.deepEqual(kinds(bench.opened()), []);
  });

  test("of a wait: it is cancelled, and what is granted nevertheless is released", () => {
    const bench = Bench.up();
    const opId = bench.lock();
    const cancel = bench.step({ type: "abandon", opId });
    assert.equal(sent(cancel, "cancel").opId, BigInt(opId));
    const effects = bench.frame({ $case: "granted", value: grant() }, opId);
    assert.deepEqual(only(effects, "granted"), []);
    const release = sent(effects, "release");
    assert.deepEqual([release.name, release.owner], ["a", "me"]);
    assert.notEqual(release.requestId, "");
  });

  test("of a wait that ends: nothing follows", () => {
    const bench = Bench.up();
    const opId = bench.lock();
    bench.step({ type: "abandon", opId });
    const value = { reason: NotGrantedReason.CANCELLED, holderRemainingLease: undefined };
    assert.deepEqual(bench.frame({ $case: "notGranted", value }, opId), []);
  });

  test("of a try: it is not cancelled, but released", () => {
    const bench = Bench.up();
    const { opId } = bench.start(tryRequest());
    assert.deepEqual(bench.step({ type: "abandon", opId }), []);
    const value = { acquired: true, grant: grant(), holderRemainingLease: undefined };
    assert.deepEqual(kinds(bench.frame({ $case: "tried", value }, opId)), ["release"]);
  });

  test("of a wait whose stream broke: it is sent again and cancelled", () => {
    const bench = Bench.up();
    const opId = bench.lock();
    bench.ends(broken);
    bench.step({ type: "abandon", opId });
    bench.run(50);
    assert.deepEqual(kinds(bench.opened()), ["acquire", "cancel"]);
  });

  test("of several locks: all of them are released at once", () => {
    const bench = Bench.up();
    const { opId } = bench.start(allRequest(["a", "b"]));
    bench.step({ type: "abandon", opId });
    const grants = [grant("a"), grant("b")];
    const effects = bench.frame({ $case: "grantedAll", value: { grants } }, opId);
    assert.deepEqual(sent(effects, "releaseAll").locks.map((it) => it.name), ["a", "b"]);
  });
});

describe("after a resume", () => {
  test("an acquire of permits gets a new request id", () => {
    const bench = Bench.up();
    const { sent: first } = bench.start(permitRequest(2));
    const again = sent(reopen(bench), "acquirePermits");
    assert.notEqual(again.requestId, sent(first, "acquirePermits").requestId);
  });

  test("an acquire of permits whose caller gave up is forgotten", () => {
    const bench = Bench.up();
    const { opId } = bench.start(permitRequest(2));
    bench.step({ type: "abandon", opId });
    assert.deepEqual(kinds(reopen(bench)), []);
  });

  test("an acquire of permits that was not sent keeps its request id", () => {
    const bench = Bench.up();
    bench.ends(broken);
    bench.start(permitRequest(2));
    bench.run(50);
    const first = sent(bench.opened(), "acquirePermits");
    assert.equal(first.requestId, "id-1");
  });

  test("several locks of which some are held are released, and acquired anew", () => {
    const bench = Bench.up();
    const { sent: first } = bench.start(allRequest(["a", "b"]));
    const effects = reopen(bench, { grants: [grant("b")] });
    assert.equal(sent(effects, "release").name, "b");
    const again = sent(effects, "acquireAll");
    assert.notEqual(again.requestId, sent(first, "acquireAll").requestId);
    assert.deepEqual(kinds(effects), ["release", "acquireAll"]);
  });

  test("several locks of which all or none are held keep their request id", () => {
    for (const grants of [[], [grant("a"), grant("b")]]) {
      const bench = Bench.up();
      const { sent: first } = bench.start(allRequest(["a", "b"]));
      const effects = reopen(bench, { grants });
      assert.deepEqual(kinds(effects), ["acquireAll"]);
      assert.equal(sent(effects, "acquireAll").requestId, sent(first, "acquireAll").requestId);
    }
  });

  test("a lock that the owner held before is not taken for one of several", () => {
    const bench = Bench.up();
    bench.held("a");
    const { sent: first } = bench.start(allRequest(["a", "b"]));
    const effects = reopen(bench, { grants: [grant("a"), grant("b")] });
    assert.deepEqual(kinds(effects), ["acquireAll"]);
    assert.equal(sent(effects, "acquireAll").requestId, sent(first, "acquireAll").requestId);
  });

  test("a release is repeated with its request id; what it releases is named until then", () => {
    const bench = Bench.up();
    const guard = bench.held();
    const first = sent(bench.step({ type: "release", guard }), "release");
    bench.ends(broken);
    assert.deepEqual(resume(bench.run(50)).grants.map((it) => it.name), ["a"]);
    const again = sent(bench.opened({ grants: [grant()] }), "release");
    assert.equal(again.requestId, first.requestId);
    const released = { $case: "released", value: { released: true, holdCount: 0 } } as const;
    one(bench.frame(released, again.opId), "released");
    bench.ends(broken);
    assert.deepEqual(resume(bench.run(50)).grants, []);
  });

  test("permits that are held are named by their ids", () => {
    const bench = Bench.up();
    const { opId } = bench.start(permitRequest(1));
    bench.frame({ $case: "permitsGranted", value: permits(["p"]) }, opId);
    bench.ends(broken);
    assert.deepEqual(resume(bench.run(50)).permits.map((it) => it.permitIds), [["p"]]);
  });
});
