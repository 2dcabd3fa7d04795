/** Claims of tickets, and waits until a lock is free. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { NotGrantedError } from "../../src/errors.js";
import type { Request } from "../../src/machine/messages.js";
import { LockFree, NotGranted, Waiting } from "../../src/proto/lockkeeper/v1/lock.js";
import { NotGrantedReason } from "../../src/proto/lockkeeper/v1/types.js";
import { claimRequest } from "../../src/requests.js";
import { Bench, failed, grant, guardOf, kinds, one, RENEW, resume, sent } from "./bench.js";

const CLAIM = claimRequest("a", "ticket", "o");
const CLAIMED = { $case: "claimed", value: { grant: grant("a", { owner: "o" }) } } as const;
const FREE: Request = {
  $case: "awaitFree",
  value: { name: "a", sessionId: "", waitTimeout: undefined },
};

describe("a claim", () => {
  test("is held and renewed", () => {
    const bench = Bench.up();
    const { opId, sent: effects } = bench.start(CLAIM);
    assert.equal(sent(effects, "claim").ticket, "ticket");
    const guard = guardOf(bench.frame(CLAIMED, opId));
    assert.equal(guard.holdings[0]?.grant.name, "a");
    assert.equal(sent(bench.run(RENEW), "renew").name, "a");
  });

  test("that nobody waits for is released", () => {
    const bench = Bench.up();
    const { opId } = bench.start(CLAIM);
    assert.deepEqual(bench.step({ type: "abandon", opId }), []);
    const effects = bench.frame(CLAIMED, opId);
    assert.equal(sent(effects, "release").name, "a");
    assert.deepEqual(kinds(effects), ["release"]);
  });

  test("is repeated after a resume that does not name it", () => {
    const bench = Bench.up();
    const { opId } = bench.start(CLAIM);
    bench.ends();
    assert.deepEqual(resume(bench.run(1_000)).grants, []);
    assert.equal(sent(bench.opened(), "claim").ticket, "ticket");
    const refused = failed(9, "TICKET_REFUSED", [["state", "over"]]);
    assert.match(one(bench.frame(refused, opId), "failed").error.message, /^TICKET_REFUSED/);
  });
});

describe("a wait until a lock is free", () => {
  test("has a limit, is reported, and is cancelled", () => {
    const bench = Bench.up();
    const { opId, sent: effects } = bench.start(FREE, { waitUntil: bench.now + 100 });
    assert.equal(sent(effects, "awaitFree").waitTimeout?.nanos, 100e6);
    const waiting = bench.frame({ $case: "waiting", value: Waiting.create() }, opId);
    assert.equal(one(waiting, "waiting").waiting.name, "a");
    sent(bench.step({ type: "abandon", opId }), "cancel");
  });

  test("ends", () => {
    const bench = Bench.up();
    const free = bench.start(FREE).opId;
    const held = bench.start(FREE).opId;
    const answer = bench.frame({ $case: "lockFree", value: LockFree.create() }, free);
    assert.equal(one(answer, "answered").response.$case, "lockFree");
    const value = { ...NotGranted.create(), reason: NotGrantedReason.WAIT_TIMEOUT };
    const { error } = one(bench.frame({ $case: "notGranted", value }, held), "failed");
    assert.ok(error instanceof NotGrantedError && error.resource === "a");
  });
});
