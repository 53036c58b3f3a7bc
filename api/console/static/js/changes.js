/** Changes of the topology: documents, what they would do, and doing it. */

import { go, to } from "./address.js";
import { ask, path, Problem } from "./api.js";
import { fill, h } from "./dom.js";
import { dialog, field, named, notice } from "./parts.js";
import { counted, number } from "./words.js";

/** Changes that a plan lists, and milliseconds after the last key before one is made of what is written. */
const LISTED = 200;
const DELAY = 300;
/** Characters up to which a document stands in an address. */
const ADDRESSED = 16_000;
const SIGNS = { created: "+", updated: "~", deleted: "−" };
/** Properties that the subject of a line says, and values of others that nobody has to say. */
const NAMING = new Set(["name", "vhost", "source", "destination", "destination_type", "component", "routing_key", "id", "metadata", "limits"]);
const PLAIN = { auto_delete: false, internal: false, exclusive: false, tracing: false, durable: true, filter: "", description: "", priority: 0, "apply-to": "all" };

/** What a document would do; raises a Problem with its errors. */
export function planOf(vhost, text, { prune, signal } = {}) {
  return ask(path("plan", vhost), { method: "POST", text, query: { prune: prune || undefined, limit: LISTED }, signal });
}

/** Do it: refused unless the topology is the one that was planned for. */
function apply(vhost, text, { prune, expected, reason }) {
  return ask(path("apply", vhost), { method: "POST", text, query: { prune: prune || undefined, expected, reason } });
}

/** Whether a plan does anything. */
export function doesSomething(plan) {
  return plan.total > 0 || plan.emptied.length > 0;
}

/** Documents that are too long for an address, for as long as the page is open. */
const kept = new Map();

/** How a document stands in an address. */
export function inAddress(text) {
  if (text.length <= ADDRESSED) return { change: text };
  const key = String(kept.size + 1);
  kept.set(key, text);
  return { kept: key };
}

/** The document that an address means, JSON on many lines: null where there is none, or no longer. */
export function fromAddress({ change, kept: key }) {
  const text = change ?? kept.get(key) ?? null;
  if (text === null || !text.startsWith("{") || text.includes("\n")) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** A plan in words. */
export function planView(plan) {
  if (!doesSomething(plan)) return [h("p", { class: "muted" }, "Nothing would change."), told(plan)];
  const shown = paired(plan.changes);
  // each pair is two changes that are said as one
  const pairs = plan.changes.length - shown.length;
  const sum = (change) => Object.values(plan.counts[change] ?? {}).reduce((all, one) => all + one, 0);
  const said = [[sum("created") - pairs, "to add"], [sum("updated") + pairs, "to change"], [sum("deleted") - pairs, "to delete"]];
  return [
    h("p", {}, said.filter(([count]) => count).map(([count, what]) => `${number(count)} ${what}`).join(", ")),
    lines(shown, plan.messages),
    plan.total > plan.changes.length ? h("p", { class: "muted" }, `and ${counted(plan.total - plan.changes.length, "further change")}`) : null,
    plan.emptied.map((queue) => h("p", { class: "notice warned" }, `Queue ${queue.name} is deleted and declared again: ${held(plan.messages, queue) ?? "no message"} in it.`)),
    told(plan),
  ];
}

function lines(changes, messages) {
  return h("ul", { class: "plan" }, changes.map((one) => line(one, messages)));
}

/** Changes of objects, as between two versions. */
export function changesView(changes) {
  return lines(paired(changes), []);
}

/** A binding that goes and one that comes between the same two are one that changes. */
function paired(changes) {
  const ends = ({ source, destination, destination_type: kind, vhost }) => JSON.stringify([vhost, source, kind, destination]);
  const going = Map.groupBy(changes.filter((one) => one.kind === "binding" && one.change === "deleted"), (one) => ends(one.before));
  const coming = Map.groupBy(changes.filter((one) => one.kind === "binding" && one.change === "created"), (one) => ends(one.after));
  const alone = (key) => going.get(key)?.length === 1 && coming.get(key)?.length === 1;
  return changes.flatMap((one) => {
    const key = one.kind === "binding" ? ends(one.after ?? one.before) : null;
    if (key === null || !alone(key)) return [one];
    return one.change === "deleted" ? [{ ...one, change: "updated", after: coming.get(key)[0].after }] : [];
  });
}

function line(one, messages) {
  const rows = one.kind === "queue" && one.change === "deleted" ? held(messages, one) : null;
  return h(
    "li",
    { class: one.change },
    h("b", { "aria-hidden": "true" }, SIGNS[one.change]),
    h(
      "span",
      {},
      h("span", { class: "unseen" }, `${one.change} `),
      subject(one),
      rows ? h("b", {}, ` (${rows} in it)`) : null,
      properties(one).map(([name, was, is]) =>
        h(
          "div",
          {},
          h("span", { class: "muted" }, name, " "),
          was === undefined ? null : h("del", { dir: "auto" }, shown(was)),
          was === undefined || is === undefined ? null : " → ",
          is === undefined ? null : h("ins", { dir: "auto" }, shown(is)),
        ),
      ),
    ),
  );
}

function held(messages, queue) {
  const found = messages.find((one) => one.vhost === queue.vhost && one.queue === queue.name);
  return found?.messages ? counted(found.messages, "message") : null;
}

function subject({ kind, vhost, name, before, after }) {
  const item = after ?? before;
  if (kind === "binding") {
    return ["binding ", named(item.source), " → ", item.destination_type === "exchange" ? "exchange " : "", named(item.destination), before && after && before.routing_key !== after.routing_key ? "" : [", key ", h("code", { dir: "auto" }, item.routing_key || "(empty)")]];
  }
  if (kind === "divert") return ["divert ", named(name), ": ", named(item.source), " → ", named(item.destination)];
  if (kind === "vhost") return ["vhost ", named(vhost)];
  return [kind.replace("parameter:", "parameter "), " ", named(name)];
}

function shown(value) {
  return typeof value === "string" ? value || "(empty)" : JSON.stringify(value);
}

function flat(item) {
  const found = {};
  for (const [name, value] of Object.entries(item ?? {})) {
    const isTable = ["arguments", "definition", "value"].includes(name) && value !== null && typeof value === "object" && !Array.isArray(value);
    if (isTable) for (const [inner, content] of Object.entries(value)) found[`${name}.${inner}`] = content;
    else found[name] = value;
  }
  return found;
}

/** Name, value before and value after of what is worth saying. */
function properties({ kind, change, before, after }) {
  const [was, is] = [flat(before), flat(after)];
  const names = [...new Set([...Object.keys(was), ...Object.keys(is)])].sort();
  const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
  if (change === "updated") return names.filter((name) => name !== "id" && !same(was[name], is[name])).map((name) => [name, was[name], is[name]]);
  // of bindings the arguments tell which one goes
  if (change === "deleted" && kind !== "binding") return [];
  return names
    .filter((name) => !NAMING.has(name) && !same(PLAIN[name], was[name] ?? is[name]) && !same({}, was[name] ?? is[name]) && !same([], was[name] ?? is[name]) && (was[name] ?? is[name] ?? null) !== null)
    .map((name) => [name, was[name], is[name]]);
}

function told(plan) {
  const idle = plan.without_effect.map((one) => `${one.names.join(", ")} (${one.kind}${one.name ? " " + one.name : ""}) has no effect`);
  const ignored = plan.ignored.map((one) => `${one.path} is ignored: ${one.reason}`);
  const lines = [...idle, ...ignored];
  if (!lines.length) return null;
  return h("ul", { class: "arguments muted" }, lines.slice(0, 20).map((one) => h("li", { dir: "auto" }, one)), lines.length > 20 ? h("li", {}, `and ${number(lines.length - 20)} more`) : null);
}

/** What is wrong with a document, each error at its place; `onplace(line, column)` goes there. */
export function problemView(problem, onplace) {
  const errors = [...(problem.body?.report?.errors ?? []), ...(problem.body?.report?.conflicts ?? [])];
  if (!errors.length) return notice(problem);
  return h(
    "div",
    { class: "notice bad", role: onplace ? "alert" : null },
    h("ul", { class: "problems" }, errors.slice(0, LISTED).map((error) => h("li", {}, onplace && error.line ? [h("button", { type: "button", class: "plain", onclick: () => onplace(error.line, error.column) }, `line ${number(error.line)}, column ${number(error.column)}`), ": "] : null, wrong(error)))),
    errors.length > LISTED ? `and ${number(errors.length - LISTED)} more` : null,
  );
}

function wrong(error) {
  const hint = error.hint ? h("div", { class: "muted" }, error.hint) : null;
  if (!error.filter) return [error.message, hint];
  const { filter, offset = 0, length = 0 } = error;
  const from = Math.max(0, offset - 60);
  return [
    error.message,
    h("div", {}, h("code", { dir: "auto" }, from ? "…" : "", filter.slice(from, offset), h("mark", { class: "culprit" }, filter.slice(offset, offset + Math.max(length, 1)) || " "), filter.slice(offset + Math.max(length, 1), offset + 80))),
    error.expected?.length ? h("div", { class: "muted" }, `expected: ${error.expected.join(", ")}`) : null,
    hint,
  ];
}

/**
 * A dialog that changes something: `change()` gives the document of what its fields say, null where they say nothing
 * that can be tried. Its plan stands below them while they are filled in; what is applied is what was planned.
 */
export function changeDialog({ title, vhost, body, change, confirm, kind, ondone }) {
  const box = h("div", { class: "planned", "aria-live": "polite" });
  box.isOwn = true;
  let timer;
  let asking = new AbortController();
  let last;
  const text = () => {
    const document_ = change();
    return document_ === null ? null : JSON.stringify(document_);
  };
  async function look() {
    asking.abort();
    asking = new AbortController();
    let document_ = null;
    try {
      document_ = text();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
    }
    if (document_ === last) return;
    last = document_;
    if (document_ === null) return fill(box);
    try {
      const plan = await planOf(vhost, document_, { signal: asking.signal });
      fill(box, planView(plan), effect(vhost, document_));
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof Problem)) throw error;
      fill(box, problemView(error));
    }
  }
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(look, DELAY);
  };
  dialog({
    title,
    body: h("div", { class: "changing", oninput: soon, onchange: soon, onclick: soon }, body, box),
    confirm,
    kind,
    work: async () => {
      clearTimeout(timer);
      asking.abort();
      const document_ = text();
      if (document_ === null) throw new Problem(400, "Nothing is changed yet.");
      fill(box);
      last = undefined;
      const plan = await planOf(vhost, document_);
      await apply(vhost, document_, { expected: plan.base });
      ondone();
      return "done";
    },
  });
  look();
}

function effect(vhost, text) {
  return h("p", {}, h("a", { href: to(["replay", vhost], inAddress(text)), onclick: (event) => event.target.closest("dialog").close() }, "What would it have done to the newest messages?"));
}

/**
 * A dialog that applies a document whose plan was seen; then `ondone`, or it leads to what was done: the way back is
 * there.
 */
export function applyDialog({ vhost, text, prune, plan, session, ondone }) {
  const reason = h("input", { autocomplete: "off" });
  const deletes = Object.keys(plan.counts.deleted ?? {}).length > 0 || plan.emptied.length > 0;
  dialog({
    title: "Apply the change",
    body: [h("div", { class: "planned", tabindex: "0", role: "region", "aria-label": "Plan" }, planView(plan)), field("Why", reason, "the history keeps it")],
    confirm: "Apply",
    kind: deletes ? "danger" : "primary",
    work: async () => {
      const done = await apply(vhost, text, { prune, expected: plan.base, reason: reason.value });
      if (ondone) ondone();
      else go(session.roles.includes("monitoring") ? ["history", done.version] : ["topology", vhost]);
      return `applied as version ${done.version}`;
    },
  });
}
