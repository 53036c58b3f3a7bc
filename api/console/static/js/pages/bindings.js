/** Bindings, as a table on the pages of the objects that they join, with what adds and takes away one. */

import { ask, path, Problem } from "../api.js";
import { h } from "../dom.js";
import { action, DEFAULT_EXCHANGE, dialog, field, object, table } from "../parts.js";
import { number } from "../words.js";

/** Arguments of a binding or an object, each on a line of its own; none: a dash. */
export function argumentsOf(values) {
  const stated = Object.entries(values ?? {});
  if (!stated.length) return "–";
  return h(
    "ul",
    { class: "arguments" },
    stated.map(([name, value]) =>
      h("li", {}, h("span", { class: "muted" }, name), " ", h("code", { dir: "auto" }, typeof value === "string" ? value : JSON.stringify(value))),
    ),
  );
}

function ends(binding, here) {
  return {
    source: here.kind === "exchange" && here.name === binding.source ? null : object("exchange", binding.vhost, binding.source),
    destination: here.kind === binding.destination_type && here.name === binding.destination
      ? null
      : object(binding.destination_type, binding.vhost, binding.destination),
  };
}

const PAGE = 100;

/** What is asked for of very many bindings: a page behind `skip`, and one more that tells whether there are others. */
export function onePage(skip) {
  return { top: PAGE + 1, skip };
}

/** The way to other pages of bindings; `turn(skip)` is the address of one. */
function turning(bindings, skip, turn) {
  const first = Number(skip ?? 0);
  if (!first && bindings.length <= PAGE) return null;
  return h(
    "nav",
    { class: "pages foot", "aria-label": "pages of bindings" },
    first ? h("a", { href: turn(Math.max(first - PAGE, 0) || undefined) }, "← previous") : null,
    h("span", { class: "muted" }, `${number(first + 1)} to ${number(first + Math.min(bindings.length, PAGE))}`),
    bindings.length > PAGE ? h("a", { href: turn(first + PAGE) }, "next →") : null,
  );
}

/**
 * Bindings that leave or reach an object, as `onePage` asks for them. here: {kind, name}; `far` says which end is the other one; `onchange` is
 * called after one was taken away, and is missing where the user may not do that; `may(binding)` whether the user may
 * take away that one; `turn(skip)` leads to other pages.
 */
export function bindingTable({ caption, bindings, here, far, onchange, may = () => true, skip, turn }) {
  const columns = [
    { title: far === "source" ? "From" : "To", cell: (one) => ends(one, here)[far] ?? object(here.kind, one.vhost, here.name) },
    { title: "Routing key", cell: (one) => (one.routing_key === "" ? h("span", { class: "muted" }, "(empty)") : h("code", { dir: "auto" }, one.routing_key)) },
    { title: "Arguments", cell: (one) => argumentsOf(one.arguments) },
  ];
  if (onchange) {
    columns.push({
      title: h("span", { class: "unseen" }, "actions"),
      cell: (one) => (one.source === "" || !may(one) ? null : action("Unbind", () => unbind(one, onchange), { kind: "small" })),
    });
  }
  return [
    table({ caption, columns, rows: bindings.slice(0, PAGE), key: (one) => `${one.source}\n${one.destination_type}\n${one.destination}\n${one.properties_key}` }),
    turning(bindings, skip, turn),
  ];
}

function where(one) {
  const segment = one.destination_type === "queue" ? "q" : "e";
  return path("bindings", one.vhost, "e", one.source || DEFAULT_EXCHANGE, segment, one.destination, one.properties_key);
}

function unbind(one, onchange) {
  dialog({
    title: "Unbind",
    body: h(
      "p",
      {},
      "Messages from ",
      h("b", { dir: "auto" }, one.source),
      " with the key ",
      h("code", { dir: "auto" }, one.routing_key),
      " will no longer come to ",
      h("b", { dir: "auto" }, one.destination),
      " by this binding. Rows that are there stay, and the history of the topology leads back.",
    ),
    confirm: "Unbind",
    kind: "danger",
    work: async () => {
      await ask(where(one), { method: "DELETE" });
      onchange();
      return "unbound";
    },
  });
}

/** A dialog that binds an exchange or a queue. source and destination: fixed where they are given. */
export function bind({ vhost, source, destination, destinationType, ondone }) {
  const from = h("input", { value: source ?? "", readonly: source !== undefined, required: true });
  const target = h("input", { value: destination ?? "", readonly: destination !== undefined, required: true });
  const kind = h("select", { disabled: destination !== undefined }, h("option", { value: "queue" }, "queue"), h("option", { value: "exchange" }, "exchange"));
  kind.value = destinationType ?? "queue";
  const key = h("input", { class: "mono", spellcheck: "false" });
  const selector = h("textarea", { rows: 2, class: "mono", spellcheck: "false" });
  const more = h("textarea", { rows: 3, class: "mono", spellcheck: "false", placeholder: '{"x-match": "all", "region": "EU"}' });
  dialog({
    title: "New binding",
    body: [
      field("From exchange", from),
      field("To", kind),
      field("Name", target),
      field("Routing key", key, "a topic exchange reads * as one word and # as any number of them"),
      field("Selector", selector, "JMS: price > 10 AND region = 'EU'. Empty: every message that the key lets through"),
      field("More arguments", more, "a JSON object"),
    ],
    confirm: "Bind",
    work: async () => {
      const stated = read(more.value);
      if (selector.value.trim()) stated["x-filter-jms-selector"] = selector.value;
      const body = { routing_key: key.value, arguments: stated };
      await ask(path("bindings", vhost, "e", from.value, kind.value === "queue" ? "q" : "e", target.value), { method: "POST", body });
      ondone();
      return "bound";
    },
  });
}

/** A JSON object that somebody has written; nothing is an empty one. Raises a Problem in words for anything else. */
export function read(text) {
  if (!text.trim()) return {};
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Wrong(`This is no JSON: ${error.message}`);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Wrong("A JSON object is needed: {…}");
  return value;
}

/** What is wrong with what was written, found before it was sent. */
export class Wrong extends Problem {
  constructor(reason) {
    super(400, reason);
  }
}
