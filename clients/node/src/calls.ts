/** Calls without a session: an owner and a lease, and nothing is renewed in the background. */

import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";

import { connectivityState } from "@grpc/grpc-js";
import type {
  CallOptions,
  ClientUnaryCall,
  Metadata,
  MethodDefinition,
  ServiceError,
} from "@grpc/grpc-js";

import type { Address } from "./address.js";
import { Clock } from "./clock.js";
import { toError } from "./connector.js";
import type { Connector } from "./connector.js";
import { holderDescription, lockDescription, tokenCheck } from "./describe.js";
import type { HolderDescription, LockDescription, TokenCheck } from "./describe.js";
import { LockkeeperError, RefusedError, UnreachableError } from "./errors.js";
import { explanation } from "./explain.js";
import type { Explanation } from "./explain.js";
import { awaitFree } from "./free.js";
import { Grant } from "./grant.js";
import { OPEN_TIMEOUT, RETRY_PAUSE } from "./machine/events.js";
import { toDuration, toMs } from "./machine/messages.js";
import { toWireNote } from "./note.js";
import type { NoteOptions } from "./note.js";
import { checkCount, checkLease, checkName, checkWait } from "./options.js";
import { toWireMode } from "./options.js";
import type { LockMode, WaitOptions } from "./options.js";
import { LockAdminServiceService } from "./proto/lockkeeper/v1/admin_service.js";
import { ElectionServiceService } from "./proto/lockkeeper/v1/election_service.js";
import type { RequestYieldRequest } from "./proto/lockkeeper/v1/lock.js";
import type { LockServiceClient } from "./proto/lockkeeper/v1/lock_service.js";
import { traceparent } from "./telemetry.js";

/** The time limit of a call with its retries; longer than a coordinator waits for its store. */
const CALL_TIMEOUT = 10_000;

/** How often a call is sent at most. */
const ATTEMPTS_MAX = 4;

/** The options of calls without a session. */
export interface CallOptionsOfLock {
  /** The mode of the lock; `exclusive` by default. */
  mode?: LockMode | undefined;
  /** The lease in milliseconds; the coordinator's (30 s) by default. */
  lease?: number | undefined;
}

/** The options of a try without a session. */
export interface TryCallOptions extends CallOptionsOfLock, NoteOptions {
  /** The owner. The coordinator makes one if it is unset; the grant has it. */
  owner?: string | undefined;
  /** The minimum number of the store's replicas that must acknowledge the grant. */
  minReplicaAcks?: number | undefined;
}

/** How to release a lock by force. */
export interface ForceReleaseOptions {
  /** Why, for the holders and for the audit log. */
  reason: string;
  /**
   * How long the lock stays closed to others at most, in milliseconds, while its holders stop. It
   * opens as soon as they have released it. 0 by default.
   */
  gracePeriod?: number | undefined;
}

/** What a forced release has done. */
export interface ForcedRelease {
  /** Whether the lock was held. */
  readonly released: boolean;
  /** The number of its holders. */
  readonly holderCount: number;
  /** How long the lock stays closed at most, in milliseconds. */
  readonly closedFor: number;
}

/** How to ask the holders of a lock to release it. */
export interface YieldOptions {
  /** Why, for the holders: 1 to 256 bytes. */
  reason: string;
  /** How long the request stands, in milliseconds, at most 1 h; 30 s by default. */
  within?: number | undefined;
  /** Whether to take the lock from holders that still hold it when the request ends. */
  preempt?: boolean | undefined;
  /**
   * With `preempt`: how long the lock then stays closed to others at most, in milliseconds. By
   * default, until no former holder can rely on its lease.
   */
  gracePeriod?: number | undefined;
}

/** Who has a request to yield. */
export interface YieldAnswer {
  /** The holders that have it, at most 100. Empty without the right `describe`. */
  readonly reached: readonly HolderDescription[];
  /** Those that do not, such as Redisson clients. Empty without the right `describe`. */
  readonly unreached: readonly HolderDescription[];
  /** The number of holders; 0 if the lock is free. */
  readonly holderCount: number;
  /** The number of holders that have it. */
  readonly reachedCount: number;
}

/** The leader of an election, and a value that it has proclaimed. */
export interface Leader {
  /** The term, which increases with every leader. */
  readonly term: bigint;
  /** The value. */
  readonly value: string;
  /** The number of the value in the record of the election: 1 more than that before it. */
  readonly revision: bigint;
  /** The leader within its session. */
  readonly owner: string;
  /** The name that the leader's client gave. */
  readonly clientName: string;
  /** The first digits of the SHA-256 of its session's id. */
  readonly sessionDigest: string;
}

/** A generated method of one call. */
type Method<I, O> = (
  request: I,
  metadata: Metadata,
  options: Partial<CallOptions>,
  callback: (error: ServiceError | null, response: O) => void,
) => ClientUnaryCall;

/**
 * Calls without a session, for occasional use. Each fails with {@link RefusedError} and
 * {@link UnreachableError}, and after the end of the client with {@link SessionEndedError}. They
 * carry a request id, and are retried at the next coordinator.
 */
export class Calls {
  readonly #connector: Connector;
  readonly #clientName: string;
  readonly #clock: Clock;
  readonly #clients = new Map<Address, LockServiceClient>();
  /** Where the last call ended: the endpoint that answered it, or the last that it tried. */
  #endpoint = 0;

  /** @internal */
  constructor(connector: Connector, clientName: string, clock = new Clock()) {
    this.#connector = connector;
    this.#clientName = clientName;
    this.#clock = clock;
  }

  /** Acquires a lock if it is free, else returns null. It is held until its lease ends. */
  async tryAcquire(name: string, options: TryCallOptions = {}): Promise<Grant | null> {
    checkCount(options.minReplicaAcks, "minReplicaAcks");
    const { owner, minReplicaAcks } = options;
    const request = {
      ...fieldsOf(name, owner ?? "", options),
      requestId: randomUUID(),
      minReplicaAcks: minReplicaAcks ?? 0,
      note: toWireNote(options),
    };
    const [sentAt, { grant }] = await this.#call((it) => it.tryAcquire.bind(it), request);
    return grant === undefined ? null : new Grant(grant, sentAt, this.#clock);
  }

  /** Renews a lock, from now on; a longer lease is not shortened. Fails if it is not held. */
  async renew(name: string, owner: string, options: CallOptionsOfLock = {}): Promise<Grant> {
    const request = fieldsOf(name, owner, options);
    const [sentAt, { grant }] = await this.#call((it) => it.renew.bind(it), request);
    if (grant === undefined) {
      throw new RefusedError({ code: 13, message: "the coordinator's answer has no grant" });
    }
    return new Grant(grant, sentAt, this.#clock);
  }

  /** Releases one hold of a lock. Fails if it is not held. */
  async release(
    name: string,
    owner: string,
    options: Pick<CallOptionsOfLock, "mode"> = {},
  ): Promise<void> {
    const request = { ...fieldsOf(name, owner, options), requestId: randomUUID() };
    await this.#call((it) => it.release.bind(it), request);
  }

  /** The holders and the waiters of a lock. */
  async describe(name: string): Promise<LockDescription> {
    checkName(name);
    return lockDescription((await this.#call((it) => it.describe.bind(it), { name }))[1]);
  }

  /** Whether a fencing token is that of the newest grant. */
  async checkToken(name: string, fencingToken: bigint): Promise<TokenCheck> {
    checkName(name);
    const request = { name, fencingToken };
    return tokenCheck((await this.#call((it) => it.checkToken.bind(it), request))[1]);
  }

  /**
   * Releases a lock of any holders, for operators; needs the admin right. A call that is lost on
   * its way is not retried, because it could take the lock from the next holder.
   */
  async forceRelease(
    name: string,
    { reason, gracePeriod = 0 }: ForceReleaseOptions,
  ): Promise<ForcedRelease> {
    checkWait(gracePeriod, "gracePeriod");
    const request = { name, reason, gracePeriod: toDuration(gracePeriod) };
    const method = methodOf(LockAdminServiceService.forceRelease);
    const { released, holderCount, closedFor } = await this.#once(name, method, request);
    return { released, holderCount, closedFor: toMs(closedFor) };
  }

  /**
   * Asks the holders of a lock to release it; see {@link Holding.onYieldRequested}. With `preempt`,
   * which needs the right of that name, the lock is taken from those that still hold it when the
   * request ends, and stays closed to others until they have stopped. A call that is lost on its
   * way is not retried, because the next holders are not meant.
   */
  async requestYield(name: string, options: YieldOptions): Promise<YieldAnswer> {
    const { reason, within, preempt = false, gracePeriod } = options;
    checkWait(within, "within");
    checkWait(gracePeriod, "gracePeriod");
    const request: RequestYieldRequest = {
      name,
      reason,
      within: within === undefined ? undefined : toDuration(within),
      clientName: this.#clientName,
      preempt,
      gracePeriod: gracePeriod === undefined ? undefined : toDuration(gracePeriod),
    };
    const answer = await this.#once(name, (it) => it.requestYield.bind(it), request);
    const { holderCount, reachedCount } = answer;
    return {
      reached: answer.reached.map(holderDescription),
      unreached: answer.unreached.map(holderDescription),
      holderCount,
      reachedCount,
    };
  }

  /**
   * Why a lock or a semaphore is waited for: its holders, what each of them waits for, the holders
   * of that, and so on, over all coordinators, with the deadlocks among them.
   */
  async explain(name: string): Promise<Explanation> {
    checkName(name);
    return explanation((await this.#call((it) => it.explain.bind(it), { name }))[1]);
  }

  /**
   * Waits until a lock has no holder in any mode, and acquires nothing. Any owner may hold it when
   * this returns. Goes on at the next endpoint after a failure, once a coordinator has answered.
   *
   * Fails with {@link NotGrantedError} after `wait` milliseconds, and with the reason of `signal`.
   */
  awaitFree(name: string, options: WaitOptions = {}): Promise<void> {
    return awaitFree(this.#connector, name, options);
  }

  /** Who leads an election; null if nobody does. */
  async leader(election: string): Promise<Leader | null> {
    checkName(election);
    const method = methodOf(ElectionServiceService.leader);
    const [, { leader }] = await this.#call(method, { name: election });
    return leader ?? null;
  }

  /** A call that is not retried, to the coordinator that answers; a refusal is an answer too. */
  async #once<I, O>(
    name: string,
    method: (client: LockServiceClient) => Method<I, O>,
    request: I,
  ): Promise<O> {
    await this.describe(name).catch((error: unknown) => {
      if (!(error instanceof RefusedError)) {
        throw error;
      }
    });
    const { addresses } = this.#connector;
    const address = addresses[this.#endpoint % addresses.length] as Address;
    const deadline = performance.now() + CALL_TIMEOUT;
    return (await this.#attempt(address, method, request, deadline))[1];
  }

  /** Closes the connections. */
  close(): void {
    this.#clients.forEach((it) => {
      it.close();
    });
    this.#clients.clear();
  }

  /** Returns the answer, and when its request was sent, by the clock. */
  async #call<I, O>(
    method: (client: LockServiceClient) => Method<I, O>,
    request: I,
  ): Promise<[number, O]> {
    const { addresses } = this.#connector;
    const deadline = performance.now() + CALL_TIMEOUT;
    let unreachable = 0;
    // Of this call, so that calls at the same time do not skip an endpoint.
    let endpoint = this.#endpoint;
    for (let attempt = 1; ; attempt += 1) {
      const address = addresses[endpoint % addresses.length] as Address;
      try {
        const answer = await this.#attempt(address, method, request, deadline);
        this.#endpoint = endpoint;
        return answer;
      } catch (error) {
        const failure = error as LockkeeperError;
        unreachable += failure instanceof UnreachableError ? 1 : 0;
        const attempts = Math.max(ATTEMPTS_MAX, addresses.length);
        const mayRetry = failure instanceof UnreachableError || isTemporary(failure);
        const pauseFor = pauseAfter(failure);
        const isLate = performance.now() + pauseFor >= deadline;
        if (!mayRetry || attempt >= attempts || unreachable >= addresses.length || isLate) {
          this.#endpoint = endpoint;
          throw failure;
        }
        endpoint += 1;
        await pause(pauseFor);
      }
    }
  }

  async #attempt<I, O>(
    address: Address,
    method: (client: LockServiceClient) => Method<I, O>,
    request: I,
    deadline: number,
  ): Promise<[number, O]> {
    const metadata = await this.#connector.headers();
    const { closed } = this.#connector;
    closed.throwIfAborted();
    const parent = traceparent();
    if (parent !== "") {
      metadata.set("traceparent", parent);
    }
    const client = this.#clients.get(address) ?? this.#connector.connect(address);
    this.#clients.set(address, client);
    const sentAt = this.#clock.check();
    const options = { deadline: Date.now() + Math.max(deadline - performance.now(), 1) };
    return new Promise((resolve, reject) => {
      const fail = (error: LockkeeperError): void => {
        // A coordinator that says why it refuses has a connection that works.
        if (!(error instanceof RefusedError) || error.reason === undefined) {
          this.#drop(address, client);
        }
        reject(closed.aborted ? closed.reason : error);
      };
      const call = method(client)(request, metadata, options, (error, response) => {
        clearTimeout(timer);
        if (error === null) {
          resolve([sentAt, response]);
        } else {
          fail(toError(error, address, true));
        }
      });
      const timer = setTimeout(() => {
        const state = client.getChannel().getConnectivityState(false);
        if (state !== connectivityState.READY) {
          fail(new UnreachableError(address.text, "the coordinator does not answer"));
          call.cancel();
        }
      }, OPEN_TIMEOUT);
    });
  }

  /** The next call connects anew, without gRPC's backoff, unless another one has done so. */
  #drop(address: Address, client: LockServiceClient): void {
    if (this.#clients.get(address) === client) {
      this.#clients.delete(address);
      client.close();
    }
  }
}

/** The generated method of another service, on the same connection. */
function methodOf<I, O>({
  path,
  requestSerialize,
  responseDeserialize,
}: Pick<MethodDefinition<I, O>, "path" | "requestSerialize" | "responseDeserialize">): (
  client: LockServiceClient,
) => Method<I, O> {
  return (client) => (request, metadata, options, callback) =>
    client.makeUnaryRequest<I, O>(
      path,
      requestSerialize,
      responseDeserialize,
      request,
      metadata,
      options,
      callback as (error: ServiceError | null, response?: O) => void,
    );
}

function fieldsOf(
  name: string,
  owner: string,
  { mode, lease }: CallOptionsOfLock,
): {
  name: string;
  sessionId: string;
  owner: string;
  mode: ReturnType<typeof toWireMode>;
  lease: ReturnType<typeof toDuration> | undefined;
} {
  checkName(name);
  checkLease(lease);
  return {
    name,
    sessionId: "",
    owner,
    mode: toWireMode(mode),
    lease: lease === undefined ? undefined : toDuration(lease),
  };
}

/** Whether the same request, with the same id, may succeed at once at another coordinator. */
function isTemporary(error: LockkeeperError): boolean {
  if (!(error instanceof RefusedError)) {
    return false;
  }
  const { code, reason } = error;
  return reason === undefined
    ? code === 14 || code === 2
    : ["STORE_UNAVAILABLE", "OUTCOME_UNKNOWN", "DRAINING"].includes(reason);
}

function pauseAfter(error: LockkeeperError): number {
  const delay = error instanceof RefusedError ? (error.retryDelay ?? RETRY_PAUSE) : 0;
  return delay * (0.5 + Math.random() / 2);
}
