/** Notes: what holders of locks say to others. */

import { MisconfiguredError } from "./errors.js";
import type { HolderNote } from "./errors.js";
import type { Note as WireNote } from "./proto/lockkeeper/v1/types.js";

/** What an acquire of a lock may say to others. Permits have no notes. */
export interface NoteOptions {
  /** Why the lock is held, for others to read: at most 256 bytes, without secrets. */
  reason?: string | undefined;
  /**
   * Labels for others to read, at most 8: keys of at most 64 bytes without `=`, values of at most
   * 128 bytes.
   */
  labels?: Readonly<Record<string, string>> | undefined;
}

/** The note on the wire; undefined if it says nothing. */
export function toWireNote({ reason = "", labels = {} }: NoteOptions): WireNote | undefined {
  if (typeof reason !== "string") {
    throw new MisconfiguredError("reason", "must be a string");
  }
  if (!Object.values(labels).every((it) => typeof it === "string")) {
    throw new MisconfiguredError("labels", "must be strings by their keys");
  }
  const isEmpty = reason === "" && Object.keys(labels).length === 0;
  return isEmpty ? undefined : { reason, labels };
}

/** The note of a holder for users, as a field if there is one. */
export function holderNote(note: WireNote | undefined): { holderNote?: HolderNote } {
  return note === undefined ? {} : { holderNote: note };
}
