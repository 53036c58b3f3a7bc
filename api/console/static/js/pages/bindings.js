/** Bindings, as a table on the pages of the objects that they join, with what adds and takes away one. */

import { ask, path } from "../api.js";
import { changeDialog } from "../changes.js";
import { h } from "../dom.js";
import { filteredArguments } from "../forms.js";
import { action, DEFAULT_EXCHANGE, dialog, field, object, rightsOfMany, table } from "../parts.js";
import { number } from "../words.js";

export { read, Wrong } from "../written.js";

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

/**
 * Whether the user may change bindings by their far ends: AMQP lets whoever reads the source and writes to the destination
 * bind and unbind. Gives a function of a binding; names whose rights are known are not asked for again.
 */
export function farRights(vhost, far) {
  const known = {};
  return async (bindings, signal) => {
    const names = bindings.map((one) => one[far]).filter((name) => !Object.hasOwn(known, name));
    Object.assign(known, await rightsOfMany(vhost, names, signal));
    return (one) => known[one[far]][far === "source" ? "read" : "write"];
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
 * Bindings that leave or reach an object, as `onePage` asks for them. here: {kind, name}; `far` says which end is the other
 * one; `onchange` is called after one was changed, and is missing where the user may not do that; `may` says it of each
 * binding; `turn(skip)` leads to other pages.
 */
export function bindingTable({ caption, bindings, here, far, onchange, may, skip, turn }) {
  const columns = [
    { title: far === "source" ? "From" : "To", cell: (one) => ends(one, here)[far] ?? object(here.kind, one.vhost, here.name) },
    { title: "Routing key", cell: (one) => (one.routing_key === "" ? h("span", { class: "muted" }, "(empty)") : h("code", { dir: "auto" }, one.routing_key)) },
    { title: "Arguments", cell: (one) => argumentsOf(one.arguments) },
  ];
  if (onchange) {
    columns.push({
      title: h("span", { class: "unseen" }, "actions"),
      cell: (one) =>
        one.source === "" || !may(one)
          ? null
          : h("div", { class: "buttons" }, action("Change", () => rebind(one, onchange), { kind: "small" }), action("Unbind", () => unbind(one, onchange), { kind: "small" })),
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

const KNOWN = ["x-match", "x-replacement-routing-key"];

function entry({ source, destination, destination_type: kind, routing_key: key, arguments: values }) {
  return { source, destination, destination_type: kind, routing_key: key, arguments: values };
}

/** A dialog that gives a binding another key or other arguments, in one version: one goes and another comes. */
function rebind(one, onchange) {
  const key = h("input", { class: "mono", spellcheck: "false", value: one.routing_key });
  const more = filteredArguments(one.arguments, { of: "binding", known: KNOWN });
  changeDialog({
    title: "Change the binding",
    vhost: one.vhost,
    body: [
      h("p", {}, "From ", h("b", { dir: "auto" }, one.source), " to ", one.destination_type === "exchange" ? "exchange " : "", h("b", { dir: "auto" }, one.destination)),
      field("Routing key", key),
      more.element,
    ],
    change: () => {
      const [was, is] = [entry(one), entry({ ...one, routing_key: key.value, arguments: more.read() })];
      return JSON.stringify(was) === JSON.stringify(is) ? null : { delete: { bindings: [was] }, add: { bindings: [is] } };
    },
    confirm: "Change",
    ondone: onchange,
  });
}

/** A dialog that binds an exchange or a queue. source and destination: fixed where they are given. */
export function bind({ vhost, source, destination, destinationType, ondone }) {
  const from = h("input", { value: source ?? "", readonly: source !== undefined, required: true });
  const target = h("input", { value: destination ?? "", readonly: destination !== undefined, required: true });
  const kind = h("select", { disabled: destination !== undefined }, h("option", { value: "queue" }, "queue"), h("option", { value: "exchange" }, "exchange"));
  kind.value = destinationType ?? "queue";
  const key = h("input", { class: "mono", spellcheck: "false" });
  const more = filteredArguments({}, { of: "binding", known: KNOWN });
  changeDialog({
    title: "New binding",
    vhost,
    body: [
      field("From exchange", from),
      field("To", kind),
      field("Name", target),
      field("Routing key", key, "a topic exchange reads * as one word and # as any number of them"),
      more.element,
    ],
    change: () => {
      if (!from.value || !target.value) return null;
      const ends = { source: from.value, destination: target.value, destination_type: kind.value };
      return { definitions: { bindings: [{ ...ends, routing_key: key.value, arguments: more.read() }] } };
    },
    confirm: "Bind",
    ondone,
  });
}
