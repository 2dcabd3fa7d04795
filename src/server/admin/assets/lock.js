// Why does this name make everybody wait? A lock, a semaphore or a latch.

import {
  ask, at, clearAll, client, clip, duration, isDenied, isRedisson, linkTo, make, many, moment, noteOf, put, showCommand, showFacts, showRows, svg,
  whoOf, whyOf,
} from "./base.js";

const GRANTS = 50;
const LANE = 22;
const WIDTH = 1000;

const ownerOf = (it) => [it.sessionDigest, it.owner, it.mode].join("\n");

// The grants of a lock, oldest first, from its events.
function grantsOf(events) {
  const [grants, open] = [[], new Map()];
  for (const event of events.toReversed()) {
    const key = ownerOf(event);
    const known = open.get(key);
    if (event.event === "granted" && known?.token !== event.fencingToken) {
      const grant = { who: whoOf(event), token: event.fencingToken, from: event.at, to: null, end: "held", isLost: false };
      open.set(key, grant);
      grants.push(grant);
    } else if (known && (["lost", "abandoned"].includes(event.event) || (event.event === "released" && event.holdCount === 0))) {
      const isLost = event.event === "lost";
      Object.assign(known, { to: event.at, end: isLost ? `lost, ${whyOf(event)}` : event.event, isLost });
      open.delete(key);
    }
  }
  return grants.slice(-GRANTS);
}

// A grant without a session ends unnoticed by its lease, at the latest when the next exclusive one begins.
function settle(grants, held) {
  grants.forEach((grant, index) => {
    if (grant.to !== null || held.has(grant.who)) return;
    Object.assign(grant, { to: grants[index + 1]?.from ?? grant.from, end: "ended elsewhere, or by its lease" });
  });
}

function drawTimeline(grants) {
  const now = Date.now();
  const [from, to] = [grants[0].from, Math.max(...grants.map((it) => it.to ?? now))];
  const scale = WIDTH / Math.max(to - from, 1);
  const lanes = [];
  const bars = grants.map((grant, index) => {
    const end = grant.to ?? now;
    const free = lanes.findIndex((until) => until <= grant.from);
    const lane = free < 0 ? lanes.length : free;
    lanes[lane] = end;
    const kind = grant.isLost ? "lost" : grant.to === null ? "held" : `bar${index % 2}`;
    const width = Math.max((end - grant.from) * scale, 2);
    const bar = { x: (grant.from - from) * scale, y: lane * LANE, width, height: LANE - 4, class: kind };
    return svg("rect", bar, svg("title", {}, `${grant.who}, ${duration(end - grant.from)}, ${grant.end}`));
  });
  const height = Math.min(lanes.length, 12) * LANE;
  const label = `${many(grants.length, "grant")} in ${duration(to - from)}, ${grants.filter((it) => it.isLost).length} lost`;
  const size = { viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", height, role: "img", "aria-label": label };
  at("timeline").replaceChildren(svg("svg", size, ...bars));
  put("timeline-text", `${label}. In a gap nobody held it.`);
}

function showTimeline(events, lock) {
  const grants = grantsOf(events);
  settle(grants, new Set(lock.holders.map(whoOf)));
  at("lock-grants").hidden = grants.length === 0;
  if (grants.length > 0) drawTimeline(grants);
  const rows = grants.toReversed().map((it, index) => [
    `${it.from} ${index}`,
    [
      it.who,
      moment(it.from),
      it.to === null ? { since: Date.now() - it.from } : duration(it.to - it.from),
      it.end,
    ],
    it.isLost ? "lost" : "",
  ]);
  showRows("grants-rows", rows, "");
}

// What the holders wait for themselves, on and on.
function showChain(graph, name) {
  const byName = new Map(graph.names.map((it) => [it.name, it]));
  const [steps, seen] = [[], new Set([name])];
  let held = byName.get(name);
  while (held) {
    const blocks = ({ owner }) => held.holders.includes(owner);
    const next = graph.names.find((it) => it !== held && it.waiters.some(blocks));
    if (!next) break;
    const wait = next.waiters.find(blocks);
    const who = `${whoOf(graph.owners[wait.owner])}, which holds ${clip(held.name)}, waits for `;
    steps.push(make("li", {}, who, linkTo(next), ` for ${duration(wait.waitingForMs)}`));
    held = seen.has(next.name) ? null : next;
    seen.add(next.name);
  }
  if (byName.get(name)?.isDeadlocked) steps.push(make("li", { className: "bad" }, "▲ Deadlock: none of them goes on by itself."));
  at("lock-chain").replaceChildren(...steps);
}

function showHolders(lock, heldFor) {
  const rows = lock.holders.map((holder) => [
    ownerOf(holder),
    [
      { ...client(holder), mark: isRedisson(holder) ? "Redisson" : "" },
      holder.mode ?? "permits",
      holder.holdCount,
      { since: holder.heldForMs ?? heldFor(holder) },
      { until: holder.remainingLeaseMs },
      noteOf(holder.note) || "—",
    ],
  ]);
  showRows("lock-holders", rows, "Nobody holds it.");
}

function showQueue(lock) {
  const rows = (lock.waiters ?? []).map((waiter, index) => [
    String(index),
    [
      index + 1,
      client(waiter),
      waiter.mode ?? "permits",
      { since: waiter.waitingForMs },
    ],
  ]);
  const left = lock.waiterCount - rows.length;
  const more = ["\n\n", [{ text: many(left, "more waiter"), span: 9 }], "few"];
  showRows("lock-waiters", left > 0 ? [...rows, more] : rows, "Nobody waits.");
}

const FACTS = {
  lock: (it) => [
    ["State", it.mode ? `held, ${it.mode}` : "free"],
    ["Newest fencing token", it.lastFencingToken === "0" ? "none is known" : it.lastFencingToken],
  ],
  semaphore: (it) => [["Permits", `${it.availablePermits} of ${it.totalPermits} free`]],
  latch: (it) => [
    ["Count", it.count > 0 ? String(it.count) : "0, open"],
    ["Forgotten in", it.remainingLeaseMs === null ? "" : duration(it.remainingLeaseMs)],
  ],
};

// What all may see who may see the lock, unless it concerns other names.
const orNothing = (asked, nothing) => asked.catch((error) => (isDenied(error) ? nothing : Promise.reject(error)));

export const load = (kind) => async (name, signal) => {
  const nothing = { events: [], names: [], owners: [] };
  const isLock = kind === "lock";
  const [it, history, graph] = await Promise.all([
    ask(kind, { name }, signal),
    isLock ? orNothing(ask("history", { name, limit: 1000 }, signal), nothing) : nothing,
    isLock ? orNothing(ask("graph", {}, signal), nothing) : nothing,
  ]);
  it.holders ??= [];
  const granted = (holder) => history.events.find((event) => event.event === "granted" && ownerOf(event) === ownerOf(holder));
  const heldFor = (holder) => (granted(holder) ? Date.now() - granted(holder).at : null);
  showFacts(at("lock-facts"), [...FACTS[kind](it), ["Holders", it.holderCount ?? ""], ["Waiting", it.waiterCount]]);
  showHolders(it, heldFor);
  showQueue(it);
  showTimeline(history.events, it);
  showChain(graph, name);
  at("lock-queue").hidden = kind === "latch";
  at("lock-events").href = `#events/name/${encodeURIComponent(name)}`;
  showCommand(at("lock-command"), isLock ? ["lockkeeper", "why", name] : ["lockkeeper", kind, "describe", name]);
  at("lock-changes").hidden = !isLock || it.holderCount === 0;
};

export function clear(name, kind) {
  put("lock-title", name);
  put("lock-kind", kind);
  clearAll("lock-facts", "lock-holders", "lock-waiters", "lock-chain", "timeline");
  at("lock-changes").hidden = true;
  at("lock-grants").hidden = true;
}
