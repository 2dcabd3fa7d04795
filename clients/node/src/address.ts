/** The address of a coordinator. */

import { MisconfiguredError } from "./errors.js";

/** The address of a coordinator. */
export interface Address {
  /** As users write it. */
  readonly text: string;
  /** As gRPC resolves it. */
  readonly target: string;
  readonly isTls: boolean;
}

/** Parses `http://HOST:PORT`, `https://HOST:PORT`, `unix:///PATH` or `HOST:PORT`. */
export function parseAddress(text: string): Address {
  const refuse = (): never => {
    const forms = "http://HOST:PORT, https://HOST:PORT or unix:///PATH";
    throw new MisconfiguredError("endpoints", `${JSON.stringify(text)} must be ${forms}`);
  };
  const full = typeof text === "string" && !text.includes("://") ? `http://${text}` : text;
  const unix = /^unix:\/\/(\/.+)$/.exec(full);
  if (unix !== null) {
    return { text: full, target: `unix:${String(unix[1])}`, isTls: false };
  }
  if (!URL.canParse(full)) {
    return refuse();
  }
  const { protocol, host, hostname, port, pathname, username, search } = new URL(full);
  const isTls = protocol === "https:";
  const isPlain = ["", "/"].includes(pathname) && username === "" && search === "";
  if ((!isTls && protocol !== "http:") || !isPlain || hostname === "") {
    return refuse();
  }
  // A URL leaves out the port that its scheme has by default.
  const target = port === "" ? `${host}:${isTls ? "443" : "80"}` : host;
  return { text: full.replace(/\/$/, ""), target: `dns:${target}`, isTls };
}

/** Parses the endpoints of a client. */
export function parseAddresses(endpoints: string | readonly string[]): Address[] {
  const addresses = (typeof endpoints === "string" ? [endpoints] : endpoints).map(parseAddress);
  if (addresses.length === 0) {
    throw new MisconfiguredError("endpoints", "a client needs at least one");
  }
  return addresses;
}
