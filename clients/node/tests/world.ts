/** Real processes for tests: coordinators, a Redis, and certificates. Each ends with its test. */

import { execFileSync, spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";

import type { TestContext } from "node:test";

/** The coordinator's program. */
export const BINARY = resolve(process.env["LOCKKEEPER"] ?? "../../target/debug/lockkeeper");

/** The session secret of coordinators that resume each other's sessions. */
export const SECRET = "session.secret=0123456789abcdef0123456789abcdef";

const cleanUps = new WeakMap<TestContext, (() => unknown)[]>();

/** Does something after a test, before what was registered earlier. */
export function afterwards(t: TestContext, cleanUp: () => unknown): void {
  const registered = cleanUps.get(t);
  if (registered !== undefined) {
    registered.push(cleanUp);
    return;
  }
  const all = [cleanUp];
  cleanUps.set(t, all);
  t.after(async () => {
    for (const next of all.reverse()) {
      await next();
    }
  });
}

/** A coordinator. */
export class Coordinator {
  private constructor(
    readonly process: ChildProcess,
    /** `HOST:PORT`. */
    readonly address: string,
  ) {}

  /** Starts one on a free port, or on that of an earlier one. */
  static async start(
    t: TestContext,
    { listen = "127.0.0.1:0", store = "embedded:", set = [] as string[] } = {},
  ): Promise<Coordinator> {
    const settings = ["log.format=json", ...set].flatMap((it) => ["--set", it]);
    const args = ["serve", "--listen", listen, "--store", store, ...settings];
    const child = spawn(BINARY, args, { stdio: ["ignore", "ignore", "pipe"] });
    afterwards(t, () => stop(child));
    const lines: string[] = [];
    for await (const line of createInterface(child.stderr)) {
      lines.push(line);
      const event = line.startsWith("{") ? (JSON.parse(line) as { address?: string }) : {};
      if (event.address !== undefined) {
        drain(child.stderr);
        return new Coordinator(child, event.address);
      }
    }
    throw new Error(`the coordinator did not start: ${lines.join("\n")}`);
  }

  get url(): string {
    return `http://${this.address}`;
  }

  /** Ends it with a signal, and waits for that. */
  async end(signal: NodeJS.Signals): Promise<void> {
    this.process.kill(signal);
    await exited(this.process);
  }
}

/** Its log is not read any more, but it must be able to write it. */
function drain(stream: Readable): void {
  stream.resume();
}

async function exited(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    await once(child, "exit");
  }
}

async function stop(child: ChildProcess): Promise<void> {
  child.kill("SIGKILL");
  await exited(child);
}

/** A port that is free now. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** Starts a Redis, and returns its URL. */
export async function startRedis(t: TestContext): Promise<string> {
  const port = await freePort();
  const args = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder(t)];
  const child = spawn("redis-server", args, { stdio: "ignore" });
  afterwards(t, () => stop(child));
  await eventually("redis answers", async () => {
    const socket = connect(port, "127.0.0.1");
    try {
      await once(socket, "connect");
      return true;
    } catch {
      return false;
    } finally {
      socket.destroy();
    }
  });
  return `redis://127.0.0.1:${String(port)}`;
}

/** A server that accepts connections and never answers. */
export async function startSilence(t: TestContext): Promise<string> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const sockets = new Set<{ destroy: () => void }>();
  server.on("connection", (socket) => sockets.add(socket));
  afterwards(t, () => {
    sockets.forEach((it) => {
      it.destroy();
    });
    server.close();
  });
  return `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
}

/** A folder that is removed after the test. */
export function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), "lockkeeper-node-"));
  afterwards(t, () => {
    rmSync(path, { recursive: true, force: true });
  });
  return path;
}

/** Makes `NAME.pem` and `NAME.key`, signed by itself or by another certificate. */
export function certificate(path: string, name: string, alternative: string, by?: string): void {
  const [key, pem] = [join(path, `${name}.key`), join(path, `${name}.pem`)];
  const subject = ["-subj", `/CN=${name}`, "-addext", `subjectAltName=${alternative}`];
  const leaf = ["-addext", "basicConstraints=critical,CA:FALSE"];
  const authority = by ?? "";
  const files = [join(path, `${authority}.pem`), join(path, `${authority}.key`)] as const;
  const signed = by === undefined ? [] : ["-CA", files[0], "-CAkey", files[1], ...leaf];
  const made = ["-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", pem, "-days", "2"];
  const args = ["req", "-x509", ...made, ...subject, ...signed];
  execFileSync("openssl", args, { stdio: "pipe" });
}

/** Waits until something is true. */
export async function eventually(
  what: string,
  isTrue: () => boolean | Promise<boolean>,
): Promise<void> {
  const end = performance.now() + 20_000;
  while (!(await isTrue())) {
    if (performance.now() > end) {
      throw new Error(`not within 20 s: ${what}`);
    }
    await sleep(10);
  }
}
