/** Clients for tests. */

import type { TestContext } from "node:test";

import { credentials, ServerCredentials } from "@grpc/grpc-js";
import type { Server } from "@grpc/grpc-js";

import { Lockkeeper } from "../src/index.js";
import type { ClientOptions } from "../src/index.js";
import { LockAdminServiceClient } from "../src/proto/lockkeeper/v1/admin_service.js";
import { afterwards } from "./world.js";
import type { Coordinator } from "./world.js";

/** A client that is closed after the test. */
export function clientOf(
  t: TestContext,
  endpoints: ClientOptions["endpoints"],
  options: Omit<ClientOptions, "endpoints"> = {},
): Lockkeeper {
  const client = new Lockkeeper({ endpoints, ...options });
  afterwards(t, () => client.close().catch(() => undefined));
  return client;
}

/** Binds a scripted coordinator to a free port until the end of the test, and returns its URL. */
export async function addressOf(t: TestContext, server: Server): Promise<string> {
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) => {
      if (error === null) {
        resolve(bound);
      } else {
        reject(error);
      }
    });
  });
  afterwards(t, () => {
    server.forceShutdown();
  });
  return `http://127.0.0.1:${String(port)}`;
}

/** Force-releases a lock, and returns when the coordinator has said that it did. */
export function forceRelease(by: Coordinator, name: string, reason: string): Promise<void> {
  const admin = new LockAdminServiceClient(by.address, credentials.createInsecure());
  return new Promise((resolve, reject) => {
    admin.forceRelease({ name, reason }, (error) => {
      admin.close();
      if (error === null) {
        resolve();
      } else {
        reject(error);
      }
    });
  });
}

/** The error with which a promise is rejected. */
export async function errorOf(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("it was not rejected");
}
