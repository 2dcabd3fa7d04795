// What the pages share. Everything that comes from the coordinator is text: it gets onto the page by textContent only.

const TOKEN = "lockkeeper.token";
const SOON_MS = 3000;
const CLIPPED = 56;

export const at = (id) => document.getElementById(id);

export const fieldsOf = (id) => Object.fromEntries(new FormData(at(id)));

export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (value) => sessionStorage.setItem(TOKEN, value),
};

// Coordinators that did not answer, and why.
export const unasked = new Map();

// An answer other than 2xx.
export class Refused extends Error {}

export const isDenied = (error) => error.status === 403;

export function wordsOf(error) {
  if (error instanceof Refused) return `${error.reason}: ${error.message}`;
  return "The coordinator does not answer. Check that it runs; this page tries again.";
}

async function request(path, options = {}) {
  const headers = { ...options.headers, ...(token.get() && { Authorization: `Bearer ${token.get()}` }) };
  const response = await fetch(path, { cache: "no-store", redirect: "error", ...options, headers });
  if (response.ok) {
    const answer = await response.json();
    for (const it of answer.unasked ?? []) unasked.set(it.coordinator, it.reason);
    return answer;
  }
  const error = (await response.json().catch(() => ({}))).error ?? {};
  throw Object.assign(new Refused(error.message), { status: response.status, reason: error.reason ?? response.status });
}

export function ask(path, parameters = {}, signal = undefined) {
  const given = Object.entries(parameters).filter(([, value]) => (value ?? "") !== "");
  const query = new URLSearchParams(given).toString();
  return request(`/api/v1/${path}${query ? `?${query}` : ""}`, { signal });
}

export const send = (path, body) =>
  request(`/api/v1/${path}`, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });

// An element with properties, or attributes if it is SVG, and children.
export function make(kind, properties = {}, ...children) {
  const element = Object.assign(document.createElement(kind), properties);
  element.append(...children);
  return element;
}

export function svg(kind, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export function setText(element, text) {
  if (element.textContent !== String(text)) element.textContent = text;
}

export const put = (id, text) => setText(at(id), text);

export const many = (count, one, several = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : several}`;

export function duration(ms) {
  if (ms === null || ms === undefined) return "—";
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${(Math.max(ms, 0) / 1000).toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

// A long text with both of its ends; the whole one is shown on hover.
export function clip(text, most = CLIPPED) {
  if (text.length <= most) return text;
  const tail = Math.floor(most / 3);
  return `${text.slice(0, most - tail - 1)}…${text.slice(-tail)}`;
}

export const kindOf = ({ kind }) => (kind === "readWriteLock" ? "read/write lock" : kind);

export const hrefOf = (name, kind) => `#${["semaphore", "latch"].includes(kind) ? kind : "lock"}/${encodeURIComponent(name)}`;

export const hrefOfSession = (digest) => (digest ? `#session/${digest}` : "");

// A holder or a waiter: its client, and its owner unless that is the default.
export function whoOf({ clientName, owner, sessionDigest }) {
  const label = owner === "0" && sessionDigest ? "" : owner;
  if (clientName) return label ? `${clientName} · ${label}` : clientName;
  if (!sessionDigest) return label || "Redisson clients";
  return `${sessionDigest}:${owner}`;
}

// Redisson names a holder by its client's UUID and a thread; threads count from 1, our default owner is 0.
export const isRedisson = (it) => it.sessionDigest && !it.clientName && it.heldForMs === null && /^[1-9]\d*$/.test(it.owner);

// The same, and a moment, as cells.
export const client = (it) => ({ text: whoOf(it), href: hrefOfSession(it.sessionDigest), className: "name" });
export const moment = (ms, text = new Date(ms).toLocaleString()) => ({ text, href: `#events/${ms}` });

export const whyOf = ({ reason, detail }) => [reason, detail].filter(Boolean).join(": ");

export function noteOf(note) {
  if (!note) return "";
  const labels = Object.entries(note.labels).map(([key, value]) => `${key}=${value}`);
  return [note.reason, ...labels].filter(Boolean).join(" · ");
}

// Tables name their columns in `data-heads`; `#` marks those of numbers.
export function beginTables() {
  for (const table of document.querySelectorAll("table")) {
    const heads = table.dataset.heads.split("|").map((head) => {
      const column = make("th", { className: head.endsWith("#") ? "number" : "" }, head.replace("#", ""));
      column.scope = "col";
      return column;
    });
    table.append(make("thead", {}, make("tr", {}, ...heads)), make("tbody"));
  }
}

// Rows are kept by key, so that the focus stays where it is when they are shown anew. A row is a key, cells and a class.
export function showRows(id, rows, nothing) {
  const body = at(id).tBodies[0];
  const heads = [...at(id).querySelectorAll("th")];
  const known = new Map([...body.children].map((row) => [row.dataset.key, row]));
  const wanted = rows.length > 0 ? rows : [["\n", [{ text: nothing, span: 9 }], "few"]];
  const shown = wanted.map(([key, cells, className = ""]) => {
    const row = known.get(key) ?? make("tr");
    row.dataset.key = key;
    row.className = className;
    while (row.children.length > cells.length) row.lastChild.remove();
    let column = 0;
    cells.forEach((cell, index) => {
      const element = row.children[index] ?? row.appendChild(make("td"));
      const { span, className: own = "" } = cell;
      element.className = `${own} ${span ? "" : heads[column].className}`;
      element.dataset.label = column === 0 || span ? "" : heads[column].textContent;
      column += span ?? 1;
      showCell(element, Object(cell) === cell ? cell : { text: String(cell) });
    });
    return row;
  });
  if (shown.length === body.children.length && shown.every((row, index) => body.children[index] === row)) return;
  const focused = document.activeElement;
  body.replaceChildren(...shown);
  if (body.contains(focused)) focused.focus();
}

// A text, a link, a button, or a time that goes on: `until` counts down, `since` up.
function showCell(cell, { text = "—", href, press, open, until, since, mark, span = 1 }) {
  cell.colSpan = span;
  const now = performance.now();
  for (const [name, ms, end] of [["until", until, now + until], ["since", since, now - since]]) {
    if (ms === null || ms === undefined) delete cell.dataset[name];
    else cell.dataset[name] = end;
  }
  if (cell.dataset.until || cell.dataset.since) return tick(cell);
  const kind = press ? "button" : href ? "a" : "span";
  let inner = cell.firstElementChild;
  if (inner?.localName !== kind) cell.replaceChildren((inner = make(kind)));
  if (press) Object.assign(inner, { type: "button", onclick: press, ariaExpanded: open });
  else if (href) inner.href = href;
  const shown = clip(text);
  inner.title = shown === text ? "" : text;
  setText(inner, shown);
  while (inner.nextSibling) inner.nextSibling.remove();
  if (mark) cell.append(" ", make("span", { className: "mark" }, mark));
}

function tick(cell) {
  const { until, since } = cell.dataset;
  const ms = until ? Number(until) - performance.now() : performance.now() - Number(since);
  setText(cell, until && ms <= 0 ? "over" : duration(ms));
  cell.classList.toggle("soon", Boolean(until) && ms < SOON_MS);
}

export const placeOf = ({ coordinator }) => coordinator || "this one";

export function clearAll(...ids) {
  for (const id of ids) (at(id).tBodies?.[0] ?? at(id)).replaceChildren();
}

export const tickAll = () => document.querySelectorAll("td[data-until], td[data-since]").forEach(tick);

// A name as a cell, and as a link.
export const linkTo = ({ name, kind }) => make("a", { href: hrefOf(name, kind), title: name }, clip(name));
export const named = (it) => ({ text: it.name, href: hrefOf(it.name, it.kind), className: "name" });

export function showFacts(list, facts) {
  const shown = facts.filter(([, text]) => text !== "");
  list.replaceChildren(...shown.flatMap(([term, text]) => [make("dt", {}, term), make("dd", {}, text)]));
}

export function showCommand(element, words) {
  const quote = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
  const line = words.map(quote).join(" ");
  const code = make("code", {}, line);
  const copy = make("button", {}, "Copy");
  copy.onclick = async () => {
    // Without a secure context there is no clipboard.
    getSelection().selectAllChildren(code);
    await navigator.clipboard?.writeText(line);
    setText(copy, navigator.clipboard ? "Copied" : "Selected");
  };
  if (element.firstChild?.textContent !== line) element.replaceChildren(code, copy);
}

// What is copied of a clipped name is the whole name.
document.addEventListener("copy", (event) => {
  const selection = getSelection();
  const clipped = selection.anchorNode?.parentElement?.closest("[title]");
  if (clipped?.title && selection.toString().trim() === clipped.textContent) {
    event.clipboardData.setData("text/plain", clipped.title);
    event.preventDefault();
  }
});
