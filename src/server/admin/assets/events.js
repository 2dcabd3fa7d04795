// What happened, now and at a moment of the past?

import { ask, at, clip, hrefOf, hrefOfSession, make, many, noteOf, setText, whoOf } from "./base.js";

const SHOWN = 200;
const KEPT = 10_000;
// What followed a moment is shown with it.
const AFTERMATH_MS = 30_000;

const WORDS = {
  granted: "granted",
  released: "released",
  lost: "lost",
  waitBegan: "waits",
  waitEnded: "waits no more",
  abandoned: "abandoned",
};

const page = { isPaused: false, moment: null, session: "", name: "", shown: "" };

const field = (name) => at("events-form").elements[name];

function filter() {
  const until = page.moment === null ? null : page.moment + AFTERMATH_MS;
  const of = Object.fromEntries(["client", "event", "kind"].map((name) => [name, field(name).value]));
  return { ...of, contains: field("part").value, name: page.name, sessionDigest: page.session, until };
}

function timeOf(ms) {
  const date = new Date(ms);
  return `${date.toTimeString().slice(0, 8)}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

function itemOf(event, isMarked) {
  const why = event.reason ? `${event.reason}${event.detail ? `: ${event.detail}` : ""}` : "";
  const time = make("a", { href: `#events/${event.at}`, title: new Date(event.at).toLocaleString() }, timeOf(event.at));
  const name = make("a", { href: hrefOf(event.name, event.kind), title: event.name }, clip(event.name));
  const session = hrefOfSession(event.sessionDigest);
  const who = session ? make("a", { href: session }, clip(whoOf(event))) : make("span", {}, clip(whoOf(event)));
  const rest = [event.mode, why, noteOf(event.note)].filter(Boolean).join(" · ");
  const className = `${event.event === "lost" ? "lost" : ""}${isMarked ? " marked" : ""}`;
  const item = make("li", { className }, time, make("span", { className: "what" }, WORDS[event.event]), name, who, make("span", {}, rest));
  item.dataset.number = event.number;
  return item;
}

export async function load(_, signal) {
  if (page.isPaused) return { delay: 5000, isEager: false };
  const { events, lastNumber, more } = await ask("history", { ...filter(), limit: SHOWN }, signal);
  const marked = page.moment === null ? null : events.find((event) => event.at <= page.moment)?.number;
  const shown = JSON.stringify([events[0]?.number, events.length, marked, filter()]);
  if (shown !== page.shown) {
    page.shown = shown;
    const kept = new Map([...at("events-rows").children].map((item) => [item.dataset.number, item]));
    const isSame = (event) => page.moment === null && !kept.get(String(event.number))?.classList.contains("marked");
    const items = events.map((event) => (isSame(event) && kept.get(String(event.number))) || itemOf(event, event.number === marked));
    at("events-rows").replaceChildren(...items);
    at("events-rows").querySelector(".marked")?.scrollIntoView({ block: "center" });
  }
  const about = [page.name && `of ${clip(page.name)}`, page.session && `of session ${page.session}`].filter(Boolean).join(" ");
  const none = lastNumber === 0 ? "Nothing has happened yet." : "No kept event matches.";
  const count = more ? `the last ${SHOWN}` : many(events.length, "event");
  setText(at("events-count"), `${events.length > 0 ? count : none} ${about}`);
  at("events-all").hidden = !about;
  return { delay: 5000, isEager: page.moment === null };
}

function setPaused(isPaused) {
  page.isPaused = isPaused;
  at("events-pause").setAttribute("aria-pressed", String(isPaused));
  setText(at("events-pause"), isPaused ? "Go on" : "Pause");
}

// `#events/MS`, `#events/name/NAME`, `#events/session/DIGEST`.
export function clear(argument) {
  const [what, ...rest] = argument.split("/");
  page.moment = /^\d+$/.test(what) ? Number(what) : null;
  page.name = what === "name" ? rest.join("/") : "";
  page.session = what === "session" ? rest[0] : "";
  page.shown = "";
  at("events-now").hidden = page.moment === null;
  const local = page.moment === null ? null : new Date(page.moment - new Date(page.moment).getTimezoneOffset() * 60_000);
  field("moment").value = local ? local.toISOString().slice(0, 19) : "";
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
  at("events-form").addEventListener("submit", (event) => event.preventDefault());
  at("events-form").addEventListener("input", (event) => {
    if (event.target.name === "moment") {
      const moment = new Date(event.target.value).getTime();
      if (Number.isFinite(moment)) location.hash = `#events/${moment}`;
    } else reload();
  });
  at("events-pause").addEventListener("click", () => {
    setPaused(!page.isPaused);
    reload();
  });
  at("events-save").addEventListener("click", () => save().catch(fail));
}
