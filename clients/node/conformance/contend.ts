/** Contends for a lock and writes a history: time, lock, attempt and event in a line. */

import { appendFileSync } from "node:fs";

import type { LockMode, Lockkeeper } from "../src/index.js";
import { LockLostError } from "../src/index.js";
import { setTimeout as sleep } from "node:timers/promises";

/** What a contender does. */
export interface Contention {
  readonly name: string;
  readonly mode: LockMode;
  readonly seconds: number;
  readonly holdMs: number;
  /** Distinguishes the attempts of several contenders. */
  readonly client: string;
}

/** Acquires and releases one lock in a loop. Returns the number of grants. */
export async function contend(client: Lockkeeper, contention: Contention): Promise<number> {
  const file = process.env["LOCKKEEPER_HISTORY"];
  const { name, mode, client: prefix } = contention;
  const end = performance.now() + contention.seconds * 1000;
  let grants = 0;
  for (let number = 1; performance.now() < end; number += 1) {
    const attempt = `${prefix}-${String(number)}`;
    const note = (what: string): void => {
      if (file !== undefined) {
        const seconds = (Number(process.hrtime.bigint() / 1000n) / 1e6).toFixed(6);
        appendFileSync(file, `${seconds}s lock ${name} attempt ${attempt} ${what}\n`);
      }
    };
    grants += (await hold(client, contention, note)) ? 1 : 0;
  }
  return grants;

  async function hold(
    locks: Lockkeeper,
    { holdMs }: Contention,
    note: (what: string) => void,
  ): Promise<boolean> {
    note("Asked");
    try {
      const lock = await locks.lock(name, { mode });
      note(`Granted { token: ${String(lock.fencingToken)} }`);
      lock.signal.addEventListener("abort", () => {
        note("Lost");
      });
      await sleep(holdMs, undefined, { signal: lock.signal }).catch(() => undefined);
      note("ReleaseSent");
      const refused = (error: unknown): string => (error instanceof LockLostError ? "" : "Refused");
      const what = await lock.release().then(() => "Released", refused);
      if (what !== "") {
        note(what);
      }
      return true;
    } catch {
      note("Failed");
      await sleep(50);
      return false;
    }
  }
}
