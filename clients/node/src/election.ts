/** Elections. */

import type { Calls, Leader } from "./calls.js";
import type { Connector } from "./connector.js";
import { MisconfiguredError } from "./errors.js";
import { Holding } from "./held.js";
import { observe } from "./observe.js";
import { checkName } from "./options.js";
import type { LockOptions } from "./options.js";
import type { ObserveRequest, ObserveResponse } from "./proto/lockkeeper/v1/election.js";
import { ElectionServiceService } from "./proto/lockkeeper/v1/election_service.js";
import type { Grant } from "./proto/lockkeeper/v1/types.js";
import { lockRequest } from "./requests.js";
import { answerOf } from "./sessions.js";
import type { Held, Sessions } from "./sessions.js";

/** The options of a campaign. */
export type CampaignOptions = Omit<LockOptions, "mode">;

/** The options of an observation. */
export interface ObserveOptions {
  /** The last revision that was seen. By default, it begins with the present leader. */
  afterRevision?: bigint | undefined;
  /** Ends the observation, which is rejected with its reason. */
  signal?: AbortSignal | undefined;
}

/** What an observer of an election sees. */
export type ElectionEvent =
  /** A term or a new value. The leader may have ended already; then another event follows. */
  | { readonly type: "leader"; readonly leader: Leader }
  /** There is no leader, or it has proclaimed no value yet. */
  | { readonly type: "no_leader" }
  /** Terms or values were missed before the next one. */
  | { readonly type: "missed" };

/** The leadership of an election. `signal` is aborted when it is lost; the release ends it. */
export class Leadership extends Holding {
  /** The election's name. */
  readonly name: string;
  /**
   * The term, which is the fencing token to send to what the leader works on. It increases with
   * every leader.
   */
  readonly term: bigint;
  readonly #held: Held;

  /** @internal */
  constructor(held: Held) {
    super(held);
    this.#held = held;
    const grant = held.guard.holdings[0]?.grant as Grant;
    this.name = grant.name;
    this.term = grant.fencingToken;
  }

  /**
   * Replaces the value for all observers, and returns its revision. Fails with
   * {@link LockLostError} if the leadership is lost, with {@link RefusedError} (`NOT_OWNER` if it
   * has ended) and with {@link SessionEndedError}.
   */
  async proclaim(
    value: string,
    options: { signal?: AbortSignal | undefined } = {},
  ): Promise<bigint> {
    checkValue(value);
    if (this.loss !== undefined) {
      throw this.loss;
    }
    const { name, term, owner } = this;
    const request = { name, term, owner, value, sessionId: "" };
    const outcome = await this.#held.session.run({ $case: "proclaim", value: request }, options);
    return answerOf("proclaimed", outcome).revision;
  }

  /** Ends the leadership, so that the next candidate leads. The same as `release`. */
  resign(): Promise<void> {
    return this.release();
  }
}

/** An election: the fair lock of the same name, with a value that its holder proclaims. */
export class Election {
  readonly #sessions: Sessions;
  readonly #calls: Calls;
  readonly #connector: Connector;

  /** @internal */
  constructor(
    sessions: Sessions,
    calls: Calls,
    connector: Connector,
    /** The name. */
    readonly name: string,
  ) {
    checkName(name);
    this.#sessions = sessions;
    this.#calls = calls;
    this.#connector = connector;
  }

  /**
   * Waits until this candidate leads, and proclaims its value: at most 1024 bytes, without control
   * characters. Candidates lead in order of arrival, but for those that are `preferred`. Fails as
   * {@link Lockkeeper.lock} does, and does not lead then.
   */
  async campaign(value: string, options: CampaignOptions = {}): Promise<Leadership> {
    checkValue(value);
    const { signal } = options;
    const fair = { ...options, mode: "fair" } as const;
    const request = lockRequest("wait", this.name, fair, this.#sessions.nextOwner());
    const leadership = new Leadership(await this.#sessions.acquire(request, options));
    try {
      await leadership.proclaim(value, { signal });
    } catch (error) {
      await leadership.release().catch(() => undefined);
      throw error;
    }
    return leadership;
  }

  /** Who leads at the moment the store is read; null if nobody does. Opens no session. */
  leader(): Promise<Leader | null> {
    return this.#calls.leader(this.name);
  }

  /**
   * Observes the election: every term and value in order, that there is no leader, or that some
   * were missed. If the coordinator or the connection fails, it goes on at the next endpoint after
   * what it has seen. Leaving the loop ends it. Opens no session.
   *
   * Fails with {@link RefusedError} if the same request would be refused again, with the error of
   * the last endpoint if none can be observed at first, with the reason of `signal`, and with
   * {@link SessionEndedError} when the client is closed.
   */
  async *observe(options: ObserveOptions = {}): AsyncGenerator<ElectionEvent, void, undefined> {
    const { signal } = options;
    let { afterRevision = 0n } = options;
    const method = ElectionServiceService.observe;
    const request = (): ObserveRequest => ({ name: this.name, afterRevision });
    for await (const next of observe(this.#connector, { method, request, signal })) {
      const { event } = next.message;
      // Without a revision, the coordinator does not know what came in between.
      if (next.goesOn && afterRevision === 0n) {
        yield { type: "missed" };
      }
      if (event !== undefined) {
        afterRevision = event.$case === "leader" ? event.value.revision : afterRevision;
        yield toEvent(event);
      }
    }
  }
}

function toEvent(event: NonNullable<ObserveResponse["event"]>): ElectionEvent {
  switch (event.$case) {
    case "leader":
      return { type: "leader", leader: event.value };
    case "noLeader":
      return { type: "no_leader" };
    case "missed":
      return { type: "missed" };
  }
}

/** Checks a value. The coordinator checks its length. */
function checkValue(value: string): void {
  if (typeof value !== "string") {
    throw new MisconfiguredError("value", "must be a string");
  }
}
