/** Statuses of gRPC as errors of the client. */

import { BinaryReader } from "@bufbuild/protobuf/wire";

import { RefusedError } from "./errors.js";
import type { Refusal } from "./errors.js";
import { toMs } from "./machine/messages.js";
import { Duration } from "./proto/google/protobuf/duration.js";
import type { Status } from "./proto/google/rpc/status.js";

const ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo";
const RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo";

/** The error that a status of a coordinator means. */
export function refusedBy({ code, message, details }: Status): RefusedError {
  const refusal: Refusal = { code, message };
  for (const { typeUrl, value } of details) {
    if (typeUrl === ERROR_INFO) {
      Object.assign(refusal, errorInfo(value));
    } else if (typeUrl === RETRY_INFO) {
      Object.assign(refusal, retryInfo(value));
    }
  }
  return new RefusedError(refusal);
}

/** The fields of `google.rpc.ErrorInfo`: reason = 1, metadata = 3. */
function errorInfo(bytes: Uint8Array): Partial<Refusal> {
  const info = { reason: "", metadata: {} as Record<string, string> };
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag();
    if (field === 1) {
      info.reason = reader.string();
    } else if (field === 3) {
      const [key, value] = entry(reader.bytes());
      info.metadata[key] = value;
    } else {
      reader.skip(type);
    }
  }
  return info;
}

/** An entry of a map of strings: key = 1, value = 2. */
function entry(bytes: Uint8Array): [string, string] {
  const pair: [string, string] = ["", ""];
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [field] = reader.tag();
    pair[field === 1 ? 0 : 1] = reader.string();
  }
  return pair;
}

/** The field of `google.rpc.RetryInfo`: retry_delay = 1. */
function retryInfo(bytes: Uint8Array): Partial<Refusal> {
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag();
    if (field === 1) {
      return { retryDelay: toMs(Duration.decode(reader.bytes())) };
    }
    reader.skip(type);
  }
  return {};
}
