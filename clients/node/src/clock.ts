/** A monotonic clock in milliseconds that also counts the time in which the machine slept. */

import { uptime } from "node:os";

/** Differences below this are due to the resolution of the uptime. */
const RESOLUTION = 50;

/** The clock. */
export class Clock {
  #slept = 0;
  /** The uptime less the monotonic time, when the machine has not slept since. */
  #difference: number | undefined;

  /**
   * `read` returns the monotonic time. It stands still while the machine sleeps on Linux, where
   * `readUptime` goes on; elsewhere it goes on as well.
   */
  constructor(
    readonly read: () => number = () => performance.now(),
    readonly readUptime: () => number | undefined = uptimeOfLinux,
  ) {
    this.check();
  }

  /** The time, as of the last check of how long the machine slept. */
  now(): number {
    return this.read() + this.#slept;
  }

  /** Checks how long the machine slept, and returns the time. */
  check(): number {
    const uptime = this.readUptime();
    if (uptime !== undefined) {
      const difference = uptime - this.read();
      this.#difference ??= difference;
      const slept = difference - this.#difference;
      if (slept > this.#slept + RESOLUTION) {
        this.#slept = slept;
      }
    }
    return this.now();
  }
}

function uptimeOfLinux(): number | undefined {
  if (process.platform !== "linux") {
    return undefined;
  }
  try {
    return uptime() * 1000;
  } catch {
    return undefined;
  }
}
