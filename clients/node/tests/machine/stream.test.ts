/** The rows of the table "The stream" of `clients/session-machine.md`, and of "Closing". */

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { RefusedError, SessionEndedError, UnreachableError } from "../../src/errors.js";
import { toDuration } from "../../src/machine/messages.js";
import { OnDisconnect } from "../../src/proto/lockkeeper/v1/session.js";
import {
  Bench,
  failed,
  grant,
  kinds,
  LEASE,
  one,
  only,
  opened,
  permitRequest,
  permits,
  PING,
  refusal,
  RENEW,
  resume,
  sent,
  tryRequest,
} from "./bench.js";

const unreachable = new UnreachableError("http://one", "connection refused");

describe("opening", () => {
  test("the first frame is open; opened makes the stream usable", () => {
    const bench = new Bench(["http://one"], 2_500);
    const { first, endpoint } = one(bench.step({ type: "open" }), "connect");
    assert.equal(endpoint, 0);
    assert.deepEqual(first.request, {
      $case: "open",
      value: {
        lease: toDuration(2_500),
        clientName: "bench",
        onDisconnect: OnDisconnect.KEEP,
        sendsPings: true,
        sendsClose: true,
      },
    });
    const effects = bench.opened();
    one(effects, "opened");
    assert.deepEqual(one(effects, "state").change, { state: "connected" });
  });

  test("operations wait for opened, and are then sent in order", () => {
    const bench = new Bench();
    bench.step({ type: "open" });
    bench.lock("a");
    bench.lock("b");
    assert.deepEqual(kinds(bench.effects), []);
    assert.deepEqual(kinds(bench.opened()), ["acquire", "acquire"]);
  });

  test("each endpoint is tried once, at once, for 6 s; then the session is not opened", () => {
    const bench = new Bench(["http://one", "http://two"]);
    bench.step({ type: "open" });
    const opId = bench.lock("a");
    assert.equal(one(bench.ends(unreachable), "connect").endpoint, 1);
    assert.deepEqual(bench.pass(5_999), []);
    const effects = bench.pass(1);
    assert.equal(one(effects, "cancel_stream").stream, 2);
    const { error } = one(effects, "failed");
    assert.equal(one(effects, "failed").opId, opId);
    assert.equal(error.message, "no coordinator at http://two: the coordinator does not answer");
    assert.equal(one(effects, "ended").error, error);
    assert.deepEqual(only(effects, "state"), []);
  });

  test("a coordinator that denies the caller ends the attempt at once", () => {
    for (const code of [3, 5, 7, 9, 12, 16]) {
      const bench = new Bench(["http://one", "http://two"]);
      bench.step({ type: "open" });
      one(bench.ends(refusal(code)), "ended");
    }
  });

  test("an answer that does not open is a failed attempt", () => {
    const bench = new Bench();
    bench.step({ type: "open" });
    const effects = bench.frame({ $case: "pong", value: {} });
    assert.match(one(effects, "ended").error?.message ?? "", /did not say that the session/);
    one(effects, "cancel_stream");
  });
});

describe("an open stream", () => {
  test("that ends is resumed at the next endpoint after a random pause", () => {
    const bench = Bench.up(["http://one", "http://two"]);
    const effects = bench.ends(unreachable);
    assert.deepEqual(one(effects, "state").change, {
      state: "resuming",
      cause: unreachable.message,
    });
    assert.equal(bench.machine.wakeAt(), bench.now + 25);
    assert.deepEqual(bench.pass(24), []);
    const { endpoint, sessionId, resumeToken } = resume(bench.pass(1));
    assert.equal(endpoint, 1);
    assert.equal(sessionId, "session");
    assert.equal(resumeToken.toString(), "token");
  });

  test("that brings a new resume token is resumed with it", () => {
    const bench = Bench.up();
    const second = opened({ resumeToken: Buffer.from("second") });
    assert.deepEqual(bench.frame({ $case: "opened", value: second }), []);
    bench.ends(unreachable);
    assert.equal(resume(bench.pass(25)).resumeToken.toString(), "second");
  });

  test("that ended is not heard any more", () => {
    const bench = Bench.up();
    const opId = bench.lock();
    bench.ends(unreachable);
    assert.deepEqual(bench.frame({ $case: "granted", value: grant() }, opId), []);
    assert.deepEqual(bench.ends(unreachable), []);
  });

  test("that is silent gets a ping, and any frame is a sign of life", () => {
    const bench = Bench.up();
    assert.deepEqual(bench.pass(PING - 1), []);
    assert.deepEqual(kinds(bench.pass(1)), ["ping"]);
    bench.pass(PING - 1);
    one(bench.frame({ $case: "recovered", value: {} }), "state");
    assert.deepEqual(bench.pass(PING - 1), []);
    assert.deepEqual(kinds(bench.pass(1)), ["ping"]);
  });

  test("without an answer to a ping has ended", () => {
    const bench = Bench.up();
    bench.pass(PING);
    assert.deepEqual(bench.pass(PING - 1), []);
    const effects = bench.pass(1);
    assert.equal(one(effects, "cancel_stream").stream, 1);
    assert.deepEqual(one(effects, "state").change, {
      state: "resuming",
      cause: "no answer to a ping",
    });
  });

  test("gets no pings from a coordinator that does not announce them", () => {
    const bench = new Bench();
    bench.step({ type: "open" });
    bench.opened({ pingInterval: undefined });
    assert.deepEqual(bench.run(3_600_000), []);
  });

  test("gets nothing new after going_away, and is left after 500 ms", () => {
    const bench = Bench.up();
    const guard = bench.held();
    bench.frame({ $case: "goingAway", value: {} });
    const opId = bench.lock("b");
    bench.step({ type: "abandon", opId: bench.lock("c") });
    bench.step({ type: "release", guard });
    bench.frame({ $case: "goingAway", value: {} });
    bench.effects = [];
    assert.deepEqual(bench.pass(499), []);
    const effects = bench.pass(1);
    one(effects, "cancel_stream");
    assert.deepEqual(one(effects, "state").change, {
      state: "resuming",
      cause: "the coordinator is stopping",
    });
    bench.run(50);
    const next = bench.opened({ grants: [grant()] });
    assert.deepEqual(kinds(next), ["acquire", "release"]);
    assert.equal(sent(next, "acquire").opId, BigInt(opId));
  });
});

describe("a resume", () => {
  test("names every grant, and each lock that an unanswered acquire may hold", () => {
    const bench = Bench.up();
    bench.held("a");
    const permitsOp = bench.start(permitRequest(2)).opId;
    bench.frame({ $case: "permitsGranted", value: permits(["p", "q"]) }, permitsOp);
    bench.lock("b", { mode: "read" });
    bench.start(tryRequest("c", { lease: 1_000 }));
    bench.ends(unreachable);
    bench.lock("d");
    const named = resume(bench.run(50));
    const seen = named.grants.map(({ name, owner, mode, holdCount, watched }) => ({
      name,
      owner,
      mode,
      holdCount,
      watched,
    }));
    assert.deepEqual(seen, [
      { name: "a", owner: "me", mode: 1, holdCount: 1, watched: true },
      { name: "b", owner: "me", mode: 3, holdCount: 1, watched: true },
      { name: "c", owner: "me", mode: 1, holdCount: 1, watched: false },
    ]);
    assert.equal(named.grants[0]?.fencingToken, 7n);
    assert.deepEqual(named.permits.map((it) => it.permitIds), [["p", "q"]]);
  });

  test("that succeeds renews from before it was sent, and sends again what has no answer", () => {
    const bench = Bench.up();
    const guard = bench.held("a");
    const opId = bench.lock("b", { wait: 10_000 });
    const before = sent(bench.effects.slice(-1), "acquire");
    bench.ends(unreachable);
    bench.run(50);
    const sentAt = bench.now - 25;
    bench.now += 900;
    const effects = bench.opened({ grants: [grant("a")] });
    assert.deepEqual(one(effects, "state").change, { state: "connected" });
    assert.equal(guard.grants[0]?.validUntil, sentAt + LEASE);
    const again = sent(effects, "acquire");
    assert.equal(again.opId, BigInt(opId));
    assert.equal(again.requestId, before.requestId);
    assert.deepEqual(again.waitTimeout, toDuration(10_000 - 950));
  });

  test("whose wait is over tries once", () => {
    const bench = Bench.up();
    bench.lock("b", { wait: 100 });
    bench.ends(unreachable);
    bench.run(500);
    assert.deepEqual(sent(bench.opened(), "acquire").waitTimeout, toDuration(0));
  });

  test("that fails goes to the next endpoint at once, and pauses after each round", () => {
    const bench = Bench.up(["http://one", "http://two"]);
    bench.ends(unreachable);
    assert.equal(resume(bench.pass(25)).endpoint, 1);
    for (const pause of [50, 100, 200, 400, 800, 1_000, 1_000]) {
      assert.equal(resume(bench.ends(unreachable)).endpoint, 0);
      assert.deepEqual(only(bench.ends(unreachable), "connect"), []);
      assert.equal(bench.machine.wakeAt(), bench.now + pause * 0.75);
      assert.equal(resume(bench.pass(pause * 0.75)).endpoint, 1);
    }
  });

  test("has 2 s, and twice that in each round, but at most half the lease", () => {
    const bench = Bench.up();
    bench.ends(unreachable);
    bench.pass(25);
    for (const limit of [2_000, 4_000, 8_000]) {
      assert.equal(bench.machine.wakeAt(), bench.now + limit);
      one(bench.pass(limit), "cancel_stream");
      bench.now = bench.machine.wakeAt() ?? 0;
      bench.step({ type: "tick" });
    }
    assert.equal(bench.machine.wakeAt(), bench.now + 15_000);
  });

  test("is limited by a sixth of a short lease", () => {
    const bench = new Bench();
    bench.step({ type: "open" });
    bench.opened({ lease: toDuration(3_000) });
    bench.ends(unreachable);
    bench.pass(25);
    assert.equal(bench.machine.wakeAt(), bench.now + 500);
  });

  test("that every endpoint in a row refuses ends the session", () => {
    for (const code of [3, 5, 9, 12]) {
      const bench = Bench.up(["http://one", "http://two"]);
      bench.ends(unreachable);
      bench.pass(25);
      assert.deepEqual(only(bench.ends(refusal(code)), "ended"), []);
      assert.deepEqual(only(bench.ends(unreachable), "ended"), []);
      bench.run(50);
      assert.deepEqual(only(bench.ends(refusal(code)), "ended"), []);
      const { error } = one(bench.ends(refusal(code)), "ended");
      assert.ok(error instanceof SessionEndedError);
    }
  });

  test("that is refused for missing credentials, or by a proxy, is tried again", () => {
    const noRoute = new RefusedError({ code: 12, message: "no" });
    for (const refused of [refusal(7), refusal(16), noRoute]) {
      const bench = Bench.up();
      bench.ends(unreachable);
      bench.pass(25);
      assert.deepEqual(only(bench.ends(refused), "ended"), []);
      resume(bench.run(50));
    }
  });

  test("that does not succeed for as long as the lease ends the session", () => {
    const bench = Bench.up();
    const guard = bench.held();
    const opId = bench.lock("b");
    bench.ends(unreachable);
    const broke = bench.now;
    while (bench.now < broke + LEASE - 1_000) {
      bench.run(500);
      bench.ends(unreachable);
    }
    assert.deepEqual(only(bench.effects, "ended"), []);
    const effects = bench.run(1_000);
    assert.equal(one(effects, "lost").guard, guard);
    assert.equal(one(effects, "failed").opId, opId);
    assert.ok(one(effects, "failed").error instanceof SessionEndedError);
    const { change } = one(effects, "state");
    assert.ok(change.state === "ended" && change.cause.includes(unreachable.message));
  });

  test("does not extend the time in which it must succeed by breaking again", () => {
    const bench = Bench.up();
    bench.ends(unreachable);
    bench.run(LEASE - 1);
    assert.deepEqual(only(bench.effects, "ended"), []);
    one(bench.run(1), "ended");
  });
});

describe("the end of a session", () => {
  test("loses everything with the cause, and nothing opens another", () => {
    const bench = Bench.up();
    const guard = bench.held();
    bench.ends(unreachable);
    bench.pass(25);
    const effects = bench.ends(refusal(5));
    assert.equal(one(effects, "lost").guard, guard);
    assert.equal(guard.loss?.reason, "UNSPECIFIED");
    assert.equal(guard.loss.detail, "REASON: no");
    assert.equal(guard.loss.fencingToken, 7n);
    assert.equal(bench.machine.wakeAt(), undefined);
    const start = bench.start(tryRequest());
    assert.ok(one(start.sent, "failed").error instanceof SessionEndedError);
    assert.equal(one(bench.step({ type: "release", guard }), "released").error, guard.loss);
    assert.deepEqual(bench.pass(3_600_000), []);
  });
});

describe("closing", () => {
  test("sends close, fails all waits, and ends with the stream", () => {
    const bench = Bench.up();
    const guard = bench.held();
    const opId = bench.lock("b");
    const effects = bench.step({ type: "close" });
    assert.deepEqual(kinds(effects), ["close"]);
    assert.equal(one(effects, "failed").opId, opId);
    assert.ok(one(effects, "failed").error instanceof SessionEndedError);
    assert.ok(one(bench.start(tryRequest()).sent, "failed").error instanceof SessionEndedError);
    const end = bench.ends();
    assert.equal(one(end, "ended").error, undefined);
    assert.equal(one(end, "lost").guard, guard);
  });

  test("answers what was in progress", () => {
    const bench = Bench.up();
    const guard = bench.held();
    const release = bench.step({ type: "release", guard });
    bench.step({ type: "close" });
    const { opId } = sent(release, "release");
    const released = { $case: "released", value: { released: true, holdCount: 0 } } as const;
    one(bench.frame(released, opId), "released");
  });

  test("takes 2 s at most, without a ping, and says that it was not confirmed", () => {
    const bench = Bench.up();
    bench.pass(PING - 1);
    bench.step({ type: "close" });
    assert.deepEqual(bench.pass(1_999), []);
    const effects = bench.pass(1);
    assert.match(one(effects, "ended").error?.message ?? "", /no coordinator confirmed/);
    one(effects, "cancel_stream");
  });

  test("is asked for again if the stream breaks meanwhile", () => {
    const bench = Bench.up();
    bench.step({ type: "close" });
    assert.deepEqual(only(bench.ends(unreachable), "ended"), []);
    resume(bench.run(50));
    assert.deepEqual(kinds(bench.opened()), ["close"]);
    assert.equal(one(bench.ends(), "ended").error, undefined);
  });

  test("has been done if no coordinator knows the session any more", () => {
    const bench = Bench.up();
    bench.step({ type: "close" });
    bench.ends(unreachable);
    resume(bench.run(50));
    assert.equal(one(bench.ends(refusal(5)), "ended").error, undefined);
  });

  test("ends with session ended what a coordinator fails or does not grant meanwhile", () => {
    const bench = Bench.up();
    const describe = bench.start({ $case: "describe", value: { name: "a" } });
    bench.step({ type: "close" });
    const effects = bench.frame(failed(14, "DRAINING"), describe.opId);
    assert.ok(one(effects, "failed").error instanceof SessionEndedError);
  });

  test("before the session is open ends it at once", () => {
    const bench = new Bench();
    bench.step({ type: "open" });
    const opId = bench.lock();
    const effects = bench.step({ type: "close" });
    assert.equal(one(effects, "failed").opId, opId);
    assert.equal(one(effects, "ended").error, undefined);
    one(effects, "cancel_stream");
  });

  test("an idle session sends pings and renewals, and nothing else", () => {
    const bench = Bench.up();
    bench.held();
    const seen = [];
    for (let i = 0; i < 60; i += 1) {
      for (const { frame } of only(bench.run(1_000), "send")) {
        seen.push(frame.request?.$case);
        const response =
          frame.request?.$case === "ping"
            ? ({ $case: "pong", value: {} } as const)
            : ({ $case: "renewed", value: { grant: grant() } } as const);
        bench.frame(response, frame.opId);
      }
    }
    assert.equal(seen.filter((it) => it === "renew").length, Math.floor(60_000 / RENEW));
    assert.ok(seen.filter((it) => it === "ping").length <= 60_000 / PING);
    assert.ok(seen.every((it) => it === "renew" || it === "ping"));
  });
});
