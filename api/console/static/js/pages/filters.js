/** The filter workbench: what a filter says of real messages, and which part of it says so. */

import { go } from "../address.js";
import { ask, path, Problem } from "../api.js";
import { h } from "../dom.js";
import { dialectChoice, filterBox } from "../filter_box.js";
import { action, field, panel, state } from "../parts.js";
import { counted, number } from "../words.js";
import { vhostField } from "./vhosts.js";

const JUDGED = 50;
const RESULTS = { true: ["good", "accepts"], false: ["off", "does not accept"], unknown: ["warn", "cannot tell"] };

export function filters(_, query) {
  const queue = h("input", { value: query.queue ?? "", spellcheck: "false", onchange: () => box.refresh() });
  const dialect = dialectChoice(query.dialect, { "aria-label": null, onchange: () => box.refresh() });
  const box = filterBox({
    value: query.filter ?? "",
    lines: 4,
    input: { id: "filter-text", required: true, placeholder: "price > 10 AND region = 'EU'" },
    dialect: () => dialect.value,
    names: async () => (queue.value ? ask(path("queues", chosen.value, queue.value, "properties")) : null),
  });
  const vhost = h("span", {});
  let chosen = { value: query.vhost ?? "/" };
  vhostField(query.vhost ?? "/").then((made) => vhost.replaceChildren(field("Vhost", (chosen = made))));
  const form = h(
    "form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        go(["filters"], { filter: box.field.value, dialect: dialect.value, vhost: chosen.value, queue: queue.value });
      },
    },
    h("div", { class: "field" }, h("label", { for: "filter-text" }, "Filter"), box),
    field("Dialect", dialect),
    vhost,
    field("Queue", queue, "its first messages are judged"),
    h("button", { class: "button primary" }, "Try"),
  );
  return {
    title: "Filters",
    content: [
      h("div", { class: "heading" }, h("h1", {}, "Filter workbench")),
      h("div", { class: "try" }, form, query.filter ? outcome(query, box) : invitation()),
    ],
  };
}

function invitation() {
  return h("section", { class: "panel" }, h("div", { class: "content" }, h("p", { class: "empty" }, "Write a filter, name a queue, and see which of its messages it accepts, and what each part of it says of them.")));
}

function outcome(query, box) {
  const body = { filter: query.filter, dialect: query.dialect ?? "jms", vhost: query.vhost ?? "/", queue: query.queue || undefined, limit: JUDGED };
  return panel({
    every: 0,
    load: async (live, signal) => {
      try {
        return await ask(path("filters"), { method: "POST", body, live, signal });
      } catch (error) {
        if (!(error instanceof Problem) || !error.body.filter) throw error;
        box.mark(error);
        return { refused: true };
      }
    },
    view: (found) => (found.refused ? h("p", { class: "empty" }, "The filter cannot be read: what is wrong stands below it.") : checked(found, box)),
  });
}

function checked(found, box) {
  const results = new Map();
  for (const { result } of found.messages) results.set(result, (results.get(result) ?? 0) + 1);
  return [
    found.messages.length
      ? h("p", { class: "verdict" }, state(results.has("true") ? "good" : "warn", `Accepts ${number(results.get("true") ?? 0)} of ${counted(found.messages.length, "message")}`), results.has("unknown") ? `, ${number(results.get("unknown"))} it cannot tell` : "", ".")
      : h("p", { class: "verdict" }, state("good", "The filter can be read.")),
    h("p", { class: "muted" }, "Normal form: ", h("code", { dir: "auto" }, found.normal_form)),
    found.findings.length ? h("ul", { class: "wrong" }, found.findings.map((one) => h("li", {}, h("b", {}, one.code), " ", one.message))) : null,
    found.seen.length ? [h("h2", {}, "Seen in the queue"), h("p", { class: "chips" }, found.seen.map((one) => property(one, box)))] : null,
    found.messages.length ? [h("h2", {}, "Its messages"), h("ol", { class: "messages" }, found.messages.map(judged))] : null,
  ];
}

/** A property that messages have; pressed, it is put into the filter. */
function property({ name, families }, box) {
  const kinds = Object.keys(families).join(", ");
  return action(
    [h("span", { dir: "auto" }, name), " ", h("small", {}, kinds)],
    () => {
      const { field: text } = box;
      text.setRangeText(name, text.selectionStart, text.selectionEnd, "end");
      text.dispatchEvent(new Event("input"));
      text.focus();
    },
    { kind: "small", title: `put ${name} into the filter` },
  );
}

function judged({ message, result, trace }) {
  const [kind, words] = RESULTS[result] ?? ["off", result];
  const stated = Object.entries(message.application_properties ?? {}).slice(0, 6);
  return h(
    "li",
    {},
    h(
      "details",
      {},
      h(
        "summary",
        {},
        state(kind, words),
        h("span", { class: "brief", dir: "auto" }, stated.map(([key, value]) => `${key} ${typeof value === "string" ? value : JSON.stringify(value)}`).join("  ·  ")),
        h("code", { dir: "auto" }, message.routing_key || "(no key)"),
      ),
      h("ul", { class: "trace" }, part(trace)),
    ),
  );
}

/** A sub-expression with its value and why, and its parts. */
function part(one) {
  const value = typeof one.value === "string" ? one.value : JSON.stringify(one.value);
  return h(
    "li",
    {},
    h("code", { dir: "auto" }, one.text),
    " is ",
    one.kind === "condition" ? state(RESULTS[value]?.[0] ?? "off", value) : h("code", { dir: "auto" }, value),
    one.why ? h("small", { dir: "auto" }, ` ${one.why}`) : null,
    (one.parts ?? []).some((inner) => inner.kind !== "literal") ? h("ul", { class: "trace" }, one.parts.filter((inner) => inner.kind !== "literal").map(part)) : null,
  );
}
