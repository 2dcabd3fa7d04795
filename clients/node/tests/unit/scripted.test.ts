/** The thin I/O part, against a scripted coordinator in this process. */

import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { once } from "node:events";
import { syncBuiltinESMExports } from "node:module";
import os from "node:os";
import { describe, test } from "node:test";
import type { TestContext } from "node:test";

import { Server } from "@grpc/grpc-js";
import type { handleUnaryCall, ServerDuplexStream, ServerWritableStream } from "@grpc/grpc-js";
import { context, ROOT_CONTEXT, trace } from "@opentelemetry/api";
import type { Context, ContextManager } from "@opentelemetry/api";

import type { Response } from "../../src/machine/messages.js";
import { Calls } from "../../src/calls.js";
import { Clock } from "../../src/clock.js";
import { Connector } from "../../src/connector.js";
import { SessionEndedError, UnreachableError } from "../../src/index.js";
import { ElectionServiceService } from "../../src/proto/lockkeeper/v1/election_service.js";
import { DescribeResponse, TryAcquireResponse } from "../../src/proto/lockkeeper/v1/lock.js";
import type { DescribeRequest, TryAcquireRequest } from "../../src/proto/lockkeeper/v1/lock.js";
import { LockServiceService } from "../../src/proto/lockkeeper/v1/lock_service.js";
import type { SessionRequest, SessionResponse } from "../../src/proto/lockkeeper/v1/session.js";
import { LostReason } from "../../src/proto/lockkeeper/v1/types.js";
import { addressOf, clientOf, errorOf } from "../clients.js";
import { grant, LEASE, opened } from "../machine/bench.js";
import { afterwards, eventually, freePort } from "../world.js";

type Call = ServerDuplexStream<SessionRequest, SessionResponse>;

/**
 * Starts a coordinator that opens every session, and hands each other frame to a script. It has
 * nothing to say to who watches a lock, or waits until one is free.
 */
async function scripted(
  t: TestContext,
  script: (frame: SessionRequest, reply: (response: Response, opId?: bigint) => void) => void,
  { resumes = true } = {},
): Promise<{ url: string; authorizations: unknown[]; streams: Call[] }> {
  const server = new Server();
  const authorizations: unknown[] = [];
  const streams: Call[] = [];
  const session = (call: Call): void => {
    streams.push(call);
    authorizations.push(call.metadata.get("authorization")[0]);
    call.on("error", () => undefined);
    call.on("data", (frame: SessionRequest) => {
      const reply = (response: Response, opId = 0n): void => {
        call.write({ opId, response });
      };
      const { $case } = frame.request ?? {};
      if ($case === "resume" && !resumes) {
        return;
      }
      if ($case === "open" || $case === "resume") {
        reply({ $case: "opened", value: opened() });
      } else if ($case === "close") {
        // As behind a proxy that passes on the end of a stream when it has the client's.
        call.once("end", () => call.end());
      } else {
        script(frame, reply);
      }
    });
  };
  const describe: handleUnaryCall<DescribeRequest, DescribeResponse> = (_, answer) => {
    answer(null, DescribeResponse.create());
  };
  const tryAcquire: handleUnaryCall<TryAcquireRequest, TryAcquireResponse> = (call, answer) => {
    const { name, owner } = call.request;
    answer(null, TryAcquireResponse.create({ acquired: true, grant: grant(name, { owner }) }));
  };
  const silent = (call: ServerWritableStream<unknown, unknown>): void => {
    call.on("error", () => undefined);
  };
  const { session: stream, describe: look, ...others } = LockServiceService;
  const { tryAcquire: acquire, watchLock, awaitFree } = others;
  const { observe } = ElectionServiceService;
  server.addService(
    { session: stream, describe: look, tryAcquire: acquire, watchLock, awaitFree, observe },
    { session, describe, tryAcquire, watchLock: silent, awaitFree: silent, observe: silent },
  );
  return { url: await addressOf(t, server), authorizations, streams };
}

/** Grants every lock. */
const grants: Parameters<typeof scripted>[1] = ({ opId, request }, reply) => {
  if (request?.$case === "acquire") {
    const { name, owner } = request.value;
    const value = grant(name, { owner, fencingToken: (1n << 63n) + 1n });
    reply({ $case: "granted", value }, opId);
  } else if (request?.$case === "release") {
    reply({ $case: "released", value: { released: true, holdCount: 0 } }, opId);
  }
};

describe("a notice", () => {
  test("aborts the signal within 100 ms, with a token above 2^53", async (t) => {
    const { url, streams } = await scripted(t, grants);
    const lock = await clientOf(t, url).lock("a");
    assert.equal(lock.fencingToken, 9223372036854775809n);
    const lost = once(lock.signal, "abort");
    const sentAt = performance.now();
    const gone = grant("a", { owner: lock.owner, fencingToken: lock.fencingToken });
    const value = { grant: gone, reason: LostReason.TAKEN_OVER, detail: "" };
    streams[0]?.write({ opId: 0n, response: { $case: "lost", value } });
    await lost;
    assert.ok(performance.now() - sentAt < 100);
    assert.equal(lock.loss?.message, "a: lost, another owner holds it");
    assert.equal(lock.loss.fencingToken, 9223372036854775809n);
  });

  test("may be answered by a listener that uses the client", async (t) => {
    const { url, streams } = await scripted(t, grants);
    const client = clientOf(t, url);
    const lock = await client.lock("a");
    let next: Promise<unknown> | undefined;
    lock.signal.addEventListener("abort", () => {
      next = Promise.all([errorOf(lock.release()), client.lock("b")]);
    });
    const gone = grant("a", { owner: lock.owner, fencingToken: lock.fencingToken });
    const value = { grant: gone, reason: LostReason.EXPIRED, detail: "" };
    streams[0]?.write({ opId: 0n, response: { $case: "lost", value } });
    await eventually("the listener was called", () => next !== undefined);
    const [error] = (await next) as [unknown];
    assert.equal(error, lock.loss);
  });
});

describe("a loss", () => {
  test("aborts the signal although the logger throws", async (t) => {
    const { url, streams } = await scripted(t, grants);
    const log = (): never => {
      throw new Error("no space left");
    };
    const client = clientOf(t, url, { logger: { debug: log, info: log, warn: log } });
    const lock = await client.lock("a");
    const gone = grant("a", { owner: lock.owner, fencingToken: lock.fencingToken });
    const value = { grant: gone, reason: LostReason.EXPIRED, detail: "" };
    const isLost = once(lock.signal, "abort");
    streams[0]?.write({ opId: 0n, response: { $case: "lost", value } });
    await isLost;
  });

  test("while the machine slept is noticed within a second", async (t) => {
    const { url } = await scripted(t, grants);
    let slept = 0;
    const uptime = os.uptime.bind(os);
    t.mock.method(os, "uptime", () => uptime() + slept);
    syncBuiltinESMExports();
    const lock = await clientOf(t, url).lock("a");
    const wokeAt = performance.now();
    slept = LEASE / 1_000;
    await once(lock.signal, "abort");
    assert.ok(performance.now() - wokeAt < 2_000);
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
});

describe("a lock", () => {
  test("is not valid any more once its release has begun", async (t) => {
    const { url } = await scripted(t, grants);
    const lock = await clientOf(t, url).lock("a");
    assert.ok(lock.validFor > 0);
    const released = lock.release();
    assert.equal(lock.validFor, 0);
    await released;
    assert.equal(lock.validFor, 0);
  });
});

describe("a request to yield", () => {
  test("reaches every listener of its lock", async (t) => {
    const { url, streams } = await scripted(t, grants);
    const client = clientOf(t, url);
    const lock = await client.lock("a");
    const isTold = once(client, "yieldRequested");
    const seen: string[] = [];
    lock.onYieldRequested(({ by }) => seen.push(by));
    lock.onYieldRequested(({ reason }) => seen.push(reason));
    const asked = grant("a", { owner: lock.owner, fencingToken: lock.fencingToken });
    const within = { seconds: 60n, nanos: 0 };
    const value = { grant: asked, by: "ops", reason: "why", within, preempt: false };
    streams[0]?.write({ opId: 0n, response: { $case: "yieldRequested", value } });
    await isTold;
    assert.deepEqual(seen, ["ops", "why"]);
    assert.equal(lock.yieldRequest?.within, 60_000);
    await lock.release();
  });
});

describe("a session", () => {
  test("is one for all locks of a client, and for many at once", async (t) => {
    const { url, streams } = await scripted(t, grants);
    const client = clientOf(t, url);
    const locks = await Promise.all(
      Array.from({ length: 2_000 }, (_, i) => client.lock(`lock-${String(i)}`)),
    );
    assert.equal(new Set(locks.map((it) => it.owner)).size, 2_000);
    await Promise.all(locks.map((it) => it.release()));
    assert.equal(streams.length, 1);
  });

  test("is not half-closed when it is idle, and survives a listener that throws", async (t) => {
    const { url, streams } = await scripted(t, grants);
    const client = clientOf(t, url);
    await (await client.lock("a")).release();
    let isHalfClosed = false;
    streams[0]?.on("end", () => (isHalfClosed = true));
    await (await client.lock("b")).release();
    assert.equal(isHalfClosed, false);
  });

  test("is half-closed after its close", async (t) => {
    const { url } = await scripted(t, grants);
    const client = clientOf(t, url);
    await client.lock("a");
    await client.close();
  });

  test("asks for its token again when it is resumed", async (t) => {
    const { url, authorizations, streams } = await scripted(t, grants);
    let calls = 0;
    const token = (): string => `token-${String((calls += 1))}`;
    const client = clientOf(t, url, { token });
    await client.lock("a");
    streams[0]?.end();
    await client.lock("b");
    assert.deepEqual(authorizations, ["Bearer token-1", "Bearer token-2"]);
  });

  test("logs what happens to it in the logger of the user", async (t) => {
    const { url, streams } = await scripted(t, grants);
    const lines: string[] = [];
    const log = (line: string): number => lines.push(line);
    const client = clientOf(t, url, { logger: { debug: log, info: log, warn: log } });
    await client.lock("a");
    streams[0]?.end();
    await client.lock("b");
    assert.deepEqual(lines, [
      "session connected",
      "session resuming: the coordinator ended the stream",
      "session connected",
    ]);
  });
});

describe("calls without a session", () => {
  test("all reach the endpoint that works, also at once", async (t) => {
    const { url } = await scripted(t, grants);
    const closed = `http://127.0.0.1:${String(await freePort())}`;
    const { calls } = clientOf(t, [closed, url]);
    const found = await Promise.all([calls.describe("a"), calls.describe("b")]);
    assert.deepEqual(found.map((it) => it.holderCount), [0, 0]);
  });
});

describe("a grant without a session", () => {
  test("is not valid for longer because the machine slept", async (t) => {
    const { url } = await scripted(t, grants);
    let slept = 0;
    const clock = new Clock(() => 0, () => slept);
    const calls = new Calls(new Connector({ endpoints: url }), "", clock);
    afterwards(t, () => {
      calls.close();
    });
    const lock = await calls.tryAcquire("a");
    assert.equal(lock?.validFor, LEASE);
    slept = LEASE / 2;
    assert.equal(lock.validFor, LEASE / 2);
    slept = LEASE * 2;
    assert.equal(lock.validFor, 0);
  });
});

describe("the end of a client", () => {
  test("ends what uses no session, and later calls fail", async (t) => {
    const { url } = await scripted(t, grants);
    const client = clientOf(t, url);
    const waits = [
      client.calls.awaitFree("a"),
      client.calls.awaitFree("a", { wait: 60_000, signal: new AbortController().signal }),
      client.watch("a").next(),
      client.election("a").observe().next(),
    ].map(errorOf);
    await client.calls.describe("a");
    await client.close();
    const later = [
      client.calls.describe("a"),
      client.describe("a"),
      client.calls.tryAcquire("a"),
      client.calls.awaitFree("a"),
      client.watch("a").next(),
    ].map(errorOf);
    for (const error of await Promise.all([...waits, ...later])) {
      assert.ok(error instanceof SessionEndedError, String(error));
      assert.equal(error.detail, "the client is closed");
    }
  });
});

describe("a coordinator that does not answer", { concurrency: true }, () => {
  test("does not keep a question from another connection", async (t) => {
    const { url, streams } = await scripted(t, grants, { resumes: false });
    const client = clientOf(t, url);
    await client.connect();
    streams[0]?.end();
    await eventually("it is resumed", () => client.state === "resuming");
    assert.equal((await client.describe("a")).holderCount, 0);
  });

  test("does not keep a question that was asked before the stream broke", async (t) => {
    const { url, streams } = await scripted(t, () => streams[0]?.end(), { resumes: false });
    const client = clientOf(t, url);
    await client.connect();
    const error = await errorOf(client.describe("a"));
    assert.ok(error instanceof UnreachableError, String(error));
  });

  test("ends a wait with a limit until a lock is free", async (t) => {
    const { url } = await scripted(t, grants);
    const error = await errorOf(clientOf(t, url).calls.awaitFree("a", { wait: 10 }));
    assert.ok(error instanceof UnreachableError, String(error));
    assert.match(error.message, /does not answer$/);
  });
});

describe("the trace context of a caller", () => {
  test("is in the frame of its operation", async (t) => {
    const seen: string[] = [];
    const { url } = await scripted(t, (frame, reply) => {
      seen.push(frame.traceparent);
      grants(frame, reply);
    });
    context.setGlobalContextManager(new Contexts());
    t.after(() => {
      context.disable();
    });
    const client = clientOf(t, url);
    const [traceId, spanId] = ["4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"];
    const span = trace.wrapSpanContext({ traceId, spanId, traceFlags: 1 });
    const lock = await context.with(trace.setSpan(ROOT_CONTEXT, span), () => client.lock("a"));
    await lock.release();
    assert.deepEqual(seen, [`00-${traceId}-${spanId}-01`, ""]);
  });
});

/** A context manager as the SDK of OpenTelemetry has one. */
class Contexts implements ContextManager {
  readonly #storage = new AsyncLocalStorage<Context>();

  active(): Context {
    return this.#storage.getStore() ?? ROOT_CONTEXT;
  }

  with<A extends unknown[], F extends (...args: A) => ReturnType<F>>(
    active: Context,
    work: F,
    self?: ThisParameterType<F>,
    ...args: A
  ): ReturnType<F> {
    return this.#storage.run(active, () => work.apply(self as ThisParameterType<F>, args));
  }

  bind<T>(_: Context, target: T): T {
    return target;
  }

  enable(): this {
    return this;
  }

  disable(): this {
    return this;
  }
}
