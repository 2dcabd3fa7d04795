/** The official client of Lockkeeper for Node.js. See {@link Lockkeeper}. */

export { Lockkeeper } from "./client.js";
export type { ClientEvents, Work } from "./client.js";
export { Calls } from "./calls.js";
export type {
  CallOptionsOfLock,
  ForcedRelease,
  ForceReleaseOptions,
  Leader,
  TryCallOptions,
  YieldAnswer,
  YieldOptions,
} from "./calls.js";
export type {
  HolderDescription,
  LatchDescription,
  LockDescription,
  SemaphoreDescription,
  TokenCheck,
  WaiterDescription,
} from "./describe.js";
export { Election, Leadership } from "./election.js";
export type { CampaignOptions, ElectionEvent, ObserveOptions } from "./election.js";
export {
  LockkeeperError,
  LockLostError,
  MisconfiguredError,
  NotGrantedError,
  RefusedError,
  SessionEndedError,
  UnreachableError,
} from "./errors.js";
export type { ErrorKind, HolderNote, LostReason, NotGrantedReason, Refusal } from "./errors.js";
export type {
  Deadlock,
  DeadlockedWait,
  ExplainedHolder,
  ExplainedLock,
  ExplainedWait,
  Explanation,
} from "./explain.js";
export { Grant } from "./grant.js";
export { Holding, Lock, LockSet, Permits } from "./held.js";
export { Latch } from "./latch.js";
export type { SessionChange, Waiting, YieldRequest } from "./machine/events.js";
export type { NoteOptions } from "./note.js";
export type {
  AcquireOptions,
  ClientOptions,
  LockMode,
  LockOptions,
  Logger,
  OfferOptions,
  RequestOptions,
  TlsOptions,
  TryLockOptions,
  TryOptions,
  WaitOptions,
} from "./options.js";
export type { LockName } from "./requests.js";
export { Semaphore } from "./semaphore.js";
export type { GrantEnd, LockEvent, LockGapReason, WatchOptions } from "./watch.js";
