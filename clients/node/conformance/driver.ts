/** The driver of the conformance kit: see `clients/conformance.md`. */

import { createInterface } from "node:readline";

import { Leadership, Lockkeeper, LockSet, NotGrantedError, Permits } from "../src/index.js";
import type { AcquireOptions, Lock, LockOptions } from "../src/index.js";
import { contend } from "./contend.js";
import { follow } from "./feeds.js";
import { measureSpeed } from "./speed.js";
import { describeError, Failure, print } from "./wire.js";
import type { Command } from "./wire.js";

type Held = Leadership | Lock | LockSet | Permits;

/** What the driver has connected, and what it holds. */
class Driver {
  #client: Lockkeeper | undefined;
  readonly #guards = new Map<string, Held>();
  readonly #idle: Lockkeeper[] = [];
  readonly #cancels = new Map<number, AbortController>();

  /** Runs a command and writes its answer. */
  async answer(command: Command): Promise<void> {
    const { id } = command;
    const cancel = new AbortController();
    this.#cancels.set(id, cancel);
    try {
      const ok = await this.#run(command, cancel.signal);
      print({ id, ok });
    } catch (error) {
      print({ id, error: describeError(error) });
    } finally {
      this.#cancels.delete(id);
    }
  }

  async close(): Promise<void> {
    await this.#client?.close().catch((error: unknown) => {
      process.stderr.write(`${String(error)}\n`);
    });
  }

  get #connected(): Lockkeeper {
    if (this.#client === undefined) {
      throw new Failure("misconfigured", "connect comes first");
    }
    return this.#client;
  }

  #held({ guard }: Command): Held {
    const held = this.#guards.get(guard ?? "");
    if (held === undefined) {
      throw new Failure("misconfigured", `there is no guard ${String(guard)}`);
    }
    return held;
  }

  async #run(command: Command, signal: AbortSignal): Promise<object> {
    switch (command.do) {
      case "connect":
        return this.#connect(command);
      case "close":
        await this.#connected.close();
        return {};
      case "cancel":
        this.#cancels.get(command.target ?? 0)?.abort(new Failure("cancelled", "cancelled"));
        return {};
      case "release":
        await this.#held(command).release();
        return {};
      case "renew": {
        const held = this.#held(command);
        await held.renew(command.lease_ms);
        return describe(held);
      }
      case "proclaim": {
        const held = this.#held(command);
        if (!(held instanceof Leadership)) {
          throw new Failure("misconfigured", "it leads nothing");
        }
        return { revision: String(await held.proclaim(command.value ?? "", { signal })) };
      }
      case "offer": {
        const held = this.#held(command);
        if (held instanceof LockSet || held instanceof Permits || held instanceof Leadership) {
          throw new Failure("misconfigured", "it is no single lock");
        }
        return { ticket: await held.offer({ signal }) };
      }
      case "observe":
      case "watch_lock":
      case "await_free":
        return follow(this.#connected, command, signal);
      case "state": {
        const held = this.#held(command);
        return { ...describe(held), lost: held.loss !== undefined };
      }
      case "contend": {
        const { name = "", mode = "exclusive", seconds = 1, hold_ms = 0, client = "" } = command;
        const contention = { name, mode, seconds, holdMs: hold_ms, client };
        return { grants: await contend(this.#connected, contention) };
      }
      case "sessions":
        return this.#openIdle(command);
      case "speed": {
        const { endpoints = [], tasks = 1, seconds = 1 } = command;
        return measureSpeed({ endpoints, tasks, seconds });
      }
      default:
        return (await this.#acquire(command, signal)) ?? (await this.#inSession(command, signal));
    }
  }

  /** Opens sessions of clients of their own, which stay idle. */
  async #openIdle({ endpoints = [], count = 0 }: Command): Promise<object> {
    for (let left = count; left > 0; left -= 1) {
      const client = new Lockkeeper({ endpoints });
      this.#idle.push(client);
      await client.connect();
    }
    return {};
  }

  async #connect(command: Command): Promise<object> {
    const { endpoints = [], lease_ms, client_name, release_on_disconnect } = command;
    const { token, token_file, ca_file, cert_file, key_file, server_name } = command;
    const client = new Lockkeeper({
      endpoints,
      lease: lease_ms,
      clientName: client_name,
      releaseOnDisconnect: release_on_disconnect,
      token,
      tokenFile: token_file,
      tls: { caFile: ca_file, certFile: cert_file, keyFile: key_file, serverName: server_name },
    });
    client.on("session", (change) => {
      const cause = "cause" in change ? change.cause : "";
      print({ event: "session", state: change.state, cause });
    });
    await client.connect();
    this.#client = client;
    return {};
  }

  /** Undefined if the command acquires nothing. */
  async #acquire(command: Command, signal: AbortSignal): Promise<object | undefined> {
    const { name = "", names = [], permits = 1, mode, owner, reason, labels } = command;
    const { lease_ms: lease, wait_ms: wait, min_replica_acks: minReplicaAcks } = command;
    const options: AcquireOptions = { owner, lease, wait, minReplicaAcks, signal };
    const lockOptions: LockOptions = { ...options, mode, reason, labels };
    const client = this.#connected;
    switch (command.do) {
      case "acquire":
        return this.#keep(command, await client.lock(name, lockOptions));
      case "try_acquire":
        return this.#keep(command, await client.tryLock(name, lockOptions));
      case "campaign": {
        const election = client.election(name);
        return this.#keep(command, await election.campaign(command.value ?? "", options));
      }
      case "claim":
        return this.#keep(command, await client.claim(name, command.ticket ?? "", { signal }));
      case "acquire_all":
        return this.#keep(command, await client.lockAll(names, lockOptions));
      case "try_acquire_all":
        return this.#keep(command, await client.tryLockAll(names, lockOptions));
      case "acquire_permits":
        return this.#keep(command, await client.semaphore(name).acquire(permits, options));
      case "try_acquire_permits":
        return this.#keep(command, await client.semaphore(name).tryAcquire(permits, options));
      default:
        return undefined;
    }
  }

  #keep({ guard = "", name, names, on_lost }: Command, held: Held | null): object {
    if (held === null) {
      throw new NotGrantedError(name ?? names?.join(", ") ?? "", "UNSPECIFIED");
    }
    this.#guards.set(guard, held);
    const report = (): void => {
      const { loss } = held;
      if (loss !== undefined) {
        if (on_lost !== undefined) {
          void this.answer(on_lost);
        }
        const { reason, detail } = loss;
        const fencing_token = String(loss.fencingToken);
        print({ event: "lost", guard, reason, fencing_token, detail });
      }
    };
    held.onYieldRequested(({ name: asked, by, reason, preempts }) => {
      print({ event: "yield_requested", name: asked, by, reason, preempts });
    });
    held.signal.addEventListener("abort", report);
    if (held.signal.aborted) {
      report();
    }
    return describe(held);
  }

  async #inSession(command: Command, signal: AbortSignal): Promise<object> {
    const client = this.#connected;
    const { name = "", permits = 0, count = 0, by = 1, wait_ms, owner = "" } = command;
    switch (command.do) {
      case "set_permits":
        await client.semaphore(name).setPermits(permits);
        return {};
      case "describe_semaphore": {
        const seen = await client.semaphore(name).describe();
        return { permits: seen.permits, available: seen.available };
      }
      case "set_count":
        return { count: await client.latch(name).setCount(count) };
      case "count_down":
        return { count: await client.latch(name).countDown(by) };
      case "await_latch":
        await client.latch(name).wait({ signal, ...(wait_ms !== undefined && { wait: wait_ms }) });
        return {};
      case "describe_latch":
        return { count: (await client.latch(name).describe()).count };
      case "delete_latch":
        await client.latch(name).delete();
        return {};
      case "describe": {
        const seen = await client.describe(name);
        return {
          holder_count: seen.holderCount,
          waiter_count: seen.waiterCount,
          last_fencing_token: String(seen.lastFencingToken),
        };
      }
      case "check_token": {
        const token = BigInt(command.fencing_token ?? "0");
        return { current: (await client.checkToken(name, token)).current };
      }
      case "once_try_acquire": {
        const lease = command.lease_ms;
        const grant = await client.calls.tryAcquire(name, { owner, lease, mode: command.mode });
        const token = grant === null ? {} : { fencing_token: String(grant.fencingToken) };
        return { acquired: grant !== null, ...token };
      }
      case "once_renew":
        await client.calls.renew(name, owner, { lease: command.lease_ms, mode: command.mode });
        return {};
      case "once_release":
        await client.calls.release(name, owner, command.mode && { mode: command.mode });
        return {};
      default:
        throw new Failure("unsupported", command.do);
    }
  }
}

function describe(held: Held): object {
  const valid_ms = Math.floor(held.validFor);
  if (held instanceof Permits) {
    return { permit_ids: held.permitIds, valid_ms };
  }
  if (held instanceof LockSet) {
    const tokens = [...held.fencingTokens].map(([name, token]) => [name, String(token)]);
    return { fencing_tokens: Object.fromEntries(tokens) as object, valid_ms };
  }
  const token = held instanceof Leadership ? held.term : held.fencingToken;
  return { fencing_token: String(token), valid_ms };
}

const driver = new Driver();
print({ event: "ready" });
for await (const line of createInterface({ input: process.stdin })) {
  void driver.answer(JSON.parse(line) as Command);
}
await driver.close();
process.exit(0);
