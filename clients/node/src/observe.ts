/** Streams without a session that go on at the next endpoint. */

import { setTimeout as pause } from "node:timers/promises";

import { connectivityState } from "@grpc/grpc-js";
import type { ClientReadableStream, MethodDefinition } from "@grpc/grpc-js";

import type { Address } from "./address.js";
import { toError } from "./connector.js";
import type { Connector } from "./connector.js";
import { UnreachableError } from "./errors.js";
import type { LockkeeperError } from "./errors.js";
import { OPEN_TIMEOUT } from "./machine/events.js";
import { isFinal } from "./machine/stream.js";
import { TIMER_MAX } from "./options.js";

/** Between two attempts to go on, times a random 0.5 to 1. */
const RETRY_INTERVAL = 500;

/** Finds a dead coordinator on a stream without news; servers allow no shorter interval. */
const KEEPALIVE = { "grpc.keepalive_time_ms": 10_000 };

/** What to stream. */
export interface Feed<I, O> {
  /** The generated method. */
  readonly method: Pick<
    MethodDefinition<I, O>,
    "path" | "requestSerialize" | "responseDeserialize"
  >;
  /** The request that goes on after what was seen. */
  readonly request: () => I;
  /** Ends the stream, which is rejected with its reason. */
  readonly signal?: AbortSignal | undefined;
  /** From when on a failure, such as silence, ends it, by `performance.now()`. */
  readonly until?: number;
}

/** A message, and whether it is the first one after those of an earlier stream. */
export interface Message<O> {
  readonly message: O;
  readonly goesOn: boolean;
}

/**
 * The messages of one stream after the other. Fails with a failure that a retry would have too,
 * with that of the last endpoint if none answers at first, with the reason of the signal, and with
 * a {@link SessionEndedError} when the client is closed.
 */
export async function* observe<I, O>(
  connector: Connector,
  feed: Feed<I, O>,
): AsyncGenerator<Message<O>, void, undefined> {
  const { until = Infinity } = feed;
  const { addresses, closed } = connector;
  const signal = feed.signal === undefined ? closed : AbortSignal.any([feed.signal, closed]);
  let hasBegun = false;
  for (let attempt = 0; ; attempt += 1) {
    signal.throwIfAborted();
    const address = addresses[attempt % addresses.length] as Address;
    let goesOn = hasBegun;
    let failure: LockkeeperError = new UnreachableError(address.text, "it ended the stream");
    try {
      for await (const message of stream(connector, address, feed, signal)) {
        hasBegun = true;
        yield { message, goesOn };
        goesOn = false;
      }
    } catch (error) {
      failure = toError(error, address, false);
    }
    signal.throwIfAborted();
    // An end without an error is a failure too: a peer may end every stream at once.
    const isNowhere = !hasBegun && attempt + 1 >= addresses.length;
    if (isFinal(failure) || isNowhere || performance.now() >= until) {
      throw failure;
    }
    if (hasBegun) {
      const interval = RETRY_INTERVAL * (0.5 + Math.random() / 2);
      await pause(interval, undefined, { signal }).catch(() => undefined);
    }
  }
}

/** The messages of one stream. */
async function* stream<I, O>(
  connector: Connector,
  address: Address,
  { method, request, until = Infinity }: Feed<I, O>,
  signal: AbortSignal,
): AsyncGenerator<O, void, undefined> {
  const headers = await connector.headers();
  signal.throwIfAborted();
  const client = connector.connect(address, KEEPALIVE);
  const call: ClientReadableStream<O> = client.makeServerStreamRequest(
    method.path,
    method.requestSerialize,
    method.responseDeserialize,
    request(),
    headers,
  );
  // What comes after the loop below is of no interest.
  call.on("error", () => undefined);
  const giveUp = (): void => {
    call.destroy(new UnreachableError(address.text, "the coordinator does not answer"));
  };
  // gRPC itself would wait for a server that is silent.
  const opening = setTimeout(() => {
    if (client.getChannel().getConnectivityState(false) !== connectivityState.READY) {
      giveUp();
    }
  }, OPEN_TIMEOUT);
  const limit = Math.min(until - performance.now() + OPEN_TIMEOUT, TIMER_MAX);
  const waiting = until < Infinity ? setTimeout(giveUp, limit) : undefined;
  // Also if nobody asks for the next message: the process may be about to exit.
  const end = (): void => {
    clearTimeout(opening);
    clearTimeout(waiting);
    call.cancel();
    client.close();
  };
  signal.addEventListener("abort", end, { once: true });
  try {
    yield* call as AsyncIterable<O>;
  } finally {
    signal.removeEventListener("abort", end);
    end();
  }
}
