/** Queues: the list, and one with its messages and what leads to it. */

import { go, to } from "../address.js";
import { ask, path } from "../api.js";
import { h } from "../dom.js";
import { action, code, dialog, fact, field, named, object, panel, rightsOf, rightsOfMany, time } from "../parts.js";
import { bytes, counted, number } from "../words.js";
import { argumentsOf, bind, bindingTable, onePage, read, Wrong } from "./bindings.js";
import { crumbs } from "./exchanges.js";
import { listPage } from "./list.js";
import { vhostField } from "./vhosts.js";

const SHOWN = 50;
/** Characters of a body that are asked for. */
const BODY = 4_000;
const DIALECTS = ["jms", "artemis", "apache", "amqp-sql"];

export function queues(_, query) {
  return listPage({
    resource: "queues",
    noun: "queue",
    title: "Queues",
    query,
    fields: ["name", "vhost", "messages", "message_bytes", "idle_since", "arguments"],
    create: action("New queue", () => create(), { kind: "primary" }),
    empty: "There is no queue that you may see.",
    columns: [
      { title: "Queue", key: "name", cell: (one) => object("queue", one.vhost, one.name) },
      { title: "Vhost", key: "vhost", cell: (one) => named(one.vhost) },
      { title: "Messages", key: "messages", number: true, cell: (one) => number(one.messages) },
      { title: "Size", key: "message_bytes", number: true, cell: (one) => bytes(one.message_bytes) },
      { title: "Last change", cell: (one) => (one.messages ? time(one.idle_since) : "–") },
      { title: "Arguments", cell: (one) => argumentsOf(one.arguments) },
    ],
  });
}

async function create() {
  const vhost = await vhostField();
  const name = h("input", { required: true, spellcheck: "false" });
  const more = h("textarea", { rows: 3, class: "mono", spellcheck: "false", placeholder: '{"x-filter-jms-selector": "price > 10"}' });
  dialog({
    title: "New queue",
    body: [field("Vhost", vhost), field("Name", name), field("Arguments", more, "a JSON object")],
    confirm: "Create",
    work: async () => {
      const body = { durable: true, arguments: read(more.value) };
      await ask(path("queues", vhost.value, name.value), { method: "PUT", body });
      go(["queues", vhost.value, name.value]);
      return "created";
    },
  });
}

export function queue([vhost, name], query) {
  const where = path("queues", vhost, name);
  const parts = [];
  const again = () => parts.forEach((part) => part.again());
  parts.push(
    panel({
      class: "bare",
      load: async (live, signal) => {
        const [item, rights] = await Promise.all([ask(where, { live, signal }), rightsOf(vhost, name, signal)]);
        return { item, rights };
      },
      view: ({ item, rights }) => facts(vhost, name, item, rights, again),
    }),
    messages(vhost, name, query),
    panel({
      title: "What leads here",
      load: async (live, signal) => {
        const [bindings, rights] = await Promise.all([
          ask(`${where}/bindings`, { query: onePage(query.bindings), live, signal }),
          rightsOf(vhost, name, signal),
        ]);
        const bound = bindings.filter((one) => one.source !== "");
        return { bindings: bound, rights, sources: await rightsOfMany(vhost, bound.map((one) => one.source), signal) };
      },
      empty: "No exchange is bound to it: only messages that name it reach it, by the default exchange.",
      view: ({ bindings, rights, sources }) =>
        bindings.length
          ? bindingTable({ may: (one) => sources[one.source].read, caption: "What leads here", bindings, here: { kind: "queue", name }, far: "source", skip: query.bindings, turn: (skip) => to(["queues", vhost, name], { ...query, bindings: skip }), onchange: rights.write ? again : undefined })
          : null,
    }),
  );
  return { title: name, content: [crumbs("queues", "Queues", name), parts] };
}

function facts(vhost, name, item, rights, again) {
  return [
    h(
      "dl",
      { class: "facts" },
      fact("Messages", number(item.messages)),
      fact("Size", bytes(item.message_bytes)),
      fact("Last change", item.messages ? time(item.idle_since) : "–"),
      fact("Vhost", named(vhost)),
      fact("Arguments", argumentsOf(item.arguments)),
      item.policy ? fact("Policy", h("span", { dir: "auto" }, item.policy)) : null,
    ),
    h(
      "div",
      { class: "actions" },
      h("a", { class: "button", href: to(["try"], { vhost, queue: name }) }, "Why not here?"),
      rights.write ? action("Bind to an exchange …", () => bind({ vhost, destination: name, destinationType: "queue", ondone: again })) : null,
      rights.read && item.messages ? action("Purge", () => purge(vhost, name, item.messages, again), { kind: "danger" }) : null,
      rights.configure ? action("Delete", () => remove(vhost, name, item.messages), { kind: "danger" }) : null,
    ),
  ];
}

function messages(vhost, name, query) {
  const text = h("input", {
    type: "search",
    class: "mono",
    value: query.filter ?? "",
    placeholder: "price > 10 AND region = 'EU'",
    "aria-label": "Only messages that a filter accepts",
    spellcheck: "false",
  });
  const dialect = h("select", { "aria-label": "Dialect" }, DIALECTS.map((one) => h("option", { value: one }, one)));
  dialect.value = query.dialect ?? "jms";
  const state = () => ({ filter: text.value, dialect: text.value && dialect.value !== "jms" ? dialect.value : undefined });
  const form = h(
    "form",
    {
      class: "filter",
      onsubmit: (event) => {
        event.preventDefault();
        go(["queues", vhost, name], state());
      },
    },
    text,
    dialect,
    h("button", { class: "button" }, "Filter"),
  );
  const body = { limit: SHOWN, truncate: BODY, ...(query.filter ? { filter: query.filter, dialect: query.dialect ?? "jms" } : {}) };
  return panel({
    title: "Messages",
    aside: form,
    every: 0,
    load: (live, signal) => ask(path("queues", vhost, name, "browse"), { method: "POST", body, live, signal }),
    empty: query.filter ? "The filter accepts no message of the queue." : "The queue is empty.",
    view: (found) =>
      found.length
        ? [
            h("ol", { class: "messages" }, found.map((one) => message(one, vhost))),
            found.length === SHOWN ? h("p", { class: "muted" }, `The first ${SHOWN}, in the order in which they were routed.`) : null,
          ]
        : null,
  });
}

function message(one, vhost) {
  const properties = Array.isArray(one.properties) ? {} : one.properties;
  const { headers = {}, ...standard } = properties;
  return h(
    "li",
    {},
    h(
      "details",
      {},
      h(
        "summary",
        {},
        h("code", { dir: "auto" }, one.routing_key || "(no key)"),
        h("span", { class: "brief", dir: "auto" }, brief(headers, one)),
        h("span", { class: "muted" }, bytes(one.payload_bytes)),
      ),
      h(
        "dl",
        { class: "facts" },
        fact("Exchange", object("exchange", vhost, one.exchange)),
        Object.entries(headers).map(([key, value]) => fact(h("span", { dir: "auto" }, key), value_(value))),
        Object.entries(standard).map(([key, value]) => fact(h("span", { class: "muted" }, key), value_(value))),
      ),
      code(one.payload_encoding === "base64" ? `base64: ${one.payload}` : one.payload),
      one.payload_bytes > one.payload.length && one.payload_encoding === "string"
        ? h("p", { class: "muted" }, `The first ${counted(one.payload.length, "character")} of ${bytes(one.payload_bytes)}.`)
        : null,
    ),
  );
}

function value_(value) {
  return h("code", { dir: "auto" }, typeof value === "string" ? value : JSON.stringify(value));
}

function brief(headers, one) {
  const stated = Object.entries(headers).slice(0, 6);
  if (!stated.length) return one.payload.slice(0, 120);
  return stated.map(([key, value]) => `${key} ${typeof value === "string" ? value : JSON.stringify(value)}`).join("  ·  ");
}

function purge(vhost, name, held, again) {
  dialog({
    title: `Purge ${name}`,
    body: h(
      "p",
      {},
      `${counted(held, "message")} will leave the queue in one commit. Its table keeps its history: earlier versions can be read until they are vacuumed.`,
    ),
    confirm: `Purge ${counted(held, "message")}`,
    kind: "danger",
    work: async () => {
      await ask(path("queues", vhost, name, "contents"), { method: "DELETE" });
      again();
      return "purged";
    },
  });
}

function remove(vhost, name, held) {
  const typed = h("input", { required: true, autocomplete: "off", spellcheck: "false" });
  dialog({
    title: `Delete queue ${name}`,
    body: [
      h("p", {}, `${counted(held, "message")} and every binding to it go with it. A rollback of the topology brings the queue back, empty.`),
      field("Type its name", typed),
    ],
    confirm: "Delete",
    kind: "danger",
    work: async () => {
      if (typed.value !== name) throw new Wrong("That is another name.");
      await ask(path("queues", vhost, name), { method: "DELETE" });
      go(["queues"]);
      return "deleted";
    },
  });
}
