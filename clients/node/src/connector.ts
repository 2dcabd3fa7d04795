/** Connections to coordinators: addresses, certificates, tokens, and their failures. */

import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";

import { credentials, Metadata, status } from "@grpc/grpc-js";
import type { ChannelCredentials, ChannelOptions, ServiceError } from "@grpc/grpc-js";

import { parseAddresses } from "./address.js";
import type { Address } from "./address.js";
import {
  LockkeeperError,
  MisconfiguredError,
  RefusedError,
  SessionEndedError,
  UnreachableError,
} from "./errors.js";
import type { ClientOptions, TlsOptions } from "./options.js";
import { Status } from "./proto/google/rpc/status.js";
import { LockServiceClient } from "./proto/lockkeeper/v1/lock_service.js";
import { refusedBy } from "./status.js";

/** The largest answer: a resume may list a hundred thousand grants. */
const MESSAGE_BYTES_MAX = 64 * 1024 * 1024;

/** How to connect to any of the coordinators. */
export class Connector {
  readonly addresses: readonly Address[];
  readonly #tls: TlsOptions;
  readonly #token: ClientOptions["token"];
  readonly #tokenFile: string | undefined;
  readonly #closing = new AbortController();

  /** Fails if an address or a certificate cannot be used. */
  constructor({ endpoints, tls, token, tokenFile }: ClientOptions) {
    this.addresses = parseAddresses(endpoints);
    this.#tls = tls ?? {};
    this.#token = token;
    this.#tokenFile = tokenFile;
    if (token !== undefined && tokenFile !== undefined) {
      throw new MisconfiguredError("token", "cannot be set together with tokenFile");
    }
    if (this.addresses.some((it) => it.isTls)) {
      this.#secure();
    }
  }

  /** Ends what uses no session, when the client is closed. */
  get closed(): AbortSignal {
    return this.#closing.signal;
  }

  /** Ends what uses no session. */
  close(): void {
    this.#closing.abort(new SessionEndedError("the client is closed"));
  }

  /** A client of one address, with a connection of its own. Certificates are read now. */
  connect(address: Address, more: ChannelOptions = {}): LockServiceClient {
    const options: ChannelOptions = {
      ...more,
      "grpc.use_local_subchannel_pool": 1,
      "grpc.service_config_disable_resolution": 1,
      "grpc.enable_http_proxy": 0,
      "grpc.enable_retries": 0,
      "grpc.max_receive_message_length": MESSAGE_BYTES_MAX,
    };
    if (this.#tls.serverName !== undefined) {
      options["grpc.ssl_target_name_override"] = this.#tls.serverName;
      options["grpc.default_authority"] = this.#tls.serverName;
    }
    const secure = address.isTls ? this.#secure() : credentials.createInsecure();
    return new LockServiceClient(address.target, secure, options);
  }

  #secure(): ChannelCredentials {
    const { caFile, certFile, keyFile } = this.#tls;
    if ((certFile === undefined) !== (keyFile === undefined)) {
      const isKey = certFile === undefined;
      const unset = isKey ? "tls.certFile" : "tls.keyFile";
      throw new MisconfiguredError(isKey ? "tls.keyFile" : "tls.certFile", `needs ${unset}`);
    }
    const ca = readTls("tls.caFile", caFile);
    const key = readTls("tls.keyFile", keyFile);
    const certificate = readTls("tls.certFile", certFile);
    try {
      return credentials.createSsl(ca, key, certificate);
    } catch (error) {
      throw misconfigured("tls", error);
    }
  }

  /** The headers of a call. Tokens are read now. */
  async headers(): Promise<Metadata> {
    const metadata = new Metadata();
    const token = await this.#readToken();
    if (token !== undefined) {
      if (!/^[\x21-\x7e]+$/.test(token)) {
        const field = this.#tokenFile === undefined ? "token" : "tokenFile";
        throw new MisconfiguredError(field, "the token is empty or has invalid letters");
      }
      metadata.set("authorization", `Bearer ${token}`);
    }
    return metadata;
  }

  async #readToken(): Promise<string | undefined> {
    if (this.#tokenFile !== undefined) {
      try {
        return (await readFile(this.#tokenFile, "utf8")).trim();
      } catch (error) {
        throw misconfigured("tokenFile", error);
      }
    }
    if (typeof this.#token !== "function") {
      return this.#token?.trim();
    }
    try {
      return (await this.#token()).trim();
    } catch (error) {
      throw misconfigured("token", error);
    }
  }
}

function readTls(field: string, file: string | undefined): Buffer | null {
  try {
    return file === undefined ? null : readFileSync(file);
  } catch (error) {
    throw misconfigured(field, error);
  }
}

function misconfigured(field: string, error: unknown): MisconfiguredError {
  const problem = error instanceof Error ? error.message : String(error);
  return new MisconfiguredError(field, problem, { cause: error });
}

/**
 * The error of the client for a failure of gRPC, or for one of the client itself. `isSent`: the
 * request may have been executed although its answer was lost.
 */
export function toError(error: unknown, address: Address, isSent: boolean): LockkeeperError {
  if (error instanceof LockkeeperError) {
    return error;
  }
  const { code, details, metadata } = error as Partial<ServiceError>;
  const [bytes] = metadata?.get("grpc-status-details-bin") ?? [];
  if (bytes instanceof Buffer) {
    return refusedBy(Status.decode(bytes));
  }
  if (code === undefined) {
    return new UnreachableError(address.text, String(error), { cause: error });
  }
  const why = describe(details ?? "", address);
  const isLate = code === status.DEADLINE_EXCEEDED;
  const isLost = isSent ? isLate || NOT_CONNECTED.test(details ?? "") : LOST_ON_THE_WAY.has(code);
  return isLost
    ? new UnreachableError(address.text, why, { cause: error })
    : new RefusedError({ code, message: why }, { cause: error });
}

/** The codes with which gRPC itself reports a broken connection, or an answer that is not gRPC. */
const LOST_ON_THE_WAY = new Set<number>([status.UNAVAILABLE, status.INTERNAL, status.UNKNOWN]);

/** What gRPC reports if no connection was made. */
const NOT_CONNECTED = /^No connection established|^Name resolution failed/;

/** Causes of failed connections that the words of the libraries do not explain. */
const CAUSES: [RegExp, string][] = [
  [/^Deadline exceeded/, "the coordinator does not answer"],
  [/wrong version number/, "it does not speak TLS; its address begins with http://"],
  [/^Protocol error/, "it does not speak HTTP/2"],
  [/alert (certificate|bad cert|unknown ca)/, "it refuses this client's certificate"],
  [/self-signed|unable to (verify|get)|certificate/, "its certificate is not accepted: $&"],
];

/** What a server does that expects TLS, or does not. */
const CLOSED = /^Failed to connect|ECONNRESET|disconnected before secure TLS/;

/** The cause of a failed connection in one line. */
function describe(details: string, { isTls }: Address): string {
  const cause = details
    .replace(/^No connection established\. Last error: /, "")
    .replace(/( \(\d{4}-[^)]*Z\))?\. Resolution note: .*$/s, "")
    .replace(/^Error( \[\w+\])?: /, "")
    .split("\n", 1)[0];
  const line = cause ?? "";
  if (CLOSED.test(line)) {
    const other = isTls ? "without TLS begins with http://" : "with TLS begins with https://";
    return `it closed the connection; an address ${other}`;
  }
  const known = CAUSES.find(([pattern]) => pattern.test(line));
  return known === undefined ? line : known[1].replace("$&", line);
}
