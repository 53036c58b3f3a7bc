/** An explanation: the verdict, why not, the way as a picture, and every step with the parts of its filters. */

import { h } from "../dom.js";
import { code, object, state } from "../parts.js";
import { counted, shortened, spoken } from "../words.js";
import { wayPicture } from "./way.js";

const VERDICTS = {
  delivered: ["good", "delivered to"],
  forwarded: ["good", "handed on to"],
  filter: ["off", "its filter stops it, to"],
  "queue-filter": ["off", "the queue's filter stops it, to"],
  "exclusive-divert": ["off", "an exclusive divert took it before, to"],
  "too-many-forms": ["off", "the message has too many forms for"],
};
const RESULTS = { true: "good", false: "off", unknown: "warn" };
/** Characters of a name or value of the message that are shown. */
const SHOWN = 200;

export function refused(record) {
  return [h("p", { class: "verdict" }, state("bad", "This record never was a message.")), code(JSON.stringify(record, null, 2))];
}

export function explained(found, query, message) {
  const { vhost } = found;
  return [
    h(
      "p",
      { class: "verdict" },
      found.queues.length
        ? [state("good", `Reaches ${counted(found.queues.length, "queue")}:`), " ", listed(vhost, found.queues)]
        : state("warn", "Reaches no queue."),
    ),
    found.unroutable ? h("p", { class: "muted" }, `${spoken(found.unroutable.reason)}: ${found.unroutable.detail ?? spoken(found.unroutable.disposition)}`) : null,
    found.gained ? difference(found, vhost) : null,
    message ? stated(message, vhost) : null,
    h("div", { class: "why" }, found.why_not.map((one) => whyNot(one, vhost))),
    h("h2", {}, "Its way"),
    wayPicture(found, query),
    h("details", { class: "steps", open: true }, h("summary", {}, "Step by step"), h("ol", { class: "way" }, found.visits.map((visit) => visited(visit, vhost)))),
    h("p", { class: "muted below" }, `Under version ${found.topology_version} of the topology`, query.change ? ", with the change that is tried." : "."),
  ];
}

function listed(vhost, queues) {
  return queues.map((one, place) => [place ? ", " : "", object("queue", vhost, one)]);
}

/** What the change that is tried does to this message. */
function difference(found, vhost) {
  return h(
    "p",
    {},
    found.gained.length || found.lost.length ? null : "The change makes no difference to it.",
    found.gained.length ? ["By the change it comes to ", listed(vhost, found.gained), ". "] : null,
    found.lost.length ? [state("warn", "By the change it no longer comes to "), " ", listed(vhost, found.lost), "."] : null,
  );
}

/** A message that the address does not say. */
function stated(message, vhost) {
  const properties = Object.entries(message.application_properties ?? {}).map(([name, value]) => `${name} ${brief(value)}`);
  return h(
    "details",
    {},
    h("summary", { dir: "auto" }, "The message: ", h("code", {}, shortened(message.routing_key || "(no key)")), properties.length ? ` ${shortened(properties.join("  ·  "), SHOWN)}` : ""),
    h("p", {}, "Published to ", object("exchange", vhost, message.exchange)),
    code(JSON.stringify(message, null, 2)),
  );
}

function brief(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function whyNot(one, vhost) {
  if (one.reached) return h("p", {}, state("good", "It does reach "), " ", object("queue", vhost, one.queue), ".");
  return [
    h("h2", {}, "Why not ", object("queue", vhost, one.queue)),
    one.causes.map((cause) =>
      h(
        "div",
        { class: "cause" },
        h("div", { dir: "auto" }, cause.message),
        (cause.filters ?? []).map(filterVerdict),
        cause.path.length ? h("small", {}, "the way: ", cause.path.map((link, place) => [place ? ", then " : "", linkWords(link)])) : null,
      ),
    ),
    one.further_causes ? h("small", {}, `and ${counted(one.further_causes, "further cause")}`) : null,
  ];
}

function linkWords(link) {
  const name = link.kind === "binding" ? (link.id ? `binding ${link.id}` : "the default binding") : `${spoken(link.kind)} ${link.name ?? ""}`;
  return [name, " from ", h("b", { dir: "auto" }, link.source || "(default exchange)"), " to ", h("b", { dir: "auto" }, link.destination), link.routing_key ? [", key ", h("code", { dir: "auto" }, link.routing_key)] : ""];
}

/** A filter with the parts that kept it from being true marked in it, and a tree of all its parts. */
export function filterVerdict(filter) {
  return h(
    "div",
    { class: "judged" },
    h("div", {}, state(filter.result === "true" ? "good" : "off", filter.result), " ", h("code", { dir: "auto" }, marked(filter))),
    filter.culprits.map((one) => h("small", { dir: "auto" }, one.message)),
    filter.tree
      ? h(
          "details",
          { class: "parts" },
          h("summary", {}, "Every part of it"),
          h("ul", { class: "trace" }, part(filter.tree)),
        )
      : null,
  );
}

function marked(filter) {
  const culprit = filter.culprits[0]?.expression;
  const at = culprit ? filter.filter.indexOf(culprit) : -1;
  if (at < 0) return filter.filter;
  return [filter.filter.slice(0, at), h("mark", { class: "culprit" }, culprit), filter.filter.slice(at + culprit.length)];
}

/**
 * A part of a filter with its value and why; what is made of parts can be opened, and is where it is not true, or what
 * NOT turns.
 */
function part(one, opened = false) {
  const inner = (one.parts ?? []).filter((each) => each.kind !== "literal");
  const said = [
    h("code", { dir: "auto" }, one.text),
    " ",
    one.kind === "condition" ? state(RESULTS[one.value] ?? "off", one.value) : h("code", { class: "value", dir: "auto" }, one.value === null ? "missing" : brief(one.value)),
    one.why ? h("small", { dir: "auto" }, ` ${one.why}`) : null,
  ];
  if (!inner.length) return h("li", {}, said);
  const open = opened || one.value !== "true";
  return h("li", {}, h("details", { open: open ? true : null }, h("summary", {}, said), h("ul", { class: "trace" }, inner.map((each) => part(each, open && inner.length === 1)))));
}

function visited(visit, vhost) {
  return h(
    "li",
    { "data-at": `visit ${visit.exchange}`, tabindex: "-1" },
    h("div", {}, h("b", {}, `${visit.number}. `), `${visit.type} exchange `, object("exchange", vhost, visit.exchange), ", key ", visit.keys.map((key, place) => [place ? ", " : "", h("code", { dir: "auto" }, key || "(empty)")])),
    h(
      "ul",
      {},
      visit.choice ? h("li", { class: "muted", dir: "auto" }, `${visit.choice.hashed} hashes to ${visit.choice.hash}: bucket ${visit.choice.bucket} of ${visit.choice.buckets}`) : null,
      visit.steps.map((step) => taken(step, vhost)),
      visit.further_steps ? h("li", { class: "muted" }, `and ${counted(visit.further_steps, "further step")}`) : null,
      (visit.missed ?? []).length ? missed(visit, vhost) : null,
      visit.unmatched && !(visit.missed ?? []).length ? h("li", { class: "muted" }, `${counted(visit.unmatched, "binding")} did not match`) : null,
      visit.not_evaluated ? h("li", { class: "muted" }, `${counted(visit.not_evaluated, "binding")} not looked at`) : null,
    ),
  );
}

/** Bindings that did not match, each with its word or header. */
function missed(visit, vhost) {
  return h(
    "li",
    {},
    h(
      "details",
      { class: "muted" },
      h("summary", {}, `${counted(visit.unmatched, "binding")} did not match`),
      h(
        "ul",
        {},
        visit.missed.map((one) =>
          h("li", { "data-at": at(visit.exchange, one), tabindex: "-1" }, h("code", { dir: "auto" }, one.routing_key || "(empty)"), " to ", object(one.destination_type, vhost, one.destination), ": ", h("span", { dir: "auto" }, one.message)),
        ),
        visit.unmatched > visit.missed.length ? h("li", {}, `and ${counted(visit.unmatched - visit.missed.length, "further binding")}`) : null,
      ),
    ),
  );
}

/** What a place in the steps is called, for the picture to lead there. */
function at(exchange, link) {
  return `link ${JSON.stringify([exchange, link.destination_type, link.destination])}`;
}

function changed(one) {
  const shown = (value) => (value === null ? "nothing" : JSON.stringify(value).slice(0, SHOWN));
  return h("div", {}, h("code", { dir: "auto" }, one.field), ": ", h("code", { dir: "auto" }, shown(one.before)), " → ", h("code", { dir: "auto" }, shown(one.after)));
}

function taken(step, vhost) {
  const [kind, words] = VERDICTS[step.verdict];
  return h(
    "li",
    { class: kind === "good" ? "taken" : "stopped", "data-at": at(step.source, step), tabindex: "-1" },
    state(kind, words),
    " ",
    object(step.destination_type, vhost, step.destination),
    step.kind === "binding" ? [" by key ", h("code", { dir: "auto" }, step.routing_key || "(empty)")] : [" by ", spoken(step.kind), " ", step.name ?? ""],
    step.transform ? h("div", {}, step.transform.changes.map(changed)) : null,
    step.filters.map(filterVerdict),
  );
}
