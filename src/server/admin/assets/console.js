"use strict";

// Everything that comes from the coordinator is text: it gets onto the page by textContent only.

const REFRESH_MS = 5000;
const AFTER_EVENT_MS = 700;
const RETRY_MS = 2000;
const DENIED_RETRY_MS = 60000;
const EVENTS_SHOWN = 200;
const SOON_MS = 3000;
const TOKEN = "lockkeeper.token";

const at = (id) => document.getElementById(id);

const page = {
  view: "",
  name: "",
  prefix: "",
  locks: [],
  nextLocks: null,
  nextSessions: null,
  losses: 0,
  forceReleaseAllowed: false,
  // Grows with every change of view, so that an answer that comes late is not shown on another one.
  turn: 0,
};

class Refused extends Error {
  constructor(status, reason, message) {
    super(message);
    this.status = status;
    this.reason = reason;
  }
}

function headers(more) {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { ...more, Authorization: `Bearer ${token}` } : { ...more };
}

async function ask(path, parameters = {}, options = {}) {
  const query = new URLSearchParams(parameters).toString();
  const response = await fetch(query ? `${path}?${query}` : path, {
    cache: "no-store",
    redirect: "error",
    ...options,
    headers: headers(options.headers),
  });
  if (response.ok) {
    return response;
  }
  const error = (await response.json().catch(() => ({}))).error ?? {};
  throw new Refused(response.status, error.reason ?? String(response.status), error.message ?? "");
}

const askJson = async (path, parameters) => (await ask(path, parameters)).json();

function make(kind, text = "", className = "") {
  const element = document.createElement(kind);
  element.textContent = text;
  if (className) {
    element.className = className;
  }
  return element;
}

function setText(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

function duration(ms) {
  if (ms === null || ms === undefined) {
    return "no end";
  }
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) {
    return `${(Math.max(ms, 0) / 1000).toFixed(1)} s`;
  }
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) {
    return `${minutes} min ${seconds % 60} s`;
  }
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

// Rows are kept by key, so that the focus stays where it is when they are shown anew.
function showRows(body, rows, nothing) {
  const known = new Map([...body.children].map((row) => [row.dataset.key, row]));
  const wanted = rows.length > 0 ? rows : [{ key: "\n", cells: [{ text: nothing }], className: "few" }];
  const shown = wanted.map(({ key, cells, className = "" }) => {
    const row = known.get(key) ?? make("tr");
    row.dataset.key = key;
    row.className = className;
    while (row.children.length > cells.length) {
      row.lastChild.remove();
    }
    cells.forEach((cell, index) => showCell(row, index, cell, rows.length === 0));
    return row;
  });
  const isSame = shown.length === body.children.length && shown.every((row, index) => body.children[index] === row);
  if (!isSame) {
    const focused = document.activeElement;
    body.replaceChildren(...shown);
    if (focused && body.contains(focused)) {
      focused.focus();
    }
  }
}

function showCell(row, index, { text = "", label = "", href = "", until, className = "" }, spans) {
  const cell = row.children[index] ?? row.appendChild(make("td"));
  cell.className = className;
  if (label) {
    cell.dataset.label = label;
  } else {
    delete cell.dataset.label;
  }
  if (spans) {
    cell.colSpan = 9;
  }
  if (href) {
    const link = cell.firstElementChild ?? cell.appendChild(make("a"));
    link.href = href;
    setText(link, text);
  } else if (until !== undefined) {
    cell.dataset.until = String(until);
    countDown(cell);
  } else {
    delete cell.dataset.until;
    setText(cell, text);
  }
}

function countDown(cell) {
  const left = Number(cell.dataset.until) - performance.now();
  setText(cell, left > 0 ? duration(left) : "over");
  cell.classList.toggle("soon", left < SOON_MS);
}

function lease(ms, label = "Lease left") {
  return ms === null || ms === undefined
    ? { text: "—", label, className: "number" }
    : { until: performance.now() + ms, label, className: "number" };
}

const hrefOf = (name) => `#lock/${encodeURIComponent(name)}`;

function stateOf(lock) {
  if (lock.kind === "semaphore") {
    return `semaphore, ${lock.availablePermits} of ${lock.totalPermits} free`;
  }
  if (lock.kind === "latch") {
    return `latch, count ${lock.count}`;
  }
  return lock.mode ?? "free";
}

function holdersOf(lock) {
  const names = (lock.holders ?? []).slice(0, 3).map((it) => it.clientName || it.owner || "a Redisson client");
  const more = (lock.holderCount ?? 0) - names.length;
  return names.join(", ") + (more > 0 ? ` and ${more} more` : "") || "—";
}

function showLocks() {
  const rows = page.locks.map((lock) => ({
    key: lock.name,
    cells: [
      { text: lock.name, href: lock.mode === undefined ? "" : hrefOf(lock.name), className: "name" },
      { text: stateOf(lock), label: "Held" },
      { text: holdersOf(lock), label: "By" },
      lease(lock.remainingLeaseMs),
      { text: String(lock.waiterCount), label: "Waiting", className: "number" },
    ],
  }));
  showRows(at("locks-rows"), rows, "Nothing is held or waited for.");
  const more = page.nextLocks ? "the first " : "";
  setText(at("locks-count"), `${more}${rows.length} ${rows.length === 1 ? "name" : "names"}`);
  at("locks-more").hidden = !page.nextLocks;
}

function showContention() {
  const waited = page.locks.filter((lock) => lock.waiterCount > 0);
  waited.sort((a, b) => b.waiterCount - a.waiterCount || (a.name < b.name ? -1 : 1));
  const rows = waited.slice(0, 20).map((lock) => ({
    key: lock.name,
    cells: [
      { text: lock.name, href: lock.mode === undefined ? "" : hrefOf(lock.name), className: "name" },
      { text: String(lock.waiterCount), label: "Waiting", className: "number" },
      { text: holdersOf(lock), label: "By" },
      lease(lock.remainingLeaseMs),
    ],
  }));
  showRows(at("contention-rows"), rows, "Nobody waits.");
}

function showLock(lock) {
  setText(at("lock-title"), lock.name);
  const facts = [
    ["Held", lock.mode ?? "by nobody"],
    ["Holders", String(lock.holderCount)],
    ["Waiting", String(lock.waiterCount)],
    ["Fencing token", lock.lastFencingToken === "0" ? "none is known" : lock.lastFencingToken],
  ];
  at("lock-facts").replaceChildren(...facts.flatMap(([term, text]) => [make("dt", term), make("dd", text)]));
  const holders = lock.holders.map((holder) => ({
    key: [holder.sessionDigest, holder.owner, holder.mode].join("\n"),
    cells: [
      { text: holder.owner, className: "name" },
      { text: holder.clientName || holder.sessionDigest || "—", label: "Client" },
      { text: holder.mode, label: "Mode" },
      { text: String(holder.holdCount), label: "Holds", className: "number" },
      lease(holder.remainingLeaseMs),
    ],
  }));
  showRows(at("lock-holders"), holders, "Nobody holds it.");
  const waiters = lock.waiters.map((waiter, index) => ({
    key: [index, waiter.sessionDigest, waiter.owner, waiter.mode].join("\n"),
    cells: [
      { text: String(index + 1), label: "Place", className: "number" },
      { text: waiter.owner, label: "Owner" },
      { text: waiter.clientName || waiter.sessionDigest || "—", label: "Client" },
      { text: waiter.mode, label: "Mode" },
      { text: waiter.waitingForMs === null ? "?" : duration(waiter.waitingForMs), label: "Waiting for", className: "number" },
    ],
  }));
  showRows(at("lock-waiters"), waiters, "Nobody waits.");
  at("force-open").hidden = !page.forceReleaseAllowed || lock.holderCount === 0;
}

function showSessions(sessions, count) {
  const rows = sessions.map((session) => ({
    key: session.sessionDigest,
    cells: [
      { text: session.clientName || "(no name)", className: "name" },
      { text: session.sessionDigest, label: "Session" },
      { text: session.identity || "—", label: "Identity" },
      { text: session.peerAddress || "—", label: "From" },
      {
        text: session.phase === "live" ? "live" : `gone, can come back for ${duration(session.resumableForMs)}`,
        label: "Stream",
      },
      { text: duration(session.ageMs), label: "Age", className: "number" },
      { text: String(session.grantCount), label: "Grants", className: "number" },
      { text: String(session.waitCount), label: "Waits", className: "number" },
    ],
  }));
  showRows(at("sessions-rows"), rows, "No session is open.");
  setText(at("sessions-count"), `${count} in all`);
  at("sessions-more").hidden = !page.nextSessions;
}

const WORDS = {
  granted: "granted",
  released: "released",
  lost: "lost",
  waitBegan: "waits",
  waitEnded: "waits no more",
  abandoned: "abandoned",
};

function showEvent(event) {
  const isLost = event.event === "lost";
  const item = make("li", "", isLost ? "lost" : "");
  const name = make("a", event.name);
  name.href = hrefOf(event.name);
  const who = event.clientName || event.owner;
  const why = isLost ? `${event.reason}${event.detail ? `: ${event.detail}` : ""}` : "";
  const time = make("time", new Date().toLocaleTimeString());
  item.append(time, make("span", WORDS[event.event] ?? event.event, "what"), name, make("span", [event.mode, who, why].filter(Boolean).join(" · ")));
  const list = at("events-rows");
  list.prepend(item);
  while (list.children.length > EVENTS_SHOWN) {
    list.lastChild.remove();
  }
  if (isLost) {
    page.losses += 1;
    at("losses").hidden = false;
    setText(at("losses"), String(page.losses));
    at("losses").setAttribute("aria-label", `${page.losses} losses`);
    setText(at("announced"), `${event.name} was lost: ${why}`);
  }
}

const isDenied = (error) => error instanceof Refused && error.status === 403;

function showProblem(error) {
  if (error === null) {
    at("problem").hidden = true;
    return;
  }
  if (error instanceof Refused && error.status === 401) {
    askForToken();
    return;
  }
  const text = error instanceof Refused ? `${error.reason}: ${error.message}` : "The coordinator does not answer.";
  setText(at("problem"), text);
  // Another token may be allowed more.
  if (isDenied(error) && sessionStorage.getItem(TOKEN)) {
    at("view-token").hidden = false;
  }
  at("problem").hidden = false;
}

function askForToken() {
  for (const section of document.querySelectorAll("main > section")) {
    section.hidden = section.id !== "view-token";
  }
  if (page.view !== "token") {
    page.view = "token";
    setText(at("state"), "credentials are needed");
    at("state").className = "";
    at("token").focus();
  }
}

async function refresh() {
  const turn = page.turn;
  const isLate = () => turn !== page.turn;
  try {
    const status = await askJson("/api/v1/status");
    page.forceReleaseAllowed = status.forceReleaseAllowed;
    const store = status.storeAnswers ? "the store answers" : "the store does not answer";
    const draining = status.draining ? " · draining" : "";
    setText(at("state"), `${store}${draining} · ${status.sessions} sessions · ${status.waiters} waiting · ${status.version}`);
    at("state").className = status.storeAnswers && !status.draining ? "good" : "";
    if (page.view === "locks" || page.view === "contention") {
      const seen = Math.min(Math.max(page.locks.length, 100), 1000);
      const list = await askJson("/api/v1/locks", { prefix: page.prefix, pageSize: seen });
      if (isLate()) return 0;
      page.locks = list.locks.sort((a, b) => (a.name < b.name ? -1 : 1));
      page.nextLocks = list.nextPageToken;
      page.view === "locks" ? showLocks() : showContention();
    } else if (page.view === "lock") {
      const lock = await askJson("/api/v1/lock", { name: page.name });
      if (isLate()) return 0;
      showLock(lock);
    } else if (page.view === "sessions") {
      const list = await askJson("/api/v1/sessions", { pageSize: 100 });
      if (isLate()) return 0;
      page.nextSessions = list.nextPageToken;
      page.sessions = list.sessions;
      showSessions(page.sessions, list.sessionCount);
    }
    showProblem(null);
  } catch (error) {
    if (!(error instanceof Refused)) {
      setText(at("state"), "the coordinator does not answer");
      at("state").className = "";
    }
    if (!isLate()) showProblem(error);
    return isDenied(error) ? DENIED_RETRY_MS : REFRESH_MS;
  }
  return REFRESH_MS;
}

let planned = null;
let running = false;

// One at a time, soon after something happened, and now and then in any case.
function plan(delay) {
  const due = performance.now() + delay;
  if (planned && planned.due <= due) {
    return;
  }
  if (planned) {
    clearTimeout(planned.timer);
  }
  planned = { due, timer: setTimeout(run, delay) };
}

async function run() {
  planned = null;
  if (running || document.hidden || page.view === "token") {
    plan(running ? AFTER_EVENT_MS : REFRESH_MS);
    return;
  }
  running = true;
  const delay = await refresh();
  running = false;
  plan(delay);
}

// EventSource cannot send a token, so the stream is read by hand.
async function listen() {
  for (;;) {
    const token = sessionStorage.getItem(TOKEN);
    let again = RETRY_MS;
    if (page.view !== "token") {
      try {
        await follow(await ask("/api/v1/events"));
      } catch (error) {
        if (error instanceof Refused && error.status === 401) {
          askForToken();
        }
        // Each refusal is a line of the audit log.
        again = isDenied(error) ? DENIED_RETRY_MS : RETRY_MS;
      }
    }
    const until = performance.now() + again;
    while (performance.now() < until && token === sessionStorage.getItem(TOKEN)) {
      await new Promise((resume) => setTimeout(resume, RETRY_MS));
    }
  }
}

async function follow(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) {
      return;
    }
    text += value;
    const messages = text.split("\n\n");
    text = messages.pop();
    for (const message of messages) {
      hear(message);
    }
  }
}

function hear(message) {
  const lines = message.split("\n");
  const named = (field) => lines.filter((line) => line.startsWith(`${field}: `)).map((line) => line.slice(field.length + 2));
  const data = named("data").join("\n");
  if (!data) {
    return;
  }
  if (named("event")[0] === "delta") {
    showEvent(JSON.parse(data));
  }
  plan(AFTER_EVENT_MS);
}

const VIEWS = ["locks", "contention", "sessions", "events", "lock"];

function route() {
  const [view, ...rest] = location.hash.slice(1).split("/");
  if (view === "main") {
    return;
  }
  page.view = VIEWS.includes(view) ? view : "locks";
  page.turn += 1;
  try {
    page.name = decodeURIComponent(rest.join("/"));
  } catch {
    page.name = "";
  }
  for (const section of document.querySelectorAll("main > section")) {
    section.hidden = section.id !== `view-${page.view}`;
  }
  for (const link of document.querySelectorAll("nav a")) {
    const isCurrent = link.hash === `#${page.view}` || (page.view === "lock" && link.hash === "#locks");
    isCurrent ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  }
  if (page.view === "lock") {
    setText(at("lock-title"), page.name);
    at("lock-facts").replaceChildren();
    at("lock-holders").replaceChildren();
    at("lock-waiters").replaceChildren();
    at("force-open").hidden = true;
  }
  const title = page.view === "lock" ? page.name : page.view;
  document.title = `${title} · Lockkeeper`;
  showProblem(null);
  plan(0);
}

async function more(path, parameters, take) {
  const turn = page.turn;
  try {
    const list = await askJson(path, parameters);
    if (turn === page.turn) take(list);
  } catch (error) {
    showProblem(error);
  }
}

function begin() {
  at("search").addEventListener("submit", (event) => {
    event.preventDefault();
    page.prefix = at("prefix").value;
    page.locks = [];
    page.turn += 1;
    plan(0);
  });
  at("locks-more").addEventListener("click", () =>
    more("/api/v1/locks", { prefix: page.prefix, pageToken: page.nextLocks }, (list) => {
      const known = new Set(page.locks.map((lock) => lock.name));
      page.locks.push(...list.locks.filter((lock) => !known.has(lock.name)));
      page.nextLocks = list.nextPageToken;
      showLocks();
    }),
  );
  at("sessions-more").addEventListener("click", () =>
    more("/api/v1/sessions", { pageToken: page.nextSessions }, (list) => {
      page.sessions.push(...list.sessions);
      page.nextSessions = list.nextPageToken;
      showSessions(page.sessions, list.sessionCount);
    }),
  );
  at("only-losses").addEventListener("change", (event) => {
    at("events-rows").classList.toggle("losses-only", event.target.checked);
  });
  at("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(TOKEN, at("token").value.trim());
    at("token").value = "";
    route();
  });
  beginForce();
  setInterval(() => document.querySelectorAll("[data-until]").forEach(countDown), 200);
  addEventListener("hashchange", () => {
    route();
    if (page.view === "lock") at("main").focus();
  });
  document.addEventListener("visibilitychange", () => plan(0));
  route();
  listen();
}

function beginForce() {
  const dialog = at("force");
  at("force-open").addEventListener("click", () => {
    at("force-form").reset();
    at("force-do").disabled = true;
    setText(at("force-name"), page.name);
    setText(at("force-problem"), "");
    dialog.showModal();
  });
  at("force-cancel").addEventListener("click", () => dialog.close());
  at("force-form").addEventListener("input", () => {
    at("force-do").disabled = at("force-confirm").value !== page.name || at("force-reason").value.trim() === "";
  });
  at("force-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    at("force-do").disabled = true;
    const [reason, confirm] = [at("force-reason").value, at("force-confirm").value];
    const body = JSON.stringify({ name: page.name, reason, confirm, gracePeriodSeconds: 15 });
    try {
      const options = { method: "POST", body, headers: { "Content-Type": "application/json" } };
      const answer = await (await ask("/api/v1/force-release", {}, options)).json();
      setText(at("announced"), answer.released ? `${page.name} was taken away` : `nobody holds ${page.name}`);
      dialog.close();
      plan(0);
    } catch (error) {
      setText(at("force-problem"), error instanceof Refused ? `${error.reason}: ${error.message}` : "The coordinator does not answer.");
      at("force-do").disabled = false;
    }
  });
}

begin();
