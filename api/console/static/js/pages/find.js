/** Messages on record: found by what they hold, the newest first, so that one of them can be tried. */

import { go, to } from "../address.js";
import { ask, path } from "../api.js";
import { h } from "../dom.js";
import { dialectChoice } from "../filter_box.js";
import { field, object, panel, state, time } from "../parts.js";
import { counted, number, spoken } from "../words.js";

const SHOWN = 20;
/** What a search says, by its name in the address. */
const STATED = { filter: "filter", like: "key", id: "message_id", in: "queue" };

export function findForm(query) {
  const filter = h("textarea", { class: "mono", rows: 2, spellcheck: "false", value: query.filter ?? "", placeholder: "order_id = 1545 AND price > 20" });
  const dialect = dialectChoice(query.dialect, { "aria-label": null });
  const key = h("input", { class: "mono", spellcheck: "false", value: query.like ?? "", placeholder: "eu.#" });
  const id = h("input", { class: "mono", spellcheck: "false", value: query.id ?? "" });
  const queue = h("input", { spellcheck: "false", value: query.in ?? "" });
  return h(
    "form",
    {
      class: "card",
      onsubmit: (event) => {
        event.preventDefault();
        const { row, routed, on, ...kept } = query;
        go(["try"], { ...kept, as: "row", filter: filter.value, dialect: filter.value && dialect.value !== "jms" ? dialect.value : undefined, like: key.value, id: id.value, in: queue.value });
      },
    },
    h("h2", {}, "Find a message"),
    field("Message id", id),
    field("Key pattern", key, "* is one word, # any number of them"),
    field("Filter", filter),
    field("Dialect", dialect),
    field("In queue", queue, "what it has, or had; empty: every queue, and what reached none"),
    h("button", { class: "button" }, "Find"),
  );
}

/** What a search has found; without a search the newest messages. */
export function finder(query) {
  const stated = Object.entries(STATED).filter(([name]) => query[name]);
  const body = { vhost: query.vhost ?? "/", limit: SHOWN, dialect: query.dialect ?? "jms", on: query.on || undefined, ...Object.fromEntries(stated.map(([name, key]) => [key, query[name]])) };
  return panel({
    title: stated.length ? "Found on record" : "The newest on record",
    every: 0,
    load: (live, signal) => ask(path("find"), { method: "POST", body, live, signal }),
    view: (found) => [
      found.messages.length
        ? h("ol", { class: "messages found" }, together(found.messages).map((one) => row(one, query)))
        : h("p", { class: "empty" }, found.on ? "None among these rows." : stated.length ? "No message on record is like that. Consumed ones are kept by journals alone." : "There is no message on record."),
      h(
        "div",
        { class: "foot muted" },
        h("span", {}, `${counted(found.looked_at, "row")} looked at`),
        query.on ? h("a", { href: to(["try"], { ...query, on: undefined }) }, "← the newest") : null,
        found.on ? h("a", { href: to(["try"], { ...query, on: found.on }) }, "older →") : h("span", {}, "no older ones"),
      ),
    ],
  });
}

/** Rows of one message as one, with all of their queues. */
function together(messages) {
  const found = new Map();
  for (const one of messages) found.set(one.row, { ...one, queues: [...(found.get(one.row)?.queues ?? []), ...(one.queue === null ? [] : [one.queue])] });
  return [...found.values()];
}

function row(one, query) {
  const { filter, dialect, like, id, in: _, on, routed, ...kept } = query;
  const properties = Object.entries(one.message.application_properties ?? {}).slice(0, 6);
  return h(
    "li",
    {},
    h(
      "a",
      { class: "entry", href: to(["try"], { ...kept, as: "row", row: one.row }) },
      h("code", { dir: "auto" }, one.message.routing_key || "(no key)"),
      h("span", { class: "brief", dir: "auto" }, properties.map(([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`).join("  ·  ") || size(one)),
      time(one.routed_at),
    ),
    h("small", {}, standing(one, query)),
  );
}

/** Where a message stands, or why it stands nowhere. */
function standing(one, { vhost = "/", in: searched }) {
  const named = (queues) => queues.map((queue, place) => [place ? ", " : "", object("queue", vhost, queue)]);
  if (one.queues.length) return ["in ", named(one.queues)];
  if (one.journal === null) return state("warn", spoken(one.reason));
  const kept = searched ? `not there any more, in the journal of ${one.journal}` : `in the journal of ${one.journal} alone`;
  if (one.reason) return [state("warn", spoken(one.reason)), `, ${kept}`];
  return one.reached.length ? [`${kept}; it had reached `, named(one.reached)] : kept;
}

function size(one) {
  return one.body_bytes === null ? "" : `${number(one.body_bytes)} bytes`;
}
