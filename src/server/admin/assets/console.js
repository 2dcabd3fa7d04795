// The frame: routes, loading again, credentials, changes.

import { Refused, ask, at, beginTables, isDenied, many, put, send, tickAll, token, unasked, whyOf, wordsOf } from "./base.js";
import * as events from "./events.js";
import * as graph from "./graph.js";
import * as lock from "./lock.js";
import * as locks from "./locks.js";
import * as overview from "./overview.js";
import * as session from "./session.js";

const PULSE_MS = 1000;
const REFRESH_MS = 5000;
// A page that takes longer to load is not loaded for each event.
const EAGER_MS = 20_000;
const RETRY_MS = 5000;
const DENIED_RETRY_MS = 60_000;

// The element, the entry of the navigation, and how it is filled. `load` may answer when to load again.
const ofKind = (kind) => ({ id: "lock", nav: "locks", load: lock.load(kind), clear: (name) => lock.clear(name, kind) });
const PAGES = {
  overview,
  locks,
  lock: ofKind("lock"),
  semaphore: ofKind("semaphore"),
  latch: ofKind("latch"),
  graph,
  sessions: { load: session.loadAll },
  session: { nav: "sessions", ...session },
  events,
};

const now = { isEager: false, losses: 0, needsToken: false };
let stop = new AbortController();
let status = showStatus;
let planned;

const show = (id) => document.querySelectorAll("main > section").forEach((it) => (it.hidden = it.id !== `view-${id}`));

function fail(error) {
  if (error.status === 401) return askForToken();
  put("problem", wordsOf(error));
  at("problem").hidden = false;
  // Another token may be allowed more.
  if (isDenied(error) && token.get()) at("view-token").hidden = false;
}

function askForToken() {
  if (now.needsToken) return;
  now.needsToken = true;
  show("token");
  showState("credentials are needed", false);
  at("token").focus();
}

function showState(text, isGood) {
  put("state", `${isGood ? "●" : "▲"} ${text}`);
  at("state").className = isGood ? "good" : "";
}

async function showStatus(signal) {
  const it = await ask("status", {}, signal);
  document.body.classList.toggle("read-only", !it.forceReleaseAllowed);
  const store = it.storeAnswers ? "the store answers" : "the store does not answer";
  const draining = it.draining ? " · draining" : "";
  showState(`${store}${draining} · here ${it.sessions} sessions · ${it.waiters} waiting · ${it.version}`, it.storeAnswers && !it.draining);
}

// A caller with the right to a prefix may not see it. It is asked once, as each refusal is audited.
function noStatus(error) {
  if (!isDenied(error)) throw error;
  status = async () => {};
  put("state", "");
}

const missing = () => [...unasked].map(([name, reason]) => `▲ ${name}: ${reason}`).join(" · ");

// One at a time; another page interrupts it.
async function run() {
  clearTimeout(planned);
  stop.abort();
  stop = new AbortController();
  const { signal } = stop;
  let delay = RETRY_MS;
  now.isEager = false;
  try {
    if (!document.hidden && !now.needsToken) {
      await status(signal).catch(noStatus);
      unasked.clear();
      const loaded = await now.page.load(now.argument, signal);
      if (signal.aborted) return;
      put("unasked", missing());
      at("unasked").hidden = unasked.size === 0;
      delay = loaded?.delay ?? REFRESH_MS;
      now.isEager = delay <= EAGER_MS;
      at("problem").hidden = true;
    }
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof Refused)) showState("the coordinator does not answer", false);
    if (isDenied(error)) delay = DENIED_RETRY_MS;
    fail(error);
  }
  clearTimeout(planned);
  planned = setTimeout(run, delay);
}

async function pulse() {
  let delay = PULSE_MS;
  try {
    if (!document.hidden && !now.needsToken) {
      const { events: lost, cursor } = await ask("history", now.cursor ? { since: now.cursor, event: "lost" } : { limit: 1 });
      const isNew = now.cursor && cursor !== now.cursor;
      if (isNew) lost.toReversed().forEach(tellLoss);
      now.cursor = cursor;
      if (isNew && now.isEager) run();
    }
  } catch (error) {
    delay = isDenied(error) ? DENIED_RETRY_MS : RETRY_MS;
  }
  setTimeout(pulse, delay);
}

function tellLoss(event) {
  now.losses += 1;
  at("losses").hidden = false;
  put("losses", `${now.losses} lost`);
  put("announced", `${event.name} was lost: ${whyOf(event)}`);
}

function route() {
  const [view, ...rest] = location.hash.slice(1).split("/");
  if (view === "main") return;
  now.name = Object.hasOwn(PAGES, view) ? view : "overview";
  now.page = PAGES[now.name];
  try {
    now.argument = decodeURIComponent(rest.join("/"));
  } catch {
    now.argument = "";
  }
  show(now.page.id ?? now.name);
  for (const link of document.querySelectorAll("nav a")) link.ariaCurrent = link.hash === `#${now.page.nav ?? now.name}` ? "page" : null;
  now.page.clear?.(now.argument);
  document.title = `${now.argument && now.name !== "events" ? now.argument : now.name} · Lockkeeper`;
  at("problem").hidden = true;
  if (now.needsToken) {
    now.needsToken = false;
    askForToken();
  }
  run();
}

const UNSAFE = "Only what checks fencing tokens is safe.";

// What it does, and what is typed to confirm it.
const CHANGES = {
  "request-yield": ["Its holders are asked to release it within 30 seconds. They may keep it."],
  "force-release": [`Its holders may be at work. After 15 seconds at most, others get the lock. ${UNSAFE}`, "name"],
  "end-session": [`Its waits end and its grants are released at once. Its client may be at work. ${UNSAFE}`, "digest"],
};

function openDialog({ target }) {
  const path = target.dataset.change;
  const title = target.textContent.slice(0, -1);
  const [about, field] = CHANGES[path];
  const [subject, form, button] = [now.argument, at("change-form"), at("change-do")];
  const { reason, confirm } = form.elements;
  form.reset();
  put("change-title", title);
  put("change-about", about);
  put("change-confirm", `Type the ${field}: ${subject}`);
  at("change-confirm").hidden = confirm.hidden = confirm.disabled = !field;
  put("change-problem", "");
  put("change-do", title);
  form.oninput = () => (button.disabled = (field && confirm.value !== subject) || reason.value.trim() === "");
  form.onsubmit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      unasked.clear();
      const { reachedCount, holderCount } = await send(path, { [field ?? "name"]: subject, reason: reason.value, confirm: confirm.value, gracePeriodSeconds: 15 });
      const what = field ? "done" : `${reachedCount} of ${many(holderCount, "holder")} reached`;
      const done = `${title}: ${what}${unasked.size > 0 ? `, but not at ${missing()}` : ""}`;
      put("announced", done);
      put("change-problem", done);
      if (field && unasked.size === 0) at("change").close();
      run();
    } catch (error) {
      put("change-problem", wordsOf(error));
      form.oninput();
    }
  };
  form.oninput();
  at("change").showModal();
}

function begin() {
  beginTables();
  for (const form of document.forms) Object.assign(form, { autocomplete: "off", spellcheck: false, onsubmit: (event) => event.preventDefault() });
  overview.begin(run);
  locks.begin(run);
  session.begin(run);
  events.begin(run, fail);
  for (const button of document.querySelectorAll("[data-change]")) button.onclick = openDialog;
  at("change-cancel").onclick = () => at("change").close();
  at("token-form").onsubmit = (event) => {
    event.preventDefault();
    token.set(at("token").value.trim());
    location.reload();
  };
  addEventListener("hashchange", () => {
    route();
    if (!["overview", "locks"].includes(now.name)) at("main").focus();
  });
  document.addEventListener("visibilitychange", () => document.hidden || run());
  setInterval(tickAll, 250);
  route();
  pulse();
}

begin();
