// Which names are held or waited for?

import { ask, at, fieldsOf, isDenied, isRedisson, many, named, put, showRows, whoOf } from "./base.js";

const FIRST_PAGE = 200;
const PAGE = 1000;
const LOADED_MAX = 10_000;
const FLAT_MAX = 50;
const SHOWN_STEP = 100;
// A list costs the store a small script for each name, so it may take this part of the time.
const PART_OF_TIME = 50;

const list = { locks: [], isComplete: true, isRestricted: false, seenAt: "", open: new Map(), shown: SHOWN_STEP };

function stateOf(lock) {
  if (lock.kind === "semaphore") return `semaphore, ${lock.availablePermits} of ${lock.totalPermits} free`;
  if (lock.kind === "latch") return lock.count > 0 ? `latch, count ${lock.count}` : "latch, open";
  return lock.mode ?? "free";
}

const holdersOf = (lock) => lock.holders ?? [];

function heldBy(lock) {
  const names = holdersOf(lock).slice(0, 2).map(whoOf);
  const more = (lock.holderCount ?? 0) - names.length;
  return names.join(", ") + (more > 0 ? ` and ${more} more` : "") || "—";
}

function sinceOf(lock) {
  const known = holdersOf(lock).map((holder) => holder.heldForMs).filter((ms) => ms !== null);
  return known.length > 0 ? Math.max(...known) : null;
}

const isHeld = (lock) => (lock.holderCount ?? 0) > 0 || lock.count > 0;

const STATES = { held: isHeld, waited: (lock) => lock.waiterCount > 0, free: (lock) => !isHeld(lock) };

const least = (value) => value ?? Number.MAX_SAFE_INTEGER;
const SORTS = {
  name: (a, b) => (a.name < b.name ? -1 : 1),
  waiters: (a, b) => b.waiterCount - a.waiterCount || SORTS.name(a, b),
  since: (a, b) => (sinceOf(b) ?? -1) - (sinceOf(a) ?? -1) || SORTS.name(a, b),
  lease: (a, b) => least(a.remainingLeaseMs) - least(b.remainingLeaseMs) || SORTS.name(a, b),
};

function wanted() {
  const { part, kind, state, holder, sort } = fieldsOf("search");
  const isWanted = (lock) =>
    lock.name.includes(part) &&
    (!kind || lock.kind === kind) &&
    (!state || STATES[state](lock)) &&
    (!holder || holdersOf(lock).some((it) => whoOf(it).includes(holder)));
  return list.locks.filter(isWanted).sort(SORTS[sort]);
}

function rowOf(lock) {
  return [
    lock.name,
    [
      named(lock),
      stateOf(lock),
      { text: heldBy(lock), mark: holdersOf(lock).some(isRedisson) ? "Redisson" : "" },
      { since: sinceOf(lock) },
      { until: lock.holderCount === 0 ? null : lock.remainingLeaseMs },
      lock.waiterCount,
    ],
  ];
}

// A name up to the first separators: as few as tell some names apart.
function groupsOf(locks) {
  for (const depth of [1, 2, 3]) {
    const groups = new Map();
    for (const lock of locks) {
      const prefix = lock.name.match(new RegExp(`^(?:[^:/.#|]*[:/.#|]){${depth}}`))?.[0] ?? "";
      groups.get(prefix)?.push(lock) ?? groups.set(prefix, [lock]);
    }
    if (groups.size > 1) return groups;
  }
  return new Map([["", locks]]);
}

// The first rows, and a row that shows more of them.
function firstRows(key, locks, shown, showMore) {
  const rows = locks.slice(0, shown).map(rowOf);
  const press = () => {
    showMore(shown + SHOWN_STEP);
    show();
  };
  const text = `${(locks.length - shown).toLocaleString("en")} more…`;
  if (locks.length > shown) rows.push([`${key}\n`, [{ text, press, open: false, span: 9 }], "few"]);
  return rows;
}

function groupRows([prefix, locks]) {
  const shown = list.open.get(prefix) ?? 0;
  const press = () => {
    list.open.set(prefix, shown ? 0 : SHOWN_STEP);
    show();
  };
  const held = locks.filter(isHeld).length.toLocaleString("en");
  const cells = [
    { text: `${shown ? "▾" : "▸"} ${prefix || "other names"}`, press, open: shown > 0 },
    { text: `${many(locks.length, "name")}, ${held} held`, span: 4 },
    locks.reduce((sum, lock) => sum + lock.waiterCount, 0),
  ];
  const rows = shown ? firstRows(`\n${prefix}`, locks, shown, (more) => list.open.set(prefix, more)) : [];
  return [[`\n${prefix}`, cells, "group"], ...rows];
}

function show() {
  const locks = wanted();
  const groups = locks.length > FLAT_MAX && fieldsOf("search").sort === "name" ? [...groupsOf(locks)] : [];
  const flat = () => firstRows("\n", locks, list.shown, (more) => (list.shown = more));
  const rows = groups.length > 1 ? groups.sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(groupRows) : flat();
  showRows("locks-rows", rows, list.locks.length > 0 ? "No name matches." : "Nothing is held or waited for.");
  const hint = list.isComplete ? "" : " of the first, search to find others";
  const of = locks.length === list.locks.length ? "" : ` of ${list.locks.length.toLocaleString("en")}`;
  put("locks-count", `${many(locks.length, "name")}${of}${hint}, seen at ${list.seenAt}`);
}

// Who may see some names only searches for a prefix.
async function page(parameters, signal) {
  try {
    if (!list.isRestricted) return await ask("locks", parameters, signal);
  } catch (error) {
    if (!isDenied(error) || fieldsOf("search").part === "") throw error;
    list.isRestricted = true;
  }
  return ask("locks", { ...parameters, contains: "", prefix: fieldsOf("search").part }, signal);
}

export async function load(_, signal) {
  const begun = performance.now();
  const [contains, found, names] = [list.isComplete ? "" : fieldsOf("search").part, [], new Set()];
  let pageToken;
  do {
    const answer = await page({ contains, pageSize: found.length === 0 ? FIRST_PAGE : PAGE, pageToken }, signal);
    found.push(...answer.locks.filter(({ name }) => !names.has(name)));
    for (const { name } of answer.locks) names.add(name);
    pageToken = answer.nextPageToken;
    // The first page is shown at once, unless there is something to see already.
    if (list.locks.length <= found.length) show((list.locks = [...found]));
  } while (pageToken && found.length < LOADED_MAX);
  Object.assign(list, { locks: found, isComplete: !pageToken && contains === "" && !list.isRestricted, seenAt: new Date().toTimeString().slice(0, 8) });
  show();
  return { delay: Math.max(5000, (performance.now() - begun) * PART_OF_TIME) };
}

export function begin(reload) {
  let typed;
  at("search").addEventListener("input", () => {
    list.shown = SHOWN_STEP;
    clearTimeout(typed);
    if (list.locks.length > 0) show();
    if (!list.isComplete || list.locks.length === 0) typed = setTimeout(reload, 300);
  });
}
