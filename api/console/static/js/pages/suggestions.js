/** What would bring a message to a queue, to be tried at once, and the change that is tried, to be made. */

import { go, to } from "../address.js";
import { ask, path } from "../api.js";
import { h } from "../dom.js";
import { action, code, dialog, field, named, object, panel, state } from "../parts.js";
import { counted, number } from "../words.js";

/** What a change does to an object -> its sign and its word. */
const SIGNS = { created: ["+", "added"], updated: ["~", "changed"], deleted: ["−", "deleted"] };
/** Properties of a message that the fields of the page have. */
const FIELDS = new Set(["exchange", "routing_key", "application_properties"]);

/** The smallest changes, and how the message would have to differ; `message` is its JSON form. */
export function suggested(query, body, message) {
  return panel({
    title: "What would bring it there",
    every: 0,
    load: (live, signal) => ask(path("route"), { method: "POST", body: { ...body, reach: query.queue }, live, signal }),
    empty: "Nothing small was found that would.",
    view: ({ suggestions, proposed }) => {
      const { changes, messages } = suggestions;
      if (!changes.length && !messages.length) return null;
      return [
        changes.length ? [h("h3", {}, "Another topology"), h("ol", { class: "suggestions" }, changes.map((one) => change(one, query, proposed)))] : null,
        messages.length ? [h("h3", {}, "Another message"), h("ol", { class: "suggestions" }, messages.map((one) => another(one, query, message)))] : null,
      ];
    },
  });
}

function change(one, query, proposed) {
  const text = JSON.stringify(one.change, null, 2);
  return h(
    "li",
    {},
    h("div", { dir: "auto" }, one.says, " ", h("small", {}, counted(one.objects, "object"))),
    differences(one, query),
    h("details", {}, h("summary", {}, "The change"), code(text)),
    // a change on top of another is not the one that was tried
    proposed ? null : h("a", { class: "button small", href: to(["try"], { ...query, change: text }) }, "Try with this change"),
  );
}

function another(one, query, message) {
  return h(
    "li",
    {},
    h("div", { dir: "auto" }, one.says),
    differences(one, query),
    h("a", { class: "button small", href: differing(one.differs, query, message) }, "Try this message"),
  );
}

/** Other queues that it comes to, and those that it leaves. */
function differences(one, query) {
  const queues = (names) => names.map((one, place) => [place ? ", " : "", object("queue", query.vhost ?? "/", one)]);
  return [
    one.gained.length ? h("small", {}, state("warn", "it comes further to"), " ", queues(one.gained)) : null,
    one.lost.length ? h("small", {}, state("warn", "it no longer comes to"), " ", queues(one.lost)) : null,
  ];
}

/** The address of the message with other parts: in the fields where they have all of it, else as JSON. */
function differing(differs, query, message) {
  const { row, routed, json, as, ...kept } = query;
  const whole = { ...message, ...differs };
  if (!row && !json && Object.keys(differs).every((name) => FIELDS.has(name))) {
    const properties = whole.application_properties ?? {};
    const headers = Object.keys(properties).length ? JSON.stringify(properties) : "";
    return "#/try?" + new URLSearchParams({ ...kept, exchange: whole.exchange, key: whole.routing_key, headers });
  }
  const stated = Object.fromEntries(Object.entries(whole).filter(([, value]) => JSON.stringify(value) !== "{}"));
  return to(["try"], { ...kept, as: "json", json: JSON.stringify(stated, null, 2) });
}

/** The change that is tried: what it would do to the topology, and the button that makes it. */
export function planned(query) {
  const vhost = query.vhost ?? "/";
  const body = { vhost, change: query.change, ...(query.version ? { expected: Number(query.version) } : {}) };
  return panel({
    title: "The change",
    every: 0,
    load: (live, signal) => ask(path("topology", "apply"), { method: "POST", body: { ...body, dry_run: true }, live, signal }),
    empty: "It changes nothing.",
    view: (plan) => {
      if (!plan.total && !plan.emptied.length) return null;
      return [
        h("p", {}, summary(plan), "."),
        plan.changes.map(changed),
        plan.emptied.map((one) => h("p", {}, state("bad", `queue ${one.name} is deleted and declared again: it is emptied`))),
        plan.messages.filter((one) => one.messages).map((one) => h("p", {}, state("bad", `${counted(one.messages, "message")} of queue ${one.queue} ${one.messages === 1 ? "goes" : "go"} with it`))),
        plan.ignored.map((one) => h("p", { class: "muted", dir: "auto" }, `${one.path}: ${one.reason}`)),
        plan.may ? h("div", { class: "actions" }, action("Make this change …", () => make(query, body, plan), { kind: "primary" })) : h("p", { class: "muted" }, "Your permissions do not allow to make it."),
      ];
    },
  });
}

function summary(plan) {
  const said = Object.entries(SIGNS).map(([what, [, word]]) => [Object.values(plan.counts[what] ?? {}).reduce((sum, one) => sum + one, 0), word]);
  return said.filter(([many]) => many).map(([many, word]) => `${number(many)} ${word}`).join(", ") || "Queues are emptied";
}

function changed(one) {
  const entry = one.after ?? one.before;
  const [sign, word] = SIGNS[one.change];
  const name = one.kind === "binding" ? [named(entry.source), " → ", named(entry.destination), entry.routing_key ? [" ", h("code", { dir: "auto" }, entry.routing_key)] : ""] : named(one.name);
  return h(
    "details",
    { class: "change" },
    h("summary", {}, h("b", { title: word }, sign), ` ${one.kind} `, name),
    h(
      "div",
      { class: "halves" },
      one.before ? h("div", {}, h("small", {}, "before"), code(JSON.stringify(one.before, null, 2))) : null,
      one.after ? h("div", {}, h("small", {}, "after"), code(JSON.stringify(one.after, null, 2))) : null,
    ),
  );
}

function make(query, body, plan) {
  const reason = h("input", { spellcheck: "true" });
  const lost = plan.messages.reduce((sum, one) => sum + one.messages, 0);
  dialog({
    title: "Make this change",
    body: [
      h("p", {}, `${summary(plan)}, in one new version of the topology after ${plan.version}. The history leads back`, lost ? `, but for ${counted(lost, "message")} that ${lost === 1 ? "goes" : "go"} with a queue.` : "."),
      field("Why", reason, "the version keeps it"),
    ],
    confirm: "Make it",
    kind: lost ? "danger" : "primary",
    work: async () => {
      const made = await ask(path("topology", "apply"), { method: "POST", body: { ...body, expected: plan.version, reason: reason.value } });
      const { change: _, version: __, ...kept } = query;
      go(["try"], kept);
      return `version ${made.version}`;
    },
  });
}
