// What is this client doing?

import {
  ask, at, clearAll, client, clip, duration, many, moment, named, noteOf, placeOf, put, showCommand, showFacts, showRows, whyOf,
} from "./base.js";

let pageSize = 100;

const streamOf = (it) => {
  const state = it.phase === "live" ? "live" : `broken, may come back for ${duration(it.resumableForMs)}`;
  return it.atRisk ? `${state}, ▲ at risk` : state;
};

export async function loadAll(_, signal) {
  const { sessions, sessionCount, nextPageToken } = await ask("sessions", { pageSize }, signal);
  const rows = sessions.map((it) => [
    it.sessionDigest,
    [
      client({ ...it, clientName: it.clientName || it.sessionDigest, owner: "" }),
      it.identity || "—",
      it.peerAddress || "—",
      placeOf(it),
      { text: streamOf(it), className: it.atRisk ? "bad" : "" },
      { since: it.ageMs },
      it.grantCount,
      it.waitCount,
    ],
  ]);
  showRows("sessions-rows", rows, "No session is open. A client opens one, for instance: lockkeeper run my-lock -- sleep 60");
  put("sessions-count", many(sessionCount, "session"));
  at("sessions-more").hidden = !nextPageToken || pageSize >= 1000;
}

const modeOf = (it) => it.mode ?? (it.kind === "latch" ? "latch" : "permits");
const labelOf = ({ owner }) => (owner === "0" ? "—" : owner);

function showStandings(it) {
  const holds = it.holdings.map((held, index) => [
    String(index),
    [
      named(held),
      modeOf(held),
      labelOf(held),
      held.holdCount,
      { since: held.sinceMs },
      { until: held.validForMs },
      held.fencingToken === "0" ? "—" : held.fencingToken,
      noteOf(held.note) || "—",
    ],
  ]);
  showRows("session-holds", holds, "It holds nothing.");
  const waits = it.waits.map((wait, index) => [
    String(index),
    [named(wait), modeOf(wait), labelOf(wait), { since: wait.sinceMs }],
  ]);
  showRows("session-waits", waits, "It waits for nothing.");
}

const GONE = "No coordinator that was asked has this session.";

export async function load(digest, signal) {
  const [it, lost] = await Promise.all([
    ask("session", { digest }, signal).catch((error) => {
      if (error.status !== 404) throw error;
      return {};
    }),
    ask("history", { sessionDigest: digest, event: "lost", limit: 50 }, signal),
  ]);
  const rows = lost.events.map((it) => [
    `${it.number} ${it.coordinator}`,
    [named(it), whyOf(it), moment(it.at)],
  ]);
  showRows("session-lost", rows, "It lost nothing lately.");
  const isGone = !it.sessionDigest;
  at("session-here").hidden = isGone;
  put("session-gone", isGone ? GONE : "");
  at("session-events").href = `#events/session/${digest}`;
  if (isGone) return;
  put("session-title", clip(it.clientName || digest));
  showFacts(at("session-facts"), [
    ["Session", digest],
    ["Coordinator", placeOf(it)],
    ["Stream", streamOf(it)],
    ["Identity", it.identity || "none"],
    ["From", it.peerAddress ?? "—"],
    ["Age", duration(it.ageMs)],
    ["Lease", duration(it.leaseMs)],
  ]);
  showStandings(it);
  showCommand(at("session-command"), ["lockkeeper", "end-session", "--digest", digest, "--reason", "why"]);
  at("end-open").hidden = false;
}

export function clear(digest) {
  put("session-title", digest);
  clearAll("session-facts", "session-holds", "session-waits", "session-lost");
  at("end-open").hidden = true;
}

export function begin(reload) {
  at("sessions-more").onclick = () => {
    pageSize = 1000;
    reload();
  };
}
