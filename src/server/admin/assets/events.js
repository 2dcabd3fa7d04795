// What happened, now and at a moment of the past?

import { ask, at, client, clip, fieldsOf, make, many, moment, named, noteOf, placeOf, put, showRows, whyOf } from "./base.js";

const SHOWN = 200;
const KEPT = 10_000;
// What followed a moment is shown with it.
const AFTERMATH_MS = 30_000;

const WORDS = { waitBegan: "waits", waitEnded: "waits no more" };

const page = { isPaused: false, moment: null, session: "", name: "", isNew: false };

function filter() {
  const until = page.moment === null ? null : page.moment + AFTERMATH_MS;
  const { part: contains, client, event, kind } = fieldsOf("events-form");
  return { contains, client, event, kind, name: page.name, sessionDigest: page.session, until };
}

function timeOf(ms) {
  const date = new Date(ms);
  return `${date.toTimeString().slice(0, 8)}.${date.toISOString().slice(20, 23)}`;
}

function rowOf(event, isMarked) {
  const cells = [
    moment(event.at, timeOf(event.at)),
    WORDS[event.event] ?? event.event,
    named(event),
    client(event),
    placeOf(event),
    [event.mode, whyOf(event), noteOf(event.note)].filter(Boolean).join(" · "),
  ];
  return [`${event.number} ${event.coordinator}`, cells, `${event.event} ${isMarked ? "marked" : ""}`];
}

export async function load(_, signal) {
  if (page.isPaused) return;
  const { events, more } = await ask("history", { ...filter(), limit: SHOWN }, signal);
  const marked = page.moment === null ? null : events.find((event) => event.at <= page.moment);
  showRows("events-rows", events.map((event) => rowOf(event, event === marked)), "No kept event matches.");
  if (page.isNew) at("events-rows").querySelector(".marked")?.scrollIntoView({ block: "center" });
  page.isNew = false;
  const about = [page.name && `of ${clip(page.name)}`, page.session && `of session ${page.session}`].filter(Boolean).join(" ");
  put("events-count", `${more ? `the last ${SHOWN}` : many(events.length, "event")} ${about}`);
}

function setPaused(isPaused) {
  page.isPaused = isPaused;
  at("events-pause").ariaPressed = isPaused;
  put("events-pause", isPaused ? "Go on" : "Pause");
}

// `#events/MS`, `#events/name/NAME`, `#events/session/DIGEST`.
export function clear(argument) {
  const [what, ...rest] = argument.split("/");
  page.moment = /^\d+$/.test(what) ? Number(what) : null;
  page.name = what === "name" ? rest.join("/") : "";
  page.session = what === "session" ? rest[0] : "";
  page.isNew = true;
  at("events-all").hidden = !argument;
  // Swedish times are as ISO 8601 wants them.
  const local = page.moment === null ? "" : new Date(page.moment).toLocaleString("sv").replace(" ", "T");
  at("events-form").elements.moment.value = local;
  setPaused(false);
}

async function save() {
  const { events } = await ask("history", { ...filter(), limit: KEPT });
  const lines = events.toReversed().map((event) => `${JSON.stringify(event)}\n`);
  const href = URL.createObjectURL(new Blob(lines, { type: "application/x-ndjson" }));
  make("a", { href, download: "lockkeeper-events.jsonl" }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}

export function begin(reload, fail) {
  at("events-form").addEventListener("input", (event) => {
    if (event.target.name === "moment") {
      const moment = new Date(event.target.value).getTime();
      if (Number.isFinite(moment)) location.hash = `#events/${moment}`;
    } else reload();
  });
  at("events-pause").onclick = () => {
    setPaused(!page.isPaused);
    reload();
  };
  at("events-save").onclick = () => save().catch(fail);
}
