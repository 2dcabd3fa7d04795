// A coordinator, commands that use it, and a browser that looks at it. Everything that was started ends with `close`.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const BROWSER = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

const PATIENCE_MS = 60_000;

export class World {
  constructor(binary) {
    this.binary = binary;
    this.processes = [];
    this.commands = [];
    this.troubles = [];
  }

  // A coordinator with some settings; its gRPC address and that of its admin port.
  async coordinator(...flags) {
    const child = spawn(this.binary, ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", ...flags], {
      env: { PATH: process.env.PATH, LOCKKEEPER__LOG__FORMAT: "json" },
      stdio: ["ignore", "ignore", "pipe"],
    });
    this.processes.push(child);
    const found = { log: [], child };
    const lines = createInterface({ input: child.stderr });
    await new Promise((resolve, reject) => {
      child.on("exit", (code) => reject(new Error(`the coordinator ended with ${code}: ${found.log.join("\n")}`)));
      lines.on("line", (line) => {
        found.log.push(line);
        const event = JSON.parse(line);
        if (event.message === "serving") found.server = `http://${event.address}`;
        if (event.message === "admin port") found.admin = `http://${event.address}`;
        if (found.server && found.admin) resolve();
      });
    });
    return found;
  }

  // A Redis on a free port; `send` runs a command and waits for its answer.
  async redis() {
    const port = await new Promise((resolve) => {
      const probe = createServer().listen(0, "127.0.0.1", () => {
        const { port: free } = probe.address();
        probe.close(() => resolve(free));
      });
    });
    const child = spawn("redis-server", ["--port", String(port), "--bind", "127.0.0.1", "--save", ""], { stdio: "ignore" });
    this.processes.push(child);
    const send = (...words) =>
      new Promise((resolve, reject) => {
        const socket = connect(port, "127.0.0.1", () => {
          const parts = words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`);
          socket.write(`*${words.length}\r\n${parts.join("")}`);
        });
        socket.on("error", reject);
        socket.once("data", (answer) => {
          socket.destroy();
          resolve(String(answer));
        });
      });
    await until("Redis answers", () => send("PING").catch(() => null));
    return { url: `redis://127.0.0.1:${port}`, send };
  }

  // A command that goes on until it is ended, such as `run`.
  begin(coordinator, ...words) {
    const child = spawn(this.binary, words, {
      env: { PATH: process.env.PATH, LOCKKEEPER_SERVER: coordinator.server },
      stdio: ["ignore", "ignore", "pipe"],
    });
    child.said = "";
    child.stderr.on("data", (text) => (child.said += text));
    child.ended = new Promise((resolve) => child.on("exit", (code) => resolve(code)));
    this.commands.push(child);
    return child;
  }

  // A command that ends.
  async run(coordinator, ...words) {
    const child = this.begin(coordinator, ...words);
    const code = await child.ended;
    if (code !== 0) throw new Error(`${words.join(" ")} ended with ${code}: ${child.said}`);
  }

  async open() {
    this.profile = await mkdtemp(join(tmpdir(), "console-"));
    this.browser = await chromium.launchPersistentContext(this.profile, {
      executablePath: "/usr/bin/chromium",
      args: BROWSER,
      viewport: { width: 1200, height: 800 },
    });
    this.browser.setDefaultTimeout(PATIENCE_MS);
  }

  // A page on which nothing may go wrong.
  async page(url, options = {}) {
    const page = await this.browser.newPage();
    if (options.viewport) await page.setViewportSize(options.viewport);
    await page.emulateMedia({ colorScheme: options.colorScheme ?? "light" });
    page.on("console", (said) => {
      const isExpected = (options.expected ?? []).some((text) => said.text().includes(text));
      if (["error", "warning"].includes(said.type()) && !isExpected) this.troubles.push(said.text());
    });
    page.on("pageerror", (error) => this.troubles.push(String(error)));
    page.on("dialog", (dialog) => this.troubles.push(`a dialog: ${dialog.message()}`));
    page.on("request", (request) => {
      if (!request.url().startsWith(new URL(url).origin)) this.troubles.push(`asks for ${request.url()}`);
    });
    await page.goto(url);
    return page;
  }

  async close() {
    await this.browser?.close();
    // Each ends what it runs.
    const lives = (child) => child.exitCode === null && child.signalCode === null;
    for (const child of this.commands.filter(lives)) child.kill("SIGTERM");
    await Promise.all(this.commands.map((child) => child.ended));
    for (const child of this.processes.filter(lives)) child.kill("SIGKILL");
    if (this.profile) await rm(this.profile, { recursive: true, force: true });
  }
}

export const row = (page, table, name) => page.locator(`#${table} tbody tr`, { hasText: name });

export async function isTooWide(page) {
  return page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
}

// A call of the API, as HTTP/JSON.
export async function call(coordinator, method, body) {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${coordinator.server}/lockkeeper.v1.${method}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${method}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

// Holds so many locks, with prefixes as people choose them.
export async function holdMany(coordinator, count) {
  const prefixes = ["invoices", "orders", "search", "stock"];
  const names = Array.from({ length: count }, (_, at) => `${prefixes[at % 4]}:${String(at).padStart(5, "0")}`);
  while (names.length > 0) {
    const locks = names.splice(0, 50).map((name) => ({ name, mode: "LOCK_MODE_EXCLUSIVE" }));
    await call(coordinator, "LockService/TryAcquireAll", { locks, owner: "warehouse", lease: "3600s" });
  }
}

// Two owners that each hold a lock and wait for that of the other, each at a coordinator of its own if there are two.
export async function plantDeadlock(world, first, second = first) {
  const acquire = (coordinator, name, owner) => call(coordinator, "LockService/TryAcquire", { name, owner, lease: "3600s" });
  await acquire(first, "accounts:alice", "transfer-1");
  await acquire(second, "accounts:bob", "transfer-2");
  world.begin(first, "acquire", "accounts:bob", "--owner", "transfer-1", "--wait", "1h");
  world.begin(second, "acquire", "accounts:alice", "--owner", "transfer-2", "--wait", "1h");
}

// A thread of a Redisson client holds a lock.
export async function plantRedissonHolder(redis, name, owner) {
  await redis.send("HSET", name, owner, "1");
  await redis.send("PEXPIRE", name, "3600000");
}

// Waits until a look at something is as it should be.
export async function until(what, look) {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`it never came: ${what}`);
    await new Promise((resume) => setTimeout(resume, 100));
  }
}
