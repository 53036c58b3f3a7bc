/** Parts of forms for what exchanges, queues and bindings are declared with: typed arguments, and filters. */

import { h } from "./dom.js";
import { field } from "./parts.js";
import { Wrong } from "./written.js";

const TYPES = { text: "text", number: "number", truth: "true or false", json: "list or object" };
let lists = 0;

function typeOf(value) {
  if (typeof value === "string") return "text";
  if (typeof value === "number") return "number";
  return typeof value === "boolean" ? "truth" : "json";
}

/**
 * Arguments as rows of name, type and value. known: names that are offered. Gives {element, read()}, where read() raises
 * a Problem for a value that is not of its type.
 */
export function argumentsField(values, known = [], label = "Arguments") {
  const list = `known-${(lists += 1)}`;
  const rows = h("div", { class: "typed" });
  const made = [];
  const add = (name = "", value = "") => {
    const key = h("input", { value: name, list, "aria-label": "argument", placeholder: "name", spellcheck: "false" });
    const type = h("select", { "aria-label": "type" }, Object.entries(TYPES).map(([one, text]) => h("option", { value: one }, text)));
    const content = h("input", { class: "mono", "aria-label": "value", spellcheck: "false", value: typeof value === "string" ? value : JSON.stringify(value) });
    type.value = typeOf(value);
    const row = { key, type, content };
    const element = h(
      "div",
      { class: "row" },
      key,
      type,
      content,
      h("button", { type: "button", class: "button small", "aria-label": "leave the argument out", onclick: () => (made.splice(made.indexOf(row), 1), element.remove()) }, "×"),
    );
    made.push(row);
    rows.append(element);
    return key;
  };
  for (const [name, value] of Object.entries(values ?? {})) add(name, value);
  return {
    element: h(
      "div",
      { class: "field", role: "group", "aria-label": label },
      h("span", { class: "label" }, label),
      h("datalist", { id: list }, known.map((name) => h("option", { value: name }))),
      rows,
      h("button", { type: "button", class: "button small", onclick: () => add().focus() }, "Add an argument"),
    ),
    read: () => Object.fromEntries(made.filter((row) => row.key.value).map((row) => [row.key.value, valueOf(row)])),
  };
}

function valueOf({ key, type, content }) {
  const text = content.value;
  if (type.value === "text") return text;
  if (type.value === "truth") {
    if (text !== "true" && text !== "false") throw new Wrong(`${key.value}: write true or false.`);
    return text === "true";
  }
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Wrong(`${key.value}: ${type.value === "number" ? "this is no number" : "this is no JSON"}: ${error.message}`);
  }
  if (type.value === "number" && typeof value !== "number") throw new Wrong(`${key.value}: this is no number.`);
  return value;
}

const SELECTOR = "x-filter-jms-selector";
const SET = "x-filters";
const QUEUE_FILTER = "x-queue-filter";
const DESCRIPTORS = { "amqp-sql": "amqp:sql-filter", cesql: "cloudevents:sql-filter", eventbridge: "aws:eventbridge-filter", sns: "aws:sns-filter", "service-bus": "com.microsoft:sql-filter", apache: "apache.org:selector-filter:string" };
const DIALECTS = { jms: "JMS selector", artemis: "Artemis", apache: "Apache selector", "amqp-sql": "AMQP SQL", cesql: "CloudEvents SQL", eventbridge: "EventBridge pattern", sns: "SNS filter policy", "service-bus": "Service Bus SQL", set: "filter set (JSON)" };
const OF_BINDINGS = ["jms", "apache", "amqp-sql", "cesql", "eventbridge", "sns", "service-bus", "set"];
const OF_QUEUES = ["artemis", "apache", "amqp-sql", "cesql", "eventbridge", "sns", "service-bus", "set"];

function readSet(value) {
  const [first, ...others] = Object.values(value ?? {});
  const dialect = Object.keys(DESCRIPTORS).find((one) => DESCRIPTORS[one] === first?.descriptor);
  return dialect && !others.length && typeof first.value === "string" ? [dialect, first.value] : ["set", JSON.stringify(value)];
}

/** The filter among arguments, and the others: [dialect, text, others]. */
function taken(values, argument) {
  const { [SELECTOR]: selector, [argument]: value, ...others } = values ?? {};
  if (argument === SET && selector !== undefined) return ["jms", selector, value === undefined ? others : { ...others, [SET]: value }];
  if (value === undefined) return [argument === SET ? "jms" : "artemis", "", argument === SET || selector === undefined ? others : { ...others, [SELECTOR]: selector }];
  return typeof value === "string" ? ["artemis", value, others] : [...readSet(value), others];
}

function stated(dialect, text, argument) {
  if (!text.trim()) return {};
  if (dialect === "jms") return { [SELECTOR]: text };
  if (dialect === "artemis") return { [argument]: text };
  if (dialect !== "set") return { [argument]: { filter: { descriptor: DESCRIPTORS[dialect], value: text } } };
  try {
    return { [argument]: JSON.parse(text) };
  } catch (error) {
    throw new Wrong(`The filter set is no JSON: ${error.message}`);
  }
}

/**
 * Arguments with the filter among them as a field of its own. of: "binding" or "queue". Gives {element, read()}.
 */
export function filteredArguments(values, { of, known }) {
  const argument = of === "queue" ? QUEUE_FILTER : SET;
  const [dialect, text, others] = taken(values, argument);
  const choice = h("select", {}, (of === "queue" ? OF_QUEUES : OF_BINDINGS).map((one) => h("option", { value: one }, DIALECTS[one])));
  choice.value = dialect;
  const filter = h("textarea", { rows: 2, class: "mono", spellcheck: "false", value: text });
  const more = argumentsField(others, known);
  return {
    element: [
      field(of === "queue" ? "Filter" : "Selector", filter, "price > 10 AND region = 'EU'. Empty: every message"),
      field("Dialect of it", choice, of === "queue" ? "Artemis is the filter language of queues and diverts" : "queues and diverts take Artemis filters, too"),
      more.element,
    ],
    read: () => ({ ...more.read(), ...stated(choice.value, filter.value, argument) }),
  };
}

/** A text box whose place can be pointed at: line and column, from 1. */
export function pointTo(area, line, column) {
  const lines = area.value.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0) + column - 1;
  area.focus();
  area.setSelectionRange(start, Math.min(area.value.length, start + 1));
  area.scrollTop = Math.max(0, (line - 4) * (area.scrollHeight / lines.length));
}

/** Let somebody choose a text file; `onread(text, name)`. */
export function fileButton(text, onread) {
  const input = h("input", {
    type: "file",
    class: "unseen",
    tabindex: "-1",
    "aria-hidden": "true",
    accept: ".json,.yaml,.yml",
    onchange: async () => {
      const [file] = input.files;
      if (file) onread(await file.text(), file.name);
      input.value = "";
    },
  });
  return h("span", {}, h("button", { type: "button", class: "button", onclick: () => input.click() }, text), input);
}

/** Offer text as a file. */
export function download(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = h("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 1_000);
}

