/** What lint says of a vhost, and beside each exchange and queue. */

import { to } from "../address.js";
import { ask, path, Problem } from "../api.js";
import { h } from "../dom.js";
import { DEFAULT_EXCHANGE, named, panel, state } from "../parts.js";
import { counted, number } from "../words.js";
import { sections } from "./sections.js";
import { vhostChoice } from "./vhosts.js";

const KINDS = { error: "bad", warning: "warn", info: "off" };
const PLURAL = { error: "errors", warning: "warnings", info: "remarks" };
const SINGULAR = { error: "error", warning: "warning", info: "remark" };

/** "2 warnings" with the sign of the gravest; null without any. */
function mark(severities, href) {
  const gravest = Object.keys(KINDS).find((one) => severities?.[one]);
  if (!gravest) return null;
  const said = Object.keys(KINDS).filter((one) => severities[one]).map((one) => counted(severities[one], SINGULAR[one], PLURAL[one])).join(", ");
  const shown = state(KINDS[gravest], h("span", { class: "unseen" }, said));
  shown.setAttribute("title", said);
  return href ? h("a", { class: "mark", href }, shown) : h("span", { class: "mark" }, shown);
}

/** Findings of objects, {kind, vhost, name}: gives a function from an object to its severities. */
export async function marksOf(objects, { live, signal }) {
  if (!objects.length) return () => undefined;
  const found = await ask(path("lint"), { method: "POST", body: { objects }, live, signal });
  const key = ({ kind, vhost, name }) => JSON.stringify([kind, vhost, name]);
  const by = new Map(found.map((one) => [key(one), one.severities]));
  return (object) => by.get(key(object));
}

/** For listPage: a mark beside the name of each exchange or queue that something is said of. */
export function markedLists(kind) {
  return async (items, live, signal) => {
    try {
      const severities = await marksOf(items.map(({ vhost, name }) => ({ kind, vhost, name })), { live, signal });
      return ({ vhost, name }) => mark(severities({ kind, vhost, name }));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      // a list is worth seeing without its marks, too
      return () => null;
    }
  };
}

/** A part of an object's page: what lint says of it, and of what leads to it and from it. Without findings: nothing. */
export function findings(kind, vhost, name) {
  const part = panel({
    title: "What lint says",
    class: "findings",
    hidden: true,
    load: (live, signal) => ask(path("lint", vhost), { query: { kind, name: name || DEFAULT_EXCHANGE }, live, signal }),
    view: (report) => {
      part.hidden = !report.findings.length;
      return listed(report, { kind, name });
    },
  });
  part.hidden = true;
  return part;
}

function listed(report, here) {
  return h(
    "ul",
    { class: "lint" },
    report.findings.map((one, place) =>
      h(
        "li",
        { key: `${one.code}\n${one.subject.name}\n${one.subject.id ?? ""}\n${place}` },
        h(
          "details",
          {},
          h("summary", {}, state(KINDS[one.severity], one.name), h("span", {}, isHere(one.subject, here) ? null : [named(one.subject.name), ": "], one.message)),
          isHere(one.subject, here) ? null : h("p", {}, "Of ", subject(one.subject)),
          (report.rules[one.code] ?? [one.explanation]).map((paragraph) => h("p", {}, prose(paragraph))),
          one.related.length ? h("p", {}, "With it: ", one.related.map((other, number_) => [number_ ? ", " : "", subject(other)])) : null,
          h("p", { class: "muted" }, `${one.code}, ${one.severity}`),
        ),
      ),
    ),
  );
}

function isHere(one, here) {
  return here !== undefined && one.kind === here.kind && one.name === here.name;
}

/** A subject, as a link where it has a page. */
function subject({ kind, vhost, name }) {
  if (kind === "exchange") return named(name, to(["exchanges", vhost, name || DEFAULT_EXCHANGE]));
  if (kind === "queue") return named(name, to(["queues", vhost, name]));
  if (kind === "policy") return ["policy ", named(name, to(["policies", vhost], { name }))];
  if (kind === "divert") return ["divert ", named(name, to(["diverts", vhost], { name }))];
  if (kind === "binding") {
    const [source] = name.split(" -> ");
    return ["binding ", named(name, to(["exchanges", vhost, source || DEFAULT_EXCHANGE]))];
  }
  return [kind, " ", named(name)];
}

/** Text of the docs: what stands in backticks is code. */
function prose(text) {
  return text.split("`").map((part, place) => (place % 2 ? h("code", { dir: "auto" }, part) : part));
}

export function lint([vhost = "/"], query) {
  return {
    title: "Findings",
    content: [
      h("div", { class: "heading" }, h("h1", {}, "What lint says"), vhostChoice("lint", vhost)),
      sections(vhost, "lint"),
      panel({
        class: "bare",
        load: (live, signal) => ask(path("lint", vhost), { live, signal }),
        view: (report) => {
          const shown = query.severity ? { ...report, findings: report.findings.filter((one) => one.severity === query.severity) } : report;
          const all = Object.values(report.severities).reduce((sum, one) => sum + one, 0);
          if (!all) return [h("p", { class: "health" }, state("good", "Nothing to say: every binding, filter and queue does something.")), h("p", { class: "muted" }, `Version ${report.topology_version} of the topology.`)];
          return [
            h(
              "p",
              { class: "health chips" },
              Object.keys(KINDS)
                .filter((one) => report.severities[one])
                .map((one) => h("a", { class: "button", "aria-current": query.severity === one ? "true" : null, href: to(["lint", vhost], query.severity === one ? {} : { severity: one }) }, state(KINDS[one], counted(report.severities[one], SINGULAR[one], PLURAL[one])))),
            ),
            listed(shown),
            all > report.findings.length ? h("p", { class: "muted" }, `Of each code the first ${number(report.listed_per_code)} are listed; there are ${number(all)} findings.`) : null,
          ];
        },
      }),
    ],
  };
}
