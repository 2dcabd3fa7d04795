/** The lines that the driver reads and writes. */

import {
  LockkeeperError,
  LockLostError,
  NotGrantedError,
  RefusedError,
} from "../src/index.js";
import type { LockMode } from "../src/index.js";

/** A command, with the fields of all kinds. */
export interface Command {
  id: number;
  do: string;
  target?: number;
  endpoints?: string[];
  client_name?: string;
  release_on_disconnect?: boolean;
  token?: string;
  token_file?: string;
  ca_file?: string;
  cert_file?: string;
  key_file?: string;
  server_name?: string;
  name?: string;
  names?: string[];
  guard?: string;
  mode?: LockMode;
  owner?: string;
  reason?: string;
  labels?: Record<string, string>;
  value?: string;
  feed?: string;
  ticket?: string;
  wait_ms?: number;
  lease_ms?: number;
  min_replica_acks?: number;
  permits?: number;
  count?: number;
  by?: number;
  fencing_token?: string;
  seconds?: number;
  hold_ms?: number;
  client?: string;
  on_lost?: Command;
  tasks?: number;
}

/** Writes an event. */
export function print(event: object): void {
  process.stdout.write(`${JSON.stringify(event)}\n`);
}

/** A failure that is not one of the client. */
export class Failure extends Error {
  constructor(readonly kind: "cancelled" | "unsupported" | "misconfigured", message: string) {
    super(message);
  }
}

/** The error of an answer. */
export function describeError(error: unknown): object {
  if (error instanceof Failure) {
    return { kind: error.kind, message: error.message };
  }
  if (!(error instanceof LockkeeperError)) {
    throw error;
  }
  const { kind, message } = error;
  const hasReason =
    error instanceof LockLostError ||
    error instanceof NotGrantedError ||
    error instanceof RefusedError;
  return { kind, ...(hasReason && { reason: error.reason }), message };
}
