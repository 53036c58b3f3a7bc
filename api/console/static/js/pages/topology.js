/** The topology of a vhost as a picture: exchanges, queues, and what leads from one to another. */

import { go, to } from "../address.js";
import { ask, path } from "../api.js";
import { h } from "../dom.js";
import { HEIGHT, placed, WIDTH } from "../graph.js";
import { DEFAULT_EXCHANGE, panel } from "../parts.js";
import { counted, number, shortened, spoken } from "../words.js";
import { marksOf } from "./lint.js";
import { sections } from "./sections.js";
import { vhostChoice } from "./vhosts.js";

const OBJECTS = 200;
/** Edges up to which each says its keys all the time; with more of them only the one that is pointed at does. */
const SAID = 40;
const LETTERS = 19;
const LABEL = 14;

export function topology([vhost = "/"], query) {
  const around = query.exchange !== undefined ? { exchange: query.exchange || DEFAULT_EXCHANGE } : query.queue !== undefined ? { queue: query.queue } : {};
  const focused = Object.keys(around).length > 0;
  const search = h("input", { type: "search", placeholder: "Around an exchange or queue  ( / )", "aria-label": "Show what lies around an exchange or queue", spellcheck: "false", value: query.exchange ?? query.queue ?? "" });
  return {
    title: "Topology",
    content: [
      h(
        "form",
        {
          class: "heading",
          onsubmit: async (event) => {
            event.preventDefault();
            if (!search.value) return go(["topology", vhost]);
            const exchange = await ask(path("exchanges", vhost), { query: { page: 1, page_size: 1, name: `^${literally(search.value)}$`, use_regex: true, columns: "name" } });
            return go(["topology", vhost], exchange.filtered_count ? { exchange: search.value } : { queue: search.value });
          },
        },
        h("h1", {}, "Topology"),
        search,
        vhostChoice("topology", vhost),
      ),
      sections(vhost, "topology"),
      panel({
        class: "bare",
        load: async (live, signal) => {
          const graph = await ask(path("graph", vhost), { query: { ...around, hops: focused ? 2 : undefined, limit: OBJECTS }, live, signal });
          const objects = [["exchange", graph.exchanges], ["queue", graph.queues]].flatMap(([kind, list]) => list.map(({ name }) => ({ kind, vhost, name })));
          return { ...graph, marks: await marksOf(objects, { live, signal }) };
        },
        view: (graph) => shown(vhost, graph, query, focused),
        empty: "There is no queue yet, and no exchange but those that every vhost has.",
      }),
    ],
  };
}

function literally(text) {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

function shown(vhost, graph, query, focused) {
  const objects = graph.exchanges.length + graph.queues.length;
  if (!objects) return graph.total ? crowd(graph.total) : null;
  return [
    h("div", { class: "scroll graph", tabindex: "0", role: "region", "aria-label": "The graph; a table of the same stands below" }, drawing(vhost, graph, query)),
    h(
      "p",
      { class: "foot muted" },
      h("span", {}, `${counted(graph.exchanges.length, "exchange")}, ${counted(graph.queues.length, "queue")}`, graph.beyond ? `; ${number(graph.beyond)} beyond` : "", ". Choose an object to see what lies around it; choose it again to open it."),
      focused ? h("a", { href: to(["topology", vhost]) }, "the whole vhost") : null,
    ),
    h("details", {}, h("summary", {}, "As a list"), h("ul", { class: "arguments" }, graph.edges.map((edge) => h("li", { dir: "auto" }, said(edge))))),
  ];
}

function crowd(total) {
  return h("p", { class: "empty" }, `The vhost has ${counted(total, "object")}: too many to see at once. Name an exchange or a queue above to see what lies around it.`);
}

const EXCHANGE = "exchange\n";
const QUEUE = "queue\n";

function drawing(vhost, graph, query) {
  const nodes = [
    ...graph.exchanges.map((one) => ({ id: EXCHANGE + one.name, kind: "exchange", name: one.name, type: one.type })),
    ...graph.queues.map((one) => ({ id: QUEUE + one.name, kind: "queue", name: one.name, last: true })),
  ];
  const edges = graph.edges.map((edge) => ({ from: EXCHANGE + edge.source, to: (edge.destination_type === "queue" ? QUEUE : EXCHANGE) + edge.destination, edge }));
  const { at, ways, width, height } = placed(nodes, edges);
  return h(
    "svg",
    { viewBox: `-8 -8 ${width + 16} ${height + 64}`, width: width + 16, height: height + 64, role: "group", "aria-label": "Exchanges on the left, queues on the right", class: edges.length > SAID ? "many" : null },
    edges.map(({ to: end, edge }, number) => arrow(ways[number], at.get(end), edge)),
    nodes.map((node) => box(vhost, node, at.get(node.id), query, graph.marks({ kind: node.kind, vhost, name: node.name }))),
  );
}

function arrow(way, end, edge) {
  const label = edge.keys.filter(Boolean).join(", ");
  return h(
    "g",
    { class: ["edge", edge.kind, edge.filtered && "filtered"] },
    h("title", {}, said(edge)),
    h("path", { class: "wide", d: way }),
    h("path", { d: way }),
    label || edge.filtered
      ? h("text", { x: end.x - 8, y: end.y + HEIGHT / 2 - 5, "text-anchor": "end" }, shortened(label, LABEL), edge.filtered ? " + filter" : "")
      : null,
  );
}

/** What is grave enough to be marked in the picture, with its sign. */
const MARKS = { error: ["bad", "■"], warning: ["warn", "▲"] };

function box(vhost, node, { x, y }, query, severities) {
  const gravest = Object.keys(MARKS).find((one) => severities?.[one]);
  const chosen = query[node.kind] === node.name;
  const page = to([node.kind === "queue" ? "queues" : "exchanges", vhost, node.name || DEFAULT_EXCHANGE]);
  const shownName = shortened(node.name || "(default exchange)", LETTERS);
  return h(
    "svg:a",
    { href: chosen ? page : to(["topology", vhost], { [node.kind]: node.name }), "aria-label": `${node.kind} ${node.name}${gravest ? `, lint: ${gravest}` : ""}${chosen ? ", open" : ""}` },
    h("title", {}, gravest ? `${node.name}: lint has ${gravest === "error" ? "an error" : "a warning"}` : node.name),
    h("rect", { class: ["node", node.kind, chosen && "chosen"], x, y, width: WIDTH, height: HEIGHT, rx: node.kind === "queue" ? 4 : 17 }),
    h("text", { x: x + 14, y: y + HEIGHT / 2 + 5 }, shownName),
    gravest ? h("text", { class: ["sign", MARKS[gravest][0]], x: x + WIDTH - 4, y: y + 6, "text-anchor": "end" }, MARKS[gravest][1]) : null,
    node.type ? h("text", { class: "type", x: x + WIDTH - 14, y: y + HEIGHT / 2 + 4, "text-anchor": "end" }, node.type) : null,
  );
}

/** An edge in words. */
function said(edge) {
  const keys = edge.keys.filter(Boolean);
  const what = edge.links > 1 ? counted(edge.links, spoken(edge.kind)) : spoken(edge.kind);
  return [
    `${edge.source || "(default exchange)"} → ${edge.destination}: ${what}`,
    keys.length ? ` ${keys.join(", ")}` : "",
    edge.links > edge.keys.length && edge.kind === "binding" ? " …" : "",
    edge.filtered ? `, ${number(edge.filtered)} with a filter` : "",
  ].join("");
}
