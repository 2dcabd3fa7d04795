/** The session of a client: opened when it is first needed, and again after it has ended. */

import { RefusedError, SessionEndedError } from "./errors.js";
import type { Connector } from "./connector.js";
import type { GuardEntry } from "./machine/entries.js";
import type { Request, Response } from "./machine/messages.js";
import type { SessionSettings } from "./machine/machine.js";
import type { AcquireOptions, Logger } from "./options.js";
import { Session } from "./session.js";
import type { RunOptions, SessionListener } from "./session.js";

/** What a request acquired, and the session that holds it. */
export interface Held {
  readonly session: Session;
  readonly guard: GuardEntry;
}

/** The answer to a request of one kind. */
type AnswerOf<K extends Response["$case"]> = Extract<Response, { $case: K }>["value"];

/** The one session that all locks of a client share. */
export class Sessions {
  #session: Session | undefined;
  #isClosed = false;
  #lastOwner = 0;

  constructor(
    readonly connector: Connector,
    readonly settings: Pick<SessionSettings, "lease" | "clientName" | "releaseOnDisconnect">,
    readonly logger: Logger,
    readonly listener: SessionListener,
  ) {}

  /** The session if there is one that is not over: also one that is just reporting its losses. */
  get session(): Session | undefined {
    return this.#session?.isOver === true ? undefined : this.#session;
  }

  /** The session; a new one if there is none, or the last one is over. */
  current(): Session {
    if (this.#isClosed) {
      throw new SessionEndedError("the client is closed");
    }
    return this.session ?? this.#create();
  }

  #create(): Session {
    const { connector, settings, logger, listener } = this;
    this.#session = new Session(connector, settings, logger, listener);
    return this.#session;
  }

  /** An owner that no other request of this client has. */
  nextOwner(): string {
    this.#lastOwner += 1;
    return `guard-${String(this.#lastOwner)}`;
  }

  /** Runs a request that acquires something. */
  async acquire(request: Request, options: AcquireOptions): Promise<Held> {
    const session = this.current();
    const outcome = await session.run(request, options);
    if ("$case" in outcome) {
      throw unexpected();
    }
    return { session, guard: outcome };
  }

  /** Runs a request that has one kind of answer. */
  async call<K extends Response["$case"]>(
    kind: K,
    request: Request,
    options: RunOptions = {},
  ): Promise<AnswerOf<K>> {
    return answerOf(kind, await this.current().run(request, options));
  }

  /** Ends the session, and allows no other. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.session?.close();
  }
}

/** The answer, which must be of one kind. */
export function answerOf<K extends Response["$case"]>(
  kind: K,
  outcome: GuardEntry | Response,
): AnswerOf<K> {
  if (!("$case" in outcome) || outcome.$case !== kind) {
    throw unexpected();
  }
  return outcome.value as AnswerOf<K>;
}

function unexpected(): RefusedError {
  const message = "the coordinator sent an answer of another kind than was requested";
  return new RefusedError({ code: 13, message });
}
