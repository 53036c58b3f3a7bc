/** What would bring a message to a queue, to be tried at once, and the change that is tried, to be made. */

import { go, to } from "../address.js";
import { ask, path, Problem } from "../api.js";
import { applyDialog, doesSomething, planOf, planView } from "../changes.js";
import { h } from "../dom.js";
import { action, code, object, panel, state } from "../parts.js";
import { counted } from "../words.js";

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

/** The change that is tried: its plan, and for who may the button that makes it. */
export function planned(query, session) {
  const vhost = query.vhost ?? "/";
  return panel({
    title: "The change",
    every: 0,
    load: async (live, signal) => {
      try {
        return { plan: await planOf(vhost, query.change, { signal }) };
      } catch (error) {
        if (!(error instanceof Problem) || !error.isForbidden) throw error;
        return {};
      }
    },
    view: ({ plan }) => {
      if (!plan) return h("p", { class: "muted" }, "Your permissions do not allow to make it.");
      // a plan is one for the present: a change that was tried on an older version is not made
      if (!doesSomething(plan) || query.version) return h("div", { class: "planned" }, planView(plan));
      return [
        h("div", { class: "planned" }, planView(plan)),
        h("div", { class: "actions" }, action("Make this change …", () => make(vhost, query, plan, session), { kind: "primary" })),
      ];
    },
  });
}

function make(vhost, query, plan, session) {
  const { change: text, ...kept } = query;
  applyDialog({ vhost, text, plan, session, ondone: () => go(["try"], kept) });
}
