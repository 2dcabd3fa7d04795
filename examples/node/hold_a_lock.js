// Holds a lock around work: node hold_a_lock.js 127.0.0.1:7625 nightly-report 10
//
// Ends with 0 if the work was done, with 3 if the lock was lost meanwhile.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import grpc from '@grpc/grpc-js';
import loader from '@grpc/proto-loader';

const LEASE = 6000; // milliseconds
const OWNER = '0';

const protos = process.env.LOCKKEEPER_PROTOS ?? new URL('../../proto', import.meta.url).pathname;
const definition = loader.loadSync('lockkeeper/v1/lock_service.proto', {
  includeDirs: [protos],
  longs: String, // A fencing token is larger than what a number can hold.
  enums: String,
  oneofs: true,
  defaults: true,
});
const { LockService } = grpc.loadPackageDefinition(definition).lockkeeper.v1;

const duration = (ms) => ({ seconds: Math.floor(ms / 1000), nanos: (ms % 1000) * 1e6 });
const millis = ({ seconds, nanos }) => Number(seconds) * 1000 + nanos / 1e6;

/** One lock, held in a session that is resumed when its stream breaks. `signal` aborts when the lock is not certainly held any more. */
class HeldLock {
  #service;
  #stream;
  #opened;
  #pending = new Map(); // opId -> { frame, resolve, reject }
  #opId = 0;
  #closed = false;
  #lost = new AbortController();
  #expiry;
  #pause = 50;

  constructor(server, name) {
    this.name = name;
    this.token = undefined;
    this.signal = this.#lost.signal;
    this.#service = new LockService(server, grpc.credentials.createInsecure(), { 'grpc.keepalive_time_ms': LEASE / 3 });
    this.#connect();
  }

  async acquire() {
    const answer = await this.#ask({ acquire: { name: this.name, owner: OWNER, requestId: randomUUID() } });
    if (!answer.granted) throw new Error('not granted');
    this.token = answer.granted.fencingToken;
    // How long the answer was under way is not known; a renewal tells until when the lock is held.
    await this.#renew();
    this.#keep();
  }

  async release() {
    this.#closed = true;
    clearTimeout(this.#expiry);
    await this.#ask({ release: { name: this.name, owner: OWNER, requestId: randomUUID() } });
    this.#stream.end(); // Half-closing ends the session.
    this.#service.close();
  }

  async checkToken() {
    const answer = await this.#ask({ checkToken: { name: this.name, fencingToken: this.token } });
    return answer.tokenChecked.current;
  }

  async #renew() {
    const sentAt = performance.now();
    const answer = await this.#ask({ renew: { name: this.name, owner: OWNER } });
    const left = sentAt + millis(answer.renewed.grant.validFor) - performance.now();
    clearTimeout(this.#expiry);
    this.#expiry = setTimeout(() => this.#lose('it could not be renewed in time'), left);
  }

  /** The coordinator renews too; this is for knowing until when, whatever happens to it. */
  async #keep() {
    while (!this.#closed && !this.signal.aborted) {
      await sleep(LEASE / 3, undefined, { ref: false });
      if (!this.#closed) await this.#renew().catch((error) => console.error(`not renewed: ${error.message}`));
    }
  }

  #lose(why) {
    this.#lost.abort(new Error(why));
  }

  /** Sends an operation; its end may come on another stream. */
  #ask(request) {
    const frame = { opId: ++this.#opId, ...request };
    return new Promise((resolve, reject) => {
      this.#pending.set(String(frame.opId), { frame, resolve, reject });
      if (this.#stream) this.#stream.write(frame);
    });
  }

  #first() {
    if (!this.#opened) return { open: { lease: duration(LEASE), clientName: 'hold_a_lock.js' } };
    // Name what is held, and what may be held because its answer was lost: what is not named is released.
    const grant = { name: this.name, mode: 'LOCK_MODE_EXCLUSIVE', owner: OWNER, holdCount: 1, watched: true };
    const { sessionId, resumeToken } = this.#opened;
    return { resume: { sessionId, resumeToken, grants: [grant] } };
  }

  #connect() {
    const stream = this.#service.session();
    stream.on('data', (response) => this.#on(stream, response));
    stream.on('error', (error) => {
      console.error(`stream ended: ${error.message}`);
      if (error.code === grpc.status.NOT_FOUND) this.#lose('the session is over');
    });
    stream.on('status', () => {
      this.#stream = undefined;
      if (this.#closed && this.#pending.size === 0) return;
      if (this.signal.aborted) return;
      setTimeout(() => this.#connect(), this.#pause * (0.5 + Math.random() / 2));
      this.#pause = Math.min(2 * this.#pause, 1000);
    });
    stream.write(this.#first());
  }

  #on(stream, response) {
    this.#pause = 50;
    switch (response.response) {
      case 'opened':
        if (this.#opened) console.log('resumed');
        this.#opened ??= response.opened;
        this.#stream = stream;
        // Repeated with their request ids, so nothing is done twice.
        for (const { frame } of this.#pending.values()) stream.write(frame);
        break;
      case 'lost':
        if (this.token) this.#lose(response.lost.reason);
        break;
      case 'waiting':
      case 'goingAway': // The stream ends now, and is opened anew.
      case 'atRisk':
      case 'recovered':
        break;
      default: {
        const operation = this.#pending.get(response.opId);
        this.#pending.delete(response.opId);
        if (response.failed) operation?.reject(new Error(response.failed.message));
        else operation?.resolve(response);
      }
    }
  }
}

const [server = '127.0.0.1:7625', name = 'nightly-report', seconds = '10'] = process.argv.slice(2);
const lock = new HeldLock(server, name);
await lock.acquire();
console.log(`holds ${name}, fencing token ${lock.token}`);
try {
  // The work: it shows the token to whatever it changes, and stops at once when the lock is lost.
  await sleep(Number(seconds) * 1000, undefined, { signal: lock.signal });
} catch {
  console.log(`lost: ${lock.signal.reason.message}`);
  process.exit(3);
}
// What the resource should ask if it cannot compare tokens by itself.
console.log(`token is current: ${await lock.checkToken()}`);
await lock.release();
console.log('done');
