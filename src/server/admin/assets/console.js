// The frame of the pages: which one is shown, when it is loaded again, credentials, and what changes something.

import { Refused, ask, at, beginTables, isDenied, make, send, setText, tickAll, token, wordsOf } from "./base.js";
import * as events from "./events.js";
import * as graph from "./graph.js";
import * as lock from "./lock.js";
import * as locks from "./locks.js";
import * as overview from "./overview.js";
import * as session from "./session.js";

const PULSE_MS = 1000;
const RETRY_MS = 5000;
const DENIED_RETRY_MS = 60_000;

// The element, the entry of the navigation, and how it is filled. `load` answers when to load again, and whether an
// event is a reason to do so at once.
const ofKind = (kind) => ({ id: "lock", nav: "locks", load: lock.load(kind), clear: (name) => lock.clear(name, kind) });
const PAGES = {
  overview: { load: overview.load },
  locks: { load: locks.load },
  lock: ofKind("lock"),
  semaphore: ofKind("semaphore"),
  latch: ofKind("latch"),
  graph: { load: graph.load },
  sessions: { load: session.loadAll },
  session: { nav: "sessions", load: session.load, clear: session.clear },
  events: { load: events.load, clear: events.clear },
};

const now = { page: null, name: "", argument: "", mayChange: false, isEager: false, losses: 0, last: null, needsToken: false };
let stop = new AbortController();
let planned;

const sections = () => document.querySelectorAll("main > section");

function fail(error) {
  if (error === null) {
    at("problem").hidden = true;
    return;
  }
  if (error.name === "AbortError") return;
  if (error instanceof Refused && error.status === 401) {
    askForToken();
    return;
  }
  setText(at("problem"), wordsOf(error));
  at("problem").hidden = false;
  // Another token may be allowed more.
  if (isDenied(error) && token.get()) at("view-token").hidden = false;
}

function askForToken() {
  if (now.needsToken) return;
  now.needsToken = true;
  for (const section of sections()) section.hidden = section.id !== "view-token";
  showState("credentials are needed", false);
  at("token").focus();
}

function showState(text, isGood) {
  setText(at("state"), `${isGood ? "●" : "▲"} ${text}`);
  at("state").className = isGood ? "good" : "";
}

async function showStatus(signal) {
  const it = await ask("status", {}, signal);
  now.mayChange = it.forceReleaseAllowed;
  document.body.classList.toggle("read-only", !it.forceReleaseAllowed);
  const store = it.storeAnswers ? "the store answers" : "the store does not answer";
  const draining = it.draining ? " · draining" : "";
  showState(`${store}${draining} · ${it.sessions} sessions · ${it.waiters} waiting · ${it.version}`, it.storeAnswers && !it.draining);
}

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
      await showStatus(signal);
      const loaded = await now.page.load(now.argument, signal);
      if (signal.aborted) return;
      ({ delay } = loaded);
      now.isEager = loaded.isEager;
      fail(null);
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

// Follows the number of the last event, and the losses.
async function pulse() {
  let delay = PULSE_MS;
  try {
    if (!document.hidden && !now.needsToken) {
      const wanted = now.last === null ? { limit: 1 } : { after: now.last, event: "lost", limit: 20 };
      const { events: lost, lastNumber } = await ask("history", wanted);
      const isNew = now.last !== null && lastNumber !== now.last;
      if (isNew) lost.toReversed().forEach(tellLoss);
      now.last = lastNumber;
      if (isNew && now.isEager) run();
    }
  } catch (error) {
    delay = isDenied(error) ? DENIED_RETRY_MS : RETRY_MS;
  }
  setTimeout(pulse, delay);
}

function tellLoss({ name, reason, detail }) {
  now.losses += 1;
  at("losses").hidden = false;
  setText(at("losses"), String(now.losses));
  at("losses").setAttribute("aria-label", `${now.losses} losses`);
  setText(at("announced"), `${name} was lost: ${[reason, detail].filter(Boolean).join(": ")}`);
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
  for (const section of sections()) section.hidden = section.id !== `view-${now.page.id ?? now.name}`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${now.page.nav ?? now.name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  now.page.clear?.(now.argument);
  document.title = `${now.argument && now.name !== "events" ? now.argument : now.name} · Lockkeeper`;
  fail(null);
  if (now.needsToken) {
    now.needsToken = false;
    askForToken();
  }
  run();
}

// What is asked before something is taken away.
const CHANGES = {
  force: {
    title: "Force release",
    about: "Its holders may be at work. After 15 seconds at most, others get the lock. Only what checks fencing tokens is safe.",
    confirm: "Type the name of the lock:",
    path: "force-release",
    body: (name, reason, confirm) => ({ name, reason, confirm, gracePeriodSeconds: 15 }),
    done: (name, answer) => (answer.released ? `${name} was released` : `nobody holds ${name}`),
  },
  end: {
    title: "End session",
    about: "Its waits end and its grants are released at once. Its client may be at work. Only what checks fencing tokens is safe.",
    confirm: "Type the digest of the session:",
    path: "end-session",
    body: (digest, reason, confirm) => ({ digest, reason, confirm }),
    done: (digest) => `session ${digest} was ended`,
  },
};

function openDialog(kind) {
  const change = CHANGES[kind];
  const subject = now.argument;
  const form = at("change-form");
  const { reason, confirm } = form.elements;
  form.reset();
  setText(at("change-title"), change.title);
  setText(at("change-about"), change.about);
  at("change-confirm").replaceChildren(`${change.confirm} `, make("strong", {}, subject));
  setText(at("change-problem"), "");
  setText(at("change-do"), change.title);
  const check = () => (at("change-do").disabled = confirm.value !== subject || reason.value.trim() === "");
  form.oninput = check;
  form.onsubmit = async (event) => {
    event.preventDefault();
    at("change-do").disabled = true;
    try {
      const answer = await send(change.path, change.body(subject, reason.value, confirm.value));
      setText(at("announced"), change.done(subject, answer));
      at("change").close();
      run();
    } catch (error) {
      setText(at("change-problem"), wordsOf(error));
      check();
    }
  };
  check();
  at("change").showModal();
}

function begin() {
  beginTables();
  overview.begin(run);
  locks.begin(run);
  session.begin(fail);
  events.begin(run, fail);
  at("force-open").onclick = () => openDialog("force");
  at("end-open").onclick = () => openDialog("end");
  at("change-cancel").onclick = () => at("change").close();
  at("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    token.set(at("token").value.trim());
    location.reload();
  });
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
