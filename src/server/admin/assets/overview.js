// Is everything well?

import { ask, at, duration, kindOf, make, named, placeOf, put, showRows, svg } from "./base.js";

const HEIGHT = 40;

const millis = (value) => (value < 10 ? `${value.toFixed(1)} ms` : value < 10_000 ? `${Math.round(value)} ms` : duration(value));
const whole = (value) => Math.round(value).toLocaleString("en");
const rate = (value) => (value < 10 ? value.toFixed(1) : whole(value));

// What is drawn, how a value reads, and whether each one is bad.
const FIGURES = [
  ["Grants per second", ["grantsPerSecond"], rate],
  ["Waits under way", ["waiters"], whole],
  ["Waits, half and 99 % below", ["waitP50Ms", "waitP99Ms"], millis],
  ["Store calls, 99 % below", ["storeP99Ms"], millis],
  ["Grants lost", ["lost"], whole, true],
  ["Renewals over 1 s late", ["lateRenewals"], whole, true],
];

let ring = 1;

function pathOf(values, steps, most) {
  let path = "";
  values.forEach((value, index) => {
    if (value === null) return;
    const [x, y] = [steps - values.length + index, HEIGHT - (value / most) * (HEIGHT - 2) - 1];
    path += (values[index - 1] ?? null) === null ? `M${x} ${y.toFixed(1)}h0.5` : `L${x} ${y.toFixed(1)}`;
  });
  return path;
}

function draw([title, lines, words, isBad], history) {
  const all = lines.map((line) => history[line]);
  const known = all.flat().filter((value) => value !== null);
  const most = Math.max(...known, 0);
  const sum = known.reduce((before, value) => before + value, 0);
  const last = all.map((values) => values.findLast((value) => value !== null));
  const now = isBad ? words(sum) : last.map((value) => (value === undefined ? "—" : words(value))).join(" / ");
  const bad = isBad && sum > 0 ? "bad" : "";
  const minutes = (history.steps * history.stepMs) / 60_000;
  const about = `${isBad ? "" : `at most ${words(most)} `}in ${minutes} minutes`;
  const size = { viewBox: `0 0 ${history.steps} ${HEIGHT}`, preserveAspectRatio: "none" };
  const paths = all.map((values, index) => svg("path", { d: pathOf(values, history.steps, most || 1), class: `line${index} ${bad}` }));
  const picture = svg("svg", { ...size, role: "img", "aria-label": `${title}: ${isBad ? "" : "now "}${now}, ${about}` }, ...paths);
  const value = make("strong", { className: bad }, now);
  return make("figure", {}, make("figcaption", {}, title, value), picture, make("p", { className: "dim" }, about));
}

// `#overview/COORDINATOR` has the charts of one coordinator.
export async function load(coordinator, signal) {
  const { coordinators, fleet } = await ask("overview", { coordinator }, signal);
  const banners = fleet.banners.map(({ kind, text, coordinators: places }) => {
    const href = { deadlock: "#graph", atRisk: "#sessions" }[kind];
    return make("li", { className: "notice" }, "▲ ", href ? make("a", { href }, text) : text, ...places.map((it) => ` · ${it}`));
  });
  if (banners.length === 0) banners.push(make("li", { className: "well" }, "✓ Nothing needs you."));
  if (at("banners").textContent !== banners.map((it) => it.textContent).join("")) at("banners").replaceChildren(...banners);
  const rows = coordinators.map((it, index) => [
    String(index),
    [
      { text: placeOf(it), href: it.coordinator && `#overview/${it.coordinator}` },
      { text: it.isReady ? "✓ ready" : `▲ ${it.notReadyReason}`, className: it.isReady ? "well" : "bad" },
      it.sessions,
      it.waiters,
      it.version,
      { since: it.upForMs },
    ],
  ]);
  showRows("coordinators-rows", rows, "");
  put("charted", fleet.coordinator ?? (coordinators[1] ? "All coordinators: sums, and the longest times" : ""));
  at("figures").replaceChildren(...FIGURES.map((figure) => draw(figure, fleet.history[ring])));
  const waited = fleet.mostWaitedFor.map((it) => [
    it.name,
    [named(it), kindOf(it), it.waiterCount, { since: it.longestWaitMs }],
  ]);
  showRows("waited-rows", waited, "No call waits.");
}

export function begin(reload) {
  for (const button of at("rings").children) {
    button.onclick = () => {
      ring = Number(button.value);
      for (const each of at("rings").children) each.ariaPressed = each === button;
      reload();
    };
  }
}
