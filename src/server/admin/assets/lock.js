// Why does this name make everybody wait? A lock, a semaphore or a latch.

import {
  ask, at, clearAll, duration, hrefOf, hrefOfSession, isDenied, isRedisson, make, many, noteOf, setText, showCommand, showFacts, showRows,
  svg, whoOf,
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
    } else if (known && (event.event === "lost" || event.event === "abandoned" || (event.event === "released" && event.holdCount === 0))) {
      const why = [event.reason, event.detail].filter(Boolean).join(": ");
      Object.assign(known, { to: event.at, end: why ? `lost, ${why}` : event.event, isLost: event.event === "lost" });
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
    const [x, end] = [(grant.from - from) * scale, ((grant.to ?? now) - from) * scale];
    let lane = lanes.findIndex((until) => until <= x);
    if (lane < 0) lane = lanes.length;
    lanes[lane] = end;
    const kind = grant.isLost ? "lost" : grant.to === null ? "held" : `bar${index % 2}`;
    const bar = { x, y: lane * LANE, width: Math.max(end - x, 2), height: LANE - 4, class: kind };
    return svg("rect", bar, svg("title", {}, `${grant.who}, ${duration((grant.to ?? now) - grant.from)}, ${grant.end}`));
  });
  const size = { viewBox: `0 0 ${WIDTH} ${Math.min(lanes.length, 12) * LANE}`, preserveAspectRatio: "none", role: "img" };
  const lost = grants.filter((it) => it.isLost).length;
  const label = `${many(grants.length, "grant")} in ${duration(to - from)}, ${lost} lost`;
  at("timeline").replaceChildren(svg("svg", { ...size, height: Math.min(lanes.length, 12) * LANE, "aria-label": label }, ...bars));
  setText(at("timeline-text"), `${label}. From ${new Date(from).toLocaleTimeString()} to ${new Date(to).toLocaleTimeString()}; a gap: nobody held it.`);
}

function showTimeline(events, lock) {
  const grants = grantsOf(events);
  settle(grants, new Set(lock.holders.map(whoOf)));
  at("lock-grants").hidden = grants.length === 0;
  if (grants.length > 0) drawTimeline(grants);
  const rows = grants.toReversed().map((it, index) => ({
    key: `${it.from} ${index}`,
    className: it.isLost ? "lost" : "",
    cells: [
      { text: it.who },
      { text: new Date(it.from).toLocaleString(), href: `#events/${it.from}` },
      it.to === null ? { since: Date.now() - it.from } : { text: duration(it.to - it.from) },
      { text: it.end },
    ],
  }));
  showRows("grants-rows", rows, "");
}

// What the holders wait for themselves, on and on.
function showChain(graph, name) {
  const byName = new Map(graph.names.map((it) => [it.name, it]));
  const [steps, seen] = [[], new Set([name])];
  let at_ = byName.get(name);
  while (at_) {
    const next = graph.names.find((it) => at_.holders.some((holder) => it !== at_ && it.waiters.some(({ owner }) => owner === holder)));
    if (!next) break;
    const wait = next.waiters.find(({ owner }) => at_.holders.includes(owner));
    const link = make("a", { href: hrefOf(next.name, next.kind) }, next.name);
    steps.push(make("li", {}, `${whoOf(graph.owners[wait.owner])}, which holds ${at_.name}, waits for `, link, ` for ${duration(wait.waitingForMs)}`));
    if (seen.has(next.name)) break;
    seen.add(next.name);
    at_ = next;
  }
  if (at_ && steps.length > 0 && byName.get(name).isDeadlocked) steps.push(make("li", { className: "bad" }, "▲ Deadlock: none of them goes on by itself."));
  at("lock-chain").replaceChildren(...steps);
}

function showHolders(lock, heldFor) {
  const rows = lock.holders.map((holder) => ({
    key: ownerOf(holder),
    cells: [
      { text: whoOf(holder), href: hrefOfSession(holder.sessionDigest), className: "name", mark: isRedisson(holder) ? "Redisson" : "" },
      { text: holder.mode ?? "permits" },
      { text: holder.holdCount },
      { since: holder.heldForMs ?? heldFor(holder) },
      { until: holder.remainingLeaseMs },
      { text: noteOf(holder.note) || "—" },
    ],
  }));
  showRows("lock-holders", rows, "Nobody holds it.");
}

function showQueue(lock) {
  const rows = (lock.waiters ?? []).map((waiter, index) => ({
    key: [index, ownerOf(waiter)].join("\n"),
    cells: [
      { text: index + 1 },
      { text: whoOf(waiter), href: hrefOfSession(waiter.sessionDigest), className: "name" },
      { text: waiter.mode ?? "permits" },
      { since: waiter.waitingForMs },
    ],
  }));
  const left = lock.waiterCount - rows.length;
  const more = { key: "\n\n", className: "few", cells: [{ text: many(left, "more waiter"), span: 9 }] };
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
  const waiting = ["Waiting", it.waiterCount.toLocaleString("en")];
  const holders = it.holderCount === undefined ? [] : [["Holders", it.holderCount.toLocaleString("en")]];
  showFacts(at("lock-facts"), [...FACTS[kind](it), ...holders, waiting]);
  showHolders(it, heldFor);
  showQueue(it);
  showTimeline(history.events, it);
  showChain(graph, name);
  at("holders").hidden = kind === "latch";
  at("queue").hidden = kind === "latch";
  at("lock-events").href = `#events/name/${encodeURIComponent(name)}`;
  showCommand(at("lock-command"), isLock ? ["lockkeeper", "describe", name] : ["lockkeeper", kind, "describe", name]);
  at("force-open").hidden = !isLock || it.holderCount === 0;
  return { delay: 5000, isEager: true };
};

export function clear(name, kind) {
  setText(at("lock-title"), name);
  setText(at("lock-kind"), kind);
  clearAll("lock-facts", "lock-holders", "lock-waiters", "lock-chain", "timeline");
  at("force-open").hidden = true;
  at("lock-grants").hidden = true;
}
