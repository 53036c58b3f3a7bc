/** A job that is to be submitted: from a form for each kind of source, or as text; checked before anything starts. */

import { go, to } from "../address.js";
import { ask, path, Problem } from "../api.js";
import { fill, h } from "../dom.js";
import { action, code, field, notice, state } from "../parts.js";
import { crumbs } from "./exchanges.js";
import { vhostField } from "./vhosts.js";

const EXAMPLE = `stream: orders
source:
  format: json
  path: /srv/orders
  schema: id BIGINT, region STRING
message:
  exchange: "'orders'"
  routing_key: region
trigger: 10 seconds
`;

/** What a form asks for: key of the document, label, hint, and how its text becomes a value. */
const FIELDS = {
  stream: ["Stream", "its name; the checkpoint has the same", { required: true }],
  "source.format": ["Format", "what the files hold", { choice: ["json", "csv", "parquet"] }],
  "source.path": ["Path", "an absolute folder, or an address such as s3a://bucket/in, among those that jobs may read", { required: true }],
  "source.schema": ["Schema", "id BIGINT, region STRING; csv needs one, json without one reads whole messages, parquet brings its own"],
  "source.bootstrap_servers": ["Brokers", "kafka1.example.com:9092, kafka2.example.com:9092", { required: true, read: listed }],
  "source.topics": ["Topics", "orders, returns", { required: true, read: listed }],
  "source.starting_offsets": ["Begin", "at the first start", { choice: ["earliest", "latest"] }],
  "source.options": ["Options of the reader", "one a line: maxFilesPerTrigger: 10", { lines: 2, read: pairs(":") }],
  "message.exchange": ["Exchange", "an expression of Spark SQL: 'orders' in quotes is a name, a column has one for each record"],
  "message.routing_key": ["Routing key", "an expression: region, concat_ws('.', area, id)"],
  "message.application_properties": ["Properties for filters", "name = expression, one a line: amount = amount", { lines: 3, read: pairs("=") }],
  trigger: ["Trigger", "10 seconds, 5 minutes, or available-now, which ends when all is read"],
};
const BEFORE = ["stream"];
const AFTER = ["source.options", "message.exchange", "message.routing_key", "message.application_properties", "trigger"];
/** Kinds of sources: what the page calls them, what is said of them without being asked, and their own fields. */
const KINDS = {
  files: ["Files", {}, ["source.format", "source.path", "source.schema"]],
  delta: ["Delta table", { "source.format": "delta" }, ["source.path"]],
  kafka: ["Kafka", { "source.format": "kafka" }, ["source.bootstrap_servers", "source.topics", "source.starting_offsets"]],
};
const TEXT = "text";
const DEFAULTS = { "source.format": "json", "source.starting_offsets": "earliest", trigger: "10 seconds" };
/** What was typed, which goes along from one kind to another. */
const typed = { ...DEFAULTS };
let written = null;

function listed(text) {
  return text.split(",").map((one) => one.trim()).filter(Boolean);
}

/** Lines of a name, a sign and a value. */
function pairs(sign) {
  return (text) =>
    Object.fromEntries(
      text
        .split("\n")
        .filter((line) => line.trim())
        .map((line) => {
          const place = line.indexOf(sign);
          return place < 0 ? [line.trim(), ""] : [line.slice(0, place).trim(), line.slice(place + 1).trim()];
        }),
    );
}

export function submit({ new: kind }) {
  const known = Object.hasOwn(KINDS, kind) ? kind : TEXT;
  return {
    title: "Submit a job",
    content: [
      crumbs("jobs", "Jobs", "submit"),
      h(
        "nav",
        { class: "tabs", "aria-label": "kinds of sources" },
        [...Object.entries(KINDS).map(([name, [text]]) => [name, text]), [TEXT, "YAML or JSON"]].map(([name, text]) =>
          h("a", { href: to(["jobs"], { new: name }), "aria-current": known === name ? "page" : null }, text),
        ),
      ),
      known === TEXT ? asText() : asForm(...KINDS[known]),
    ],
  };
}

/** The document of a form, as text. */
function documentOf(values) {
  const made = {};
  for (const [key, value] of Object.entries(values)) {
    const [first, second] = key.split(".");
    if (value === "" || value === undefined || (typeof value === "object" && Object.keys(value).length === 0)) continue;
    if (second) (made[first] ??= {})[second] = value;
    else made[first] = value;
  }
  return JSON.stringify(made, null, 2);
}

function asForm(_, stated, own) {
  const keys = [...BEFORE, ...own, ...AFTER];
  const inputs = Object.fromEntries(keys.map((key) => [key, inputOf(key)]));
  let vhost = { value: typed.vhost ?? "/" };
  const where = h("div", {});
  vhostField(vhost.value).then((made) => {
    vhost = made;
    made.addEventListener("change", show);
    fill(where, field("Vhost", made));
  });
  const shown = h("div", {});
  const text = () => documentOf({ stream: inputs.stream.value, vhost: vhost.value, ...stated, ...Object.fromEntries(keys.slice(1).map((key) => [key, (FIELDS[key][2]?.read ?? String)(inputs[key].value)])) });
  function show() {
    for (const key of keys) typed[key] = inputs[key].value;
    typed.vhost = vhost.value;
    written = text();
    fill(shown, code(written, { copy: true }));
  }
  show();
  return submission({
    text,
    oninput: show,
    parts: [keys.map((key) => [field(FIELDS[key][0], inputs[key], FIELDS[key][1]), key === "stream" ? where : null]), h("details", {}, h("summary", {}, "The document that this makes"), shown)],
    find: ({ message }) => inputs[keys.filter((key) => message.startsWith(key)).at(-1)],
  });
}

function inputOf(key) {
  const { choice, lines, required } = FIELDS[key][2] ?? {};
  const value = typed[key] ?? "";
  if (choice) {
    const select = h("select", {}, choice.map((one) => h("option", { value: one }, one)));
    select.value = value;
    return select;
  }
  if (lines) return h("textarea", { class: "mono", rows: lines, spellcheck: "false", value });
  return h("input", { class: key === "stream" ? null : "mono", required, spellcheck: "false", autocomplete: "off", value });
}

function asText() {
  const area = h("textarea", { class: "mono", rows: 18, spellcheck: "false", required: true, value: written ?? EXAMPLE });
  return submission({
    text: () => area.value,
    oninput: () => (written = area.value),
    parts: h("div", { class: "whole" }, field("The job's document", area, "YAML or JSON, as for bindery route; with forward in place of source and message it sends a queue to Kafka")),
    find: ({ line, column }) => {
      const start = area.value.split("\n").slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
      area.setSelectionRange(start + column - 1, start + area.value.slice(start).split("\n")[0].length);
      return area;
    },
  });
}

/** The form itself: what is wrong is told with its place, which a click goes to; nothing starts before all is well. */
function submission({ text, oninput, parts, find }) {
  const said = h("div", { class: "said", role: "status" });
  async function check() {
    const found = await ask(path("jobs", "check"), { method: "POST", body: { text: text() } });
    fill(
      said,
      found.errors.length
        ? h("ul", { class: "wrong" }, found.errors.map((one) => h("li", {}, h("button", { type: "button", class: "plain mono", onclick: () => find(one)?.focus() }, `${one.line}:${one.column}`), " ", h("span", { dir: "auto" }, one.message, one.hint ? ` (${one.hint})` : ""))))
        : state("good", "It can be submitted."),
    );
    return found.errors.length ? null : found.document;
  }
  const told = (work) => async () => {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      fill(said, notice(error));
    }
  };
  const submitted = told(async () => {
    const document = await check();
    if (document === null) return;
    await ask(path("jobs"), { method: "POST", body: document });
    Object.assign(typed, { stream: "" });
    written = null;
    go(["jobs", document.stream]);
  });
  return h(
    "form",
    {
      class: "panel document",
      oninput,
      onsubmit: (event) => {
        event.preventDefault();
        submitted();
      },
    },
    parts,
    said,
    h("div", { class: "actions" }, h("button", { class: "button primary" }, "Submit"), action("Check", told(check), { type: "button" })),
  );
}
