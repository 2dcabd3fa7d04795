// What is this client doing?

import {
  Refused, ask, at, clearAll, clip, duration, many, named, noteOf, setText, showCommand, showFacts, showRows,
} from "./base.js";

const list = { sessions: [], next: null };

const streamOf = (it) => {
  const state = it.phase === "live" ? "live" : `broken, may come back for ${duration(it.resumableForMs)}`;
  return it.atRisk ? `${state}, ▲ at risk` : state;
};

function show(count) {
  const rows = list.sessions.map((it) => ({
    key: it.sessionDigest,
    cells: [
      { text: it.clientName || it.sessionDigest, href: `#session/${it.sessionDigest}`, className: "name" },
      { text: it.identity || "—" },
      { text: it.peerAddress || "—" },
      { text: streamOf(it), className: it.atRisk ? "bad" : "" },
      { since: it.ageMs },
      { text: it.grantCount },
      { text: it.waitCount },
    ],
  }));
  showRows("sessions-rows", rows, "No session is open. A client opens one, for instance: lockkeeper run my-lock -- sleep 60");
  setText(at("sessions-count"), many(count, "session"));
  at("sessions-more").hidden = !list.next;
}

export async function loadAll(_, signal) {
  const answer = await ask("sessions", { pageSize: Math.min(Math.max(list.sessions.length, 100), 1000) }, signal);
  Object.assign(list, { sessions: answer.sessions, next: answer.nextPageToken });
  show(answer.sessionCount);
  return { delay: 5000, isEager: true };
}

const modeCell = (it) => ({ text: it.mode ?? (it.kind === "latch" ? "latch" : "permits") });

function showStandings(it) {
  const holds = it.holdings.map((held) => ({
    key: [held.name, held.mode, held.owner, held.sinceMs].join("\n"),
    cells: [
      named(held),
      modeCell(held),
      { text: held.owner === "0" ? "—" : held.owner },
      { text: held.holdCount },
      { since: held.sinceMs },
      { until: held.validForMs },
      { text: held.fencingToken === "0" ? "—" : held.fencingToken },
      { text: noteOf(held.note) || "—" },
    ],
  }));
  showRows("session-holds", holds, "It holds nothing.");
  const waits = it.waits.map((wait, index) => ({
    key: [index, wait.name, wait.mode, wait.owner].join("\n"),
    cells: [named(wait), modeCell(wait), { text: wait.owner === "0" ? "—" : wait.owner }, { since: wait.sinceMs }],
  }));
  showRows("session-waits", waits, "It waits for nothing.");
}

function showLost(events) {
  const rows = events.map((it) => ({
    key: String(it.number),
    cells: [
      named(it),
      { text: [it.reason, it.detail].filter(Boolean).join(": ") },
      { text: new Date(it.at).toLocaleString(), href: `#events/${it.at}` },
    ],
  }));
  showRows("session-lost", rows, "It lost nothing lately.");
}

const GONE = "This session is not at this coordinator: it has ended, or another coordinator or program knows it.";

export async function load(digest, signal) {
  const [it, lost] = await Promise.all([
    ask("session", { digest }, signal).catch((error) => {
      if (error instanceof Refused && error.status === 404) return null;
      throw error;
    }),
    ask("history", { sessionDigest: digest, event: "lost", limit: 50 }, signal),
  ]);
  showLost(lost.events);
  at("session-here").hidden = it === null;
  setText(at("session-gone"), it === null ? GONE : "");
  at("session-events").href = `#events/session/${digest}`;
  if (it === null) return { delay: 5000, isEager: false };
  setText(at("session-title"), clip(it.clientName || digest));
  showFacts(at("session-facts"), [
    ["Session", digest],
    ["Stream", streamOf(it)],
    ["Identity", it.identity || "none"],
    ["From", it.peerAddress ?? "—"],
    ["Age", duration(it.ageMs)],
    ["Lease", duration(it.leaseMs)],
    ["Holds", String(it.grantCount)],
    ["Waits", String(it.waitCount)],
  ]);
  showStandings(it);
  showCommand(at("session-command"), ["lockkeeper", "end-session", "--digest", digest, "--reason", "why"]);
  at("end-open").hidden = false;
  return { delay: 5000, isEager: true };
}

export function clear(digest) {
  setText(at("session-title"), digest);
  clearAll("session-facts", "session-holds", "session-waits", "session-lost");
  at("end-open").hidden = true;
}

export function begin(fail) {
  at("sessions-more").addEventListener("click", async () => {
    try {
      const answer = await ask("sessions", { pageToken: list.next });
      list.sessions.push(...answer.sessions);
      list.next = answer.nextPageToken;
      show(answer.sessionCount);
    } catch (error) {
      fail(error);
    }
  });
}
