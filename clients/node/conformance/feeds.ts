/** What the driver follows: elections, and locks. */

import type { ElectionEvent, Lockkeeper, LockEvent } from "../src/index.js";
import { print } from "./wire.js";
import type { Command } from "./wire.js";

/** Tells what happens until `signal` aborts, or waits until a lock is free. */
export async function follow(
  client: Lockkeeper,
  { do: action, name = "", feed, wait_ms }: Command,
  signal: AbortSignal,
): Promise<object> {
  switch (action) {
    case "observe":
      for await (const event of client.election(name).observe({ signal })) {
        print({ event: "told", feed, ...term(event) });
      }
      return {};
    case "watch_lock":
      for await (const event of client.watch(name, { signal })) {
        print({ event: "told", feed, ...seen(event) });
      }
      return {};
    default: {
      const wait = wait_ms == null ? {} : { wait: wait_ms };
      await client.calls.awaitFree(name, { signal, ...wait });
      return {};
    }
  }
}

function term(event: ElectionEvent): object {
  if (event.type !== "leader") {
    return { what: event.type === "missed" ? "missed" : "no_leader" };
  }
  const { value, revision, term: token } = event.leader;
  return { what: "leader", value, revision: String(revision), fencing_token: String(token) };
}

function seen(event: LockEvent): object {
  const { type: what } = event;
  return what === "granted" || what === "ended"
    ? { what, fencing_token: String(event.fencingToken) }
    : { what };
}
