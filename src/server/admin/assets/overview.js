// Is everything well?

import { ask, at, duration, make, many, named, setText, showRows, svg } from "./base.js";

const HEIGHT = 40;

const millis = (value) => (value < 10 ? `${value.toFixed(1)} ms` : value < 10_000 ? `${Math.round(value)} ms` : duration(value));
const whole = (value) => Math.round(value).toLocaleString("en");
const rate = (value) => (value < 10 ? value.toFixed(1) : whole(value));

// What is drawn: its values, lines or bars, and how a value reads.
const FIGURES = [
  { title: "Grants per second", lines: ["grantsPerSecond"], words: rate },
  { title: "Waits under way", lines: ["waiters"], words: whole },
  { title: "Waits, half and 99 % below", lines: ["waitP50Ms", "waitP99Ms"], words: millis },
  { title: "Store calls, 99 % below", lines: ["storeP99Ms"], words: millis },
  { title: "Grants lost", lines: ["lost"], words: whole, isBad: true, isSum: true },
  { title: "Renewals over 1 s late", lines: ["lateRenewals"], words: whole, isBad: true, isSum: true },
];

let ring = 1;

function pathOf(values, steps, most) {
  let path = "";
  values.forEach((value, index) => {
    if (value === null) return;
    const [x, y] = [steps - values.length + index, HEIGHT - (value / most) * (HEIGHT - 2) - 1];
    const isAlone = values[index - 1] === null || values[index - 1] === undefined;
    path += isAlone ? `M${x} ${y.toFixed(1)}h0.5` : `L${x} ${y.toFixed(1)}`;
  });
  return path;
}

function draw({ title, lines, words, isBad, isSum }, history) {
  const all = lines.map((line) => history[line]);
  const known = all.flat().filter((value) => value !== null);
  const most = Math.max(...known, 0);
  const sum = known.reduce((before, value) => before + value, 0);
  const last = all.map((values) => values.findLast((value) => value !== null) ?? null);
  const now = isSum ? words(sum) : last.map((value) => (value === null ? "—" : words(value))).join(" / ");
  const paths = all.map((values, index) =>
    svg("path", { d: pathOf(values, history.steps, most || 1), class: `line${index}${isBad ? " bad" : ""}` }),
  );
  const minutes = Math.round((history.steps * history.stepMs) / 60_000);
  const label = `${title}: ${isSum ? `${now} in` : `now ${now}, at most ${words(most)} in`} ${minutes} minutes`;
  const size = { viewBox: `0 0 ${history.steps} ${HEIGHT}`, preserveAspectRatio: "none" };
  const value = make("strong", { className: isBad && sum > 0 ? "bad" : "" }, now);
  return make(
    "figure",
    {},
    make("figcaption", {}, title, value),
    svg("svg", { ...size, role: "img", "aria-label": label }, ...paths),
    make("p", { className: "dim" }, isSum ? `in ${minutes} min` : `at most ${words(most)}`),
  );
}

export async function load(_, signal) {
  const seen = await ask("overview", {}, signal);
  const banners = seen.banners.map(({ kind, text }) => {
    const href = { deadlock: "#graph", atRisk: "#sessions" }[kind];
    return make("li", { className: "notice" }, "▲ ", href ? make("a", { href }, text) : text);
  });
  const isWell = make("li", { className: "well" }, "✓ Nothing needs you.");
  const shown = banners.length > 0 ? banners : [isWell];
  if (at("banners").textContent !== shown.map((it) => it.textContent).join("")) at("banners").replaceChildren(...shown);
  const rows = seen.coordinators.map((it, index) => ({
    key: String(index),
    cells: [
      { text: it.isReady ? "✓ ready" : it.draining ? "▲ draining" : "▲ not ready", className: it.isReady ? "well" : "bad" },
      { text: it.storeAnswers ? "answers" : `does not answer: ${it.storeError}`, className: it.storeAnswers ? "" : "bad" },
      { text: it.sessions },
      { text: it.waiters },
      { text: it.version },
      { since: it.upForMs },
    ],
  }));
  showRows("coordinators-rows", rows, "");
  at("figures").replaceChildren(...FIGURES.map((figure) => draw(figure, seen.history[ring])));
  const waited = seen.mostWaitedFor.map((it) => ({
    key: it.name,
    cells: [
      named(it),
      { text: it.kind === "readWriteLock" ? "read/write lock" : it.kind },
      { text: it.waiterCount },
      { since: it.longestWaitMs },
    ],
  }));
  showRows("waited-rows", waited, "No call waits here.");
  setText(at("waited-count"), seen.mostWaitedFor.length > 0 ? `The ${many(waited.length, "name")} that most calls wait for here` : "");
  return { delay: 5000, isEager: false };
}

export function begin(reload) {
  for (const button of at("rings").children) {
    button.onclick = () => {
      ring = Number(button.value);
      for (const each of at("rings").children) each.setAttribute("aria-pressed", String(each === button));
      reload();
    };
  }
}
