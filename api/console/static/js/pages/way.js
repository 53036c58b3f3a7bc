/** The way of a message over the graph of its vhost: what was taken, what was tried and refused, and the rest. */

import { to } from "../address.js";
import { ask, path } from "../api.js";
import { h } from "../dom.js";
import { HEIGHT, placed, WIDTH } from "../graph.js";
import { DEFAULT_EXCHANGE, panel } from "../parts.js";
import { counted, number, shortened } from "../words.js";

/** Objects of a picture; of a larger vhost it shows what lies around the exchange that the message was published to. */
const OBJECTS = 40;
const HOPS = 3;
/** Pixels between two layers: a reason stands there. */
const ACROSS = 144;
const NAME = 19;
const REASON = 20;

/** The picture of an explanation; its parts lead to the steps that stand beside it. */
export function wayPicture(found, query) {
  const { vhost } = found;
  return panel({
    class: "bare picture",
    every: 0,
    load: (live, signal) => around(found, query, live, signal),
    view: (graph) => shown(vhost, lit(found, graph), graph, query),
  });
}

/** The whole vhost where it is small, and else what lies around the first exchange. */
async function around(found, query, live, signal) {
  const { vhost } = found;
  const version = query.version || undefined;
  const whole = await ask(path("graph", vhost), { query: { limit: OBJECTS, version }, live, signal });
  const first = found.visits[0]?.exchange;
  if (whole.exchanges.length + whole.queues.length || !whole.total || !first) return whole;
  return ask(path("graph", vhost), { query: { exchange: first, hops: HOPS, limit: OBJECTS, version }, live, signal });
}

const nodeOf = (kind, name) => `${kind}\n${name}`;

/** The graph with what became of the message on each edge, and with what it met beyond the part that is shown. */
function lit(found, graph) {
  const nodes = new Map();
  const edges = new Map();
  const node = (kind, name, more = {}) => nodes.set(nodeOf(kind, name), { ...nodes.get(nodeOf(kind, name)), id: nodeOf(kind, name), kind, name, last: kind === "queue", ...more });
  const edge = (source, kind, destination) => {
    const key = JSON.stringify([source, kind, destination]);
    if (!edges.has(key)) edges.set(key, { key, from: nodeOf("exchange", source), to: nodeOf(kind, destination), source, kind, destination });
    return edges.get(key);
  };
  for (const one of graph.exchanges) node("exchange", one.name, { type: one.type });
  for (const one of graph.queues) node("queue", one.name);
  for (const one of graph.edges) edge(one.source, one.destination_type, one.destination);
  for (const visit of found.visits) {
    node("exchange", visit.exchange, { type: visit.type, visited: true });
    for (const step of visit.steps) {
      const good = step.verdict === "delivered" || step.verdict === "forwarded";
      node(step.destination_type, step.destination, good ? { visited: true } : {});
      const one = edge(visit.exchange, step.destination_type, step.destination);
      if (good) one.taken = true;
      else one.refused ??= step.filters.flatMap((filter) => filter.culprits)[0]?.message ?? "an exclusive divert took it";
    }
    for (const miss of visit.missed ?? []) {
      if (nodes.has(nodeOf(miss.destination_type, miss.destination))) edge(visit.exchange, miss.destination_type, miss.destination).refused ??= miss.message;
    }
  }
  for (const { queue } of found.why_not) node("queue", queue, { asked: true });
  // what nothing leads to or from says nothing here
  const joined = new Set([...edges.values()].flatMap((one) => [one.from, one.to]));
  return { nodes: [...nodes.values()].filter((one) => joined.has(one.id) || one.visited || one.asked), edges: [...edges.values()] };
}

function shown(vhost, { nodes, edges }, graph, query) {
  if (!nodes.length) return h("p", { class: "empty" }, "There is nothing to draw.");
  const { at, ways, width, height } = placed(nodes, edges, ACROSS);
  // what was taken is drawn last, over the rest
  const order = edges.map((edge, place) => ({ edge, way: ways[place] })).sort((one, other) => weight(one.edge) - weight(other.edge));
  // a way back to the left dips below the objects
  const dip = edges.some((one) => at.get(one.to).x <= at.get(one.from).x) ? 64 : 16;
  const beyond = Math.max(0, graph.total - nodes.length);
  return [
    h(
      "div",
      { class: "scroll graph", tabindex: "0", role: "region", "aria-label": "The way as a picture; the steps stand below" },
      h(
        "svg",
        { viewBox: `-8 -8 ${width + 16} ${height + dip}`, width: width + 16, height: height + dip, role: "group", "aria-label": "The way of the message, from left to right" },
        order.map(({ edge, way }) => arrow(way, edge)),
        order.map(({ edge }) => (edge.refused && !edge.taken ? label(edge.refused, at.get(edge.to)) : null)),
        nodes.map((node) => box(vhost, node, at.get(node.id), query)),
      ),
    ),
    h(
      "p",
      { class: "legend muted" },
      h("span", {}, h("i", { class: "taken" }), "taken"),
      h("span", {}, h("i", { class: "refused" }), "tried and refused"),
      h("span", {}, h("i", {}), "not on its way"),
      beyond ? h("span", {}, `${number(beyond)} of ${counted(graph.total, "object")} not shown`) : null,
    ),
  ];
}

function weight(edge) {
  return edge.taken ? 2 : edge.refused ? 1 : 0;
}

/** Why an edge was not taken, before the object that it leads to; over all edges, so that none crosses it. */
function label(refused, end) {
  return h("text", { class: "reason", x: end.x - 8, y: end.y + HEIGHT / 2 - 5, "text-anchor": "end" }, reason(refused));
}

function arrow(way, edge) {
  const status = edge.taken ? "taken" : edge.refused ? "refused" : "faded";
  const words = `${edge.source || "(default exchange)"} to ${edge.destination}: ${edge.taken ? "taken" : edge.refused ?? "not on its way"}`;
  const drawn = [h("title", {}, words), h("path", { class: "wide", d: way }), h("path", { d: way })];
  if (status === "faded") return h("g", { class: ["edge", status] }, drawn);
  return h("svg:a", { class: ["edge", status], href: location.hash, "aria-label": words, onclick: leading(`link ${edge.key}`) }, drawn);
}

/** The first thing that an explanation says, as long as there is room. */
function reason(message) {
  // which key it is stands beside the picture
  const [first] = message.replace(/ of key '.*?'/, "").split(/[,:;] /);
  return first.length <= REASON ? first : `${first.slice(0, REASON - 1)}…`;
}

/** Goes to the place of the steps that speaks of a part of the picture. */
function leading(place) {
  return (event) => {
    event.preventDefault();
    const panelOf = event.currentTarget.closest(".panel:not(.picture)");
    const target = [...panelOf.querySelectorAll("[data-at]")].find((one) => one.dataset.at === place);
    for (let outer = target?.parentElement; outer; outer = outer.parentElement) if (outer.nodeName === "DETAILS") outer.open = true;
    target?.scrollIntoView({ block: "center" });
    target?.focus();
  };
}

function box(vhost, node, { x, y }, query) {
  const name = node.name || "(default exchange)";
  const seen = node.visited || node.asked;
  const way = node.kind === "exchange" && node.visited ? { href: location.hash, onclick: leading(`visit ${node.name}`) } : { href: address(vhost, node, query) };
  return h(
    "svg:a",
    { ...way, class: seen ? null : "faded", "aria-label": `${node.kind} ${name}${node.visited ? ", reached" : ""}` },
    h("title", {}, name),
    h("rect", { class: ["node", node.kind, node.visited && "chosen"], x, y, width: WIDTH, height: HEIGHT, rx: node.kind === "queue" ? 4 : 17 }),
    h("text", { x: x + 14, y: y + HEIGHT / 2 + 5 }, shortened(name, NAME)),
    node.type ? h("text", { class: "type", x: x + WIDTH - 14, y: y + HEIGHT / 2 + 4, "text-anchor": "end" }, node.type) : null,
  );
}

/** Of a queue that was not reached, why; of another object its page. */
function address(vhost, node, query) {
  if (node.kind === "queue" && !node.visited) return to(["try"], { ...query, queue: node.name });
  return to([node.kind === "queue" ? "queues" : "exchanges", vhost, node.name || DEFAULT_EXCHANGE]);
}
