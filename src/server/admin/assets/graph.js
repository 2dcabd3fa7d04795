// Who blocks whom? Waiters left, holders right, drawn in layers.

import { ask, at, clearAll, clip, duration, hrefOf, hrefOfSession, linkTo, make, many, put, svg, whoOf } from "./base.js";

const [BOX, COLUMN, ROW, TALL] = [180, 260, 48, 34];

// Nodes with their edges to what they wait for, or by whom they are held.
function nodesOf(graph) {
  const ownerOf = (text, digest) => ({ text, href: hrefOfSession(digest), kind: "owner", to: [] });
  const owners = graph.owners.map((it) => ownerOf(whoOf(it), it.sessionDigest));
  const names = graph.names.map((it) => ({ text: it.name, href: hrefOf(it.name, it.kind), kind: "lock", to: [], isBad: it.isDeadlocked }));
  for (const [index, it] of graph.names.entries()) {
    const name = names[index];
    for (const { owner, waitingForMs, isDeadlocked } of it.waiters) {
      owners[owner].to.push({ node: name, text: duration(waitingForMs), isBad: isDeadlocked });
      owners[owner].isBad ||= isDeadlocked;
    }
    const [moreWaiters, moreHolders] = [it.waiterCount - it.waiters.length, it.holderCount - it.holders.length];
    if (moreWaiters > 0) owners.push({ ...ownerOf(many(moreWaiters, "more waiter")), to: [{ node: name }] });
    name.to = it.holders.map((owner) => ({ node: owners[owner] }));
    if (moreHolders > 0) name.to.push({ node: owners[owners.push(ownerOf(many(moreHolders, "more holder"))) - 1] });
  }
  for (const name of names) for (const edge of name.to) edge.isBad = name.isBad && edge.node.isBad;
  return [...names, ...owners];
}

// How many edges lead on from a node; one that closes a circle does not count.
function height(node, above = new Set()) {
  if (node.height !== undefined || above.has(node)) return node.height ?? -1;
  above.add(node);
  node.height = 1 + Math.max(-1, ...node.to.map(({ node: next }) => height(next, above)));
  above.delete(node);
  return node.height;
}

function place(nodes) {
  const layers = [];
  for (const node of nodes) (layers[height(node)] ??= []).push(node);
  const most = layers.length - 1;
  layers.forEach((layer, depth) => {
    // Beside what they lead to, so that few edges cross.
    const middle = (node) => node.to.reduce((sum, { node: next }) => sum + (next.y ?? 0), 0) / (node.to.length || 1);
    layer.sort((a, b) => middle(a) - middle(b));
    layer.forEach((node, index) => Object.assign(node, { x: (most - depth) * COLUMN, y: index * ROW }));
  });
  return { width: most * COLUMN + BOX + 8, height: Math.max(...layers.map((it) => it.length)) * ROW + 40 };
}

// An edge that leads back goes around below.
function drawEdge(from, { node: to, text = "", isBad }, below) {
  const [y1, y2] = [from.y + TALL / 2, to.y + TALL / 2];
  const isBack = to.x <= from.x;
  const [x1, x2] = isBack ? [from.x + BOX / 2, to.x + BOX / 2] : [from.x + BOX, to.x];
  const bend = (x1 + x2) / 2;
  const path = isBack
    ? `M${x1} ${from.y + TALL}C${x1} ${below} ${x2} ${below} ${x2} ${to.y + TALL}`
    : `M${x1} ${y1}C${bend} ${y1} ${bend} ${y2} ${x2} ${y2}`;
  const y = isBack ? (y1 + y2) / 8 + below * 0.75 : (y1 + y2) / 2 - 4;
  const line = svg("path", { d: path, class: isBad ? "edge bad" : "edge", "marker-end": "url(#arrow)" });
  return [line, svg("text", { x: bend, y, class: "wait" }, text)];
}

function drawNode({ text, href, kind, x, y, isBad }) {
  const box = svg("rect", { x, y, width: BOX, height: TALL, rx: kind === "lock" ? 2 : 16, class: isBad ? `${kind} bad` : kind });
  const label = svg("text", { x: x + BOX / 2, y: y + 22 }, clip(text, 24));
  const children = [svg("title", {}, text), box, label];
  return svg(href ? "a" : "g", href ? { href } : {}, ...children);
}

function arrow() {
  const size = { id: "arrow", viewBox: "0 0 8 8", refX: 8, refY: 4, markerUnits: "userSpaceOnUse", markerWidth: 11, markerHeight: 11, orient: "auto" };
  return svg("marker", size, svg("path", { d: "M0 0L8 4L0 8z", fill: "context-stroke" }));
}

function draw(graph) {
  const nodes = nodesOf(graph);
  const { width, height } = place(nodes);
  const box = { viewBox: `-4 -16 ${width} ${height}`, width, height };
  const label = "Waiters on the left, what they wait for, and its holders";
  const edges = nodes.flatMap((node) => node.to.flatMap((edge) => drawEdge(node, edge, height - 10)));
  const drawn = [svg("defs", {}, arrow()), ...edges, ...nodes.map(drawNode)];
  at("drawing").replaceChildren(svg("svg", { ...box, role: "group", "aria-label": label }, ...drawn));
}

function showDeadlocks(deadlocks) {
  const items = deadlocks.map((cycle) => {
    const steps = cycle.flatMap((step) => [
      `${whoOf(step)} waits for `,
      linkTo({ name: step.waitsFor }),
      ` (${duration(step.waitingForMs)}), held by `,
    ]);
    return make("li", { className: "notice bad" }, "▲ Deadlock: ", ...steps, whoOf(cycle[0]));
  });
  at("deadlocks").replaceChildren(...items);
}

function showList(graph) {
  const items = graph.names.map((it) => {
    const names = (owners) => owners.map((owner) => whoOf(graph.owners[owner])).join(", ");
    const [holders, waiters] = [names(it.holders), names(it.waiters.map(({ owner }) => owner))];
    return make("li", {}, linkTo(it), ` held by ${holders || "nobody known"}; ${many(it.waiterCount, "waiter")}: ${waiters}`);
  });
  at("graph-list").replaceChildren(...items);
}

let shown = "";

export async function load(_, signal) {
  const graph = await ask("graph", {}, signal);
  const left = graph.namesLeftOut > 0 ? `; ${many(graph.namesLeftOut, "more name")} not drawn` : "";
  const none = "No call has waited for longer than a second. Waits appear here by themselves.";
  put("graph-count", graph.names.length > 0 ? `${many(graph.names.length, "name")} waited for longer than a second${left}` : none);
  showDeadlocks(graph.deadlocks);
  // Anew only when more than the times has changed, so that the focus stays.
  const shape = JSON.stringify(graph, (key, value) => (key.endsWith("Ms") ? Math.floor(Math.log2(value / 1000 + 1)) : value));
  if (shape !== shown) {
    shown = shape;
    clearAll("drawing");
    if (graph.names.length > 0) draw(graph);
    showList(graph);
  }
  at("graph-text").hidden = graph.names.length === 0;
}
