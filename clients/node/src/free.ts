/** Waits until a lock is free, without a session. */

import type { Connector } from "./connector.js";
import { NotGrantedError } from "./errors.js";
import { notGrantedReason, toDuration, toMs } from "./machine/messages.js";
import { observe } from "./observe.js";
import { checkName, checkWait, LONGEST } from "./options.js";
import type { WaitOptions } from "./options.js";
import type { AwaitFreeRequest } from "./proto/lockkeeper/v1/lock.js";
import { LockServiceService } from "./proto/lockkeeper/v1/lock_service.js";

/** See {@link Calls.awaitFree}. */
export async function awaitFree(
  connector: Connector,
  name: string,
  { wait, signal }: WaitOptions,
): Promise<void> {
  checkName(name);
  checkWait(wait);
  const limit = wait === undefined || wait > LONGEST ? Infinity : wait;
  const until = performance.now() + limit;
  const request = (): AwaitFreeRequest => {
    const left = Math.max(until - performance.now(), 0);
    return { name, sessionId: "", waitTimeout: left < Infinity ? toDuration(left) : undefined };
  };
  const feed = { method: LockServiceService.awaitFree, request, signal, until };
  for await (const { message } of observe(connector, feed)) {
    const { event } = message;
    if (event?.$case === "free") {
      return;
    }
    if (event?.$case === "notFree") {
      const { reason, holderRemainingLease: lease, holderNote } = event.value;
      const remaining = lease === undefined ? undefined : toMs(lease);
      const why = notGrantedReason(reason);
      throw new NotGrantedError(name, why, remaining, undefined, holderNote);
    }
  }
}
