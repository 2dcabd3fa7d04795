/** What uses no session, against coordinators in this process that fail. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Metadata, Server, status } from "@grpc/grpc-js";
import type { handleUnaryCall, ServerWritableStream } from "@grpc/grpc-js";

import { Calls } from "../../src/calls.js";
import { Connector } from "../../src/connector.js";
import { RefusedError, UnreachableError } from "../../src/index.js";
import type { Lockkeeper } from "../../src/index.js";
import { ElectionServiceService } from "../../src/proto/lockkeeper/v1/election_service.js";
import { DescribeResponse } from "../../src/proto/lockkeeper/v1/lock.js";
import { LockServiceService } from "../../src/proto/lockkeeper/v1/lock_service.js";
import type { LockServiceClient } from "../../src/proto/lockkeeper/v1/lock_service.js";
import { addressOf, clientOf, errorOf } from "../clients.js";
import { afterwards, Coordinator } from "../world.js";

type Stream = ServerWritableStream<unknown, unknown>;

const silent = (call: Stream): void => {
  call.on("error", () => undefined);
};

/** Starts a coordinator that fails every other question, and ends every stream as it says. */
async function failing(t: TestContext, end: (call: Stream) => void): Promise<string> {
  const server = new Server();
  let questions = 0;
  const describe: handleUnaryCall<unknown, DescribeResponse> = (_, answer) => {
    questions += 1;
    const failure = { code: status.UNAVAILABLE, details: "no", metadata: new Metadata() };
    const [error, value] = questions % 2 === 1 ? [failure] : [null, DescribeResponse.create()];
    setTimeout(() => {
      answer(error, value);
    }, 30);
  };
  const { describe: look, watchLock, awaitFree } = LockServiceService;
  const { observe } = ElectionServiceService;
  server.addService(
    { describe: look, watchLock, awaitFree, observe },
    { describe, watchLock: end, awaitFree: end, observe: end },
  );
  return addressOf(t, server);
}

interface Counted {
  readonly calls: Calls;
  /** The clients with a connection of their own that were made. */
  readonly made: Set<LockServiceClient>;
  readonly closed: Set<LockServiceClient>;
}

/** Calls of one endpoint. */
function callsTo(t: TestContext, url: string): Counted {
  const connector = new Connector({ endpoints: url });
  const calls = new Calls(connector, "");
  const [made, closed] = [new Set<LockServiceClient>(), new Set<LockServiceClient>()];
  const connect = connector.connect.bind(connector);
  t.mock.method(connector, "connect", (...args: Parameters<typeof connect>): LockServiceClient => {
    const client = connect(...args);
    made.add(client);
    const close = client.close.bind(client);
    t.mock.method(client, "close", () => {
      closed.add(client);
      close();
    });
    return client;
  });
  afterwards(t, () => {
    calls.close();
  });
  return { calls, made, closed };
}

describe("calls without a session", () => {
  test("keep their connection after a refusal", async (t) => {
    const coordinator = await Coordinator.start(t);
    const to = callsTo(t, coordinator.url);
    const all = Array.from({ length: 20 }, (_, i) => {
      const refused = errorOf(to.calls.renew(`lock-${String(i)}`, "me"));
      return Promise.all([refused, to.calls.describe("a")]);
    });
    for (const [refused] of await Promise.all(all)) {
      assert.ok(refused instanceof RefusedError && refused.reason === "NOT_OWNER");
    }
    assert.deepEqual([to.made.size, to.closed.size], [1, 0]);
  });

  test("close every connection that fails, and only those", async (t) => {
    const to = callsTo(t, await failing(t, silent));
    const later = Array.from({ length: 20 }, async (_, i) => {
      await sleep(i * 10);
      await to.calls.describe("a").catch(() => undefined);
    });
    await Promise.all(later);
    assert.ok(to.made.size > 1);
    to.calls.close();
    assert.deepEqual(to.closed, to.made);
  });
});

describe("a peer that ends every stream at once", () => {
  const streams: [string, (client: Lockkeeper) => Promise<unknown>][] = [
    ["watch", (client) => client.watch("a").next()],
    ["observe", (client) => client.election("a").observe().next()],
    ["awaitFree", (client) => client.calls.awaitFree("a")],
  ];
  for (const [name, begin] of streams) {
    test(`is unreachable to ${name}`, async (t) => {
      let count = 0;
      const end = (call: Stream): void => {
        count += 1;
        call.end();
      };
      const urls = [await failing(t, end), await failing(t, end)];
      const error = await errorOf(begin(clientOf(t, urls)));
      assert.ok(error instanceof UnreachableError, String(error));
      assert.equal(error.message, `no coordinator at ${String(urls[1])}: it ended the stream`);
      assert.equal(count, 2);
    });
  }
});
