/** Contends for a lock, and writes a history in the format of `clients/conformance.md`. */

import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import { LockLostError, MisconfiguredError, SessionEndedError } from "../src/index.js";
import type { Lock, LockMode, Lockkeeper, SessionChange } from "../src/index.js";

/** What a contender does. */
export interface Contention {
  readonly name: string;
  readonly mode: LockMode;
  readonly seconds: number;
  readonly holdMs: number;
  /** The client in the history. */
  readonly client: string;
}

/** How long a contender pauses after an acquire that failed. */
const PAUSE = 50;

/** Acquires and releases one lock in a loop. Returns the number of grants. */
export async function contend(locks: Lockkeeper, contention: Contention): Promise<number> {
  const { name, mode, client, seconds, holdMs } = contention;
  const file = process.env["LOCKKEEPER_HISTORY"];
  if (file === undefined) {
    throw new MisconfiguredError("LOCKKEEPER_HISTORY", "must name a file");
  }
  const end = performance.now() + seconds * 1000;
  let [attempt, grants] = [0, 0];
  const note = (what: string, fields: object = {}): void => {
    const at_us = Number(process.hrtime.bigint() / 1000n);
    const line = { at_us, client, attempt, name, what, ...fields };
    appendFileSync(file, `${JSON.stringify(line)}\n`);
  };
  while (performance.now() < end) {
    attempt += 1;
    note("asked");
    try {
      const lock = await locks.lock(name, { mode });
      grants += 1;
      note("granted", { token: String(lock.fencingToken) });
      const stop = reportWhileHeld(locks, lock, note);
      await sleep(holdMs, undefined, { signal: lock.signal }).catch(() => undefined);
      stop();
      await release(() => lock.release(), note);
    } catch {
      note("failed");
      await sleep(PAUSE);
    }
  }
  return grants;
}

/** Notes what a holder learns. Returns how to stop that. */
function reportWhileHeld(
  locks: Lockkeeper,
  lock: Lock,
  note: (what: string, fields?: object) => void,
): () => void {
  const { signal } = lock;
  let isAtRisk = false;
  const onChange = (change: SessionChange): void => {
    if (change.state === "at_risk") {
      isAtRisk = true;
      note("at_risk", { valid_us: Math.floor(change.validFor * 1000) });
    } else if (change.state === "resuming") {
      isAtRisk = false;
      note("broke", { valid_us: Math.floor(lock.validFor * 1000) });
    } else if (change.state === "connected" && !signal.aborted) {
      note(isAtRisk ? "recovered" : "resumed");
      isAtRisk = false;
    }
  };
  const onLost = (): void => {
    note("lost");
  };
  locks.on("session", onChange);
  signal.addEventListener("abort", onLost);
  return () => {
    locks.off("session", onChange);
    signal.removeEventListener("abort", onLost);
  };
}

async function release(work: () => Promise<void>, note: (what: string) => void): Promise<void> {
  note("release_sent");
  try {
    await work();
    note("released");
  } catch (error) {
    const isLost = error instanceof LockLostError || error instanceof SessionEndedError;
    note(isLost ? "refused" : "failed");
  }
}
