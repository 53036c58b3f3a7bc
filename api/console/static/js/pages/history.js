/** The history of the topology: who changed what, what a version changed, and the way back. */

import { go, to } from "../address.js";
import { ask, path } from "../api.js";
import { changesView } from "../changes.js";
import { h } from "../dom.js";
import { action, code, dialog, named, notice, panel, time } from "../parts.js";
import { counted, number, shortened } from "../words.js";
import { crumbs } from "./exchanges.js";

const VERSIONS = 50;
const CHANGES = 100;

/** The only change by its name, several by their numbers. */
function whatChanged({ counts, changes }) {
  const numbers = Object.entries(counts).flatMap(([change, kinds]) => Object.entries(kinds).map(([kind, count]) => ({ change, kind, count })));
  const all = numbers.reduce((sum, one) => sum + one.count, 0);
  if (all === 1 && changes.length) return `${nameOf(changes[0])} ${changes[0].change}`;
  return numbers.map(({ change, kind, count }) => `${counted(count, kind)} ${change}`).join(", ") || "nothing";
}

/** An object by its name, a binding, whose name is a number, by its ends. */
function nameOf({ kind, name, source, destination, routing_key: key }) {
  if (source === undefined) return `${kind} ${shortened(name)}`;
  return `binding ${shortened(source) || "(default exchange)"} → ${shortened(destination)}${key ? ` by ${shortened(key)}` : ""}`;
}

/** A version in a list; with the session of somebody who may, the way back to it. */
export function version(one, { session, newest } = {}) {
  return h(
    "li",
    { key: one.version },
    h("a", { class: "mono", href: to(["history", one.version]) }, one.version),
    h("span", { dir: "auto" }, one.reason || whatChanged(one)),
    session?.roles.includes("administrator") && one.version !== newest ? action("Roll back …", () => rollback(one.version, newest), { kind: "small" }) : null,
    h("small", {}, h("b", { dir: "auto" }, one.author || "unknown"), " ", time(one.timestamp)),
  );
}

/** Kinds of objects that have a history. */
const KINDS = ["exchange", "queue", "binding", "divert", "policy", "vhost"];

export function history(_, query, session) {
  if (query.from !== undefined && query.to !== undefined) return between(query, session);
  const { author, kind, vhost, name, before } = query;
  return {
    title: "History",
    content: [
      h("div", { class: "heading" }, h("h1", {}, "History of the topology")),
      // the list says why there is none for others
      session.roles.includes("monitoring") ? filters(query) : null,
      panel({
        class: "bare",
        load: (live, signal) => ask(path("topology", "versions"), { query: { limit: VERSIONS, before, author, kind, vhost, name }, live, signal }),
        view: (found) => {
          const { versions, newest, looked_back_to: last } = found;
          return [
            versions.length
              ? h("ol", { class: "log" }, versions.map((one) => version(one, { session, newest })))
              : h("p", { class: "empty" }, last > 0 ? `No such change in versions ${number(last)} to ${number(newest)}.` : "No such change."),
            h("div", { class: "foot" }, h("span", {}), last > 0 ? h("a", { href: to(["history"], { ...query, before: last }) }, "older →") : null),
          ];
        },
      }),
    ],
  };
}

/** Which versions are listed, and two that are compared. */
function filters(query) {
  const author = h("input", { type: "search", value: query.author ?? "", placeholder: "by anybody", "aria-label": "Changes by", spellcheck: "false" });
  const kind = h("select", { "aria-label": "Kind of object" }, h("option", { value: "" }, "of anything"), KINDS.map((one) => h("option", { value: one }, `of a ${one}`)));
  const name = h("input", { value: query.name ?? "", placeholder: "of any name", "aria-label": "Name of the object", spellcheck: "false" });
  kind.value = query.kind ?? "";
  const [from, until] = ["from", "to"].map((end) => h("input", { class: "short", value: query[end] ?? "", inputmode: "numeric", pattern: "[0-9]+", required: true, "aria-label": `Compare ${end} version` }));
  return h(
    "div",
    { class: "halves filters" },
    h(
      "form",
      { class: "filter", onsubmit: (event) => (event.preventDefault(), go(["history"], { author: author.value, kind: kind.value, name: name.value, vhost: name.value ? query.vhost : undefined })) },
      author,
      kind,
      name,
      h("button", { class: "button" }, "Show"),
    ),
    h(
      "form",
      { class: "filter compare", onsubmit: (event) => (event.preventDefault(), go(["history"], { from: from.value, to: until.value })) },
      h("span", {}, "Compare"),
      from,
      h("span", {}, "with"),
      until,
      h("button", { class: "button" }, "Compare"),
    ),
  );
}

/** What lies between two versions. */
function between(query, session) {
  const { from, to: until, vhost } = query;
  return {
    title: `Versions ${from} and ${until}`,
    content: [
      crumbs("history", "History", `from version ${from} to ${until}`),
      // the list says why there is none for others
      session.roles.includes("monitoring") ? filters(query) : null,
      panel({
        class: "bare",
        every: 0,
        load: (live, signal) => ask(path("topology", "diff"), { query: { from, to: until, vhost, limit: CHANGES }, live, signal }),
        view: (found) => [
          h("p", {}, found.total ? whatChanged(found) : "Nothing differs.", " ", h("a", { href: to(["history"], { from: until, to: from, vhost }) }, "The other way round")),
          found.changes.map(changed),
          found.total > found.changes.length ? h("p", { class: "muted" }, `and ${counted(found.total - found.changes.length, "further change")}`) : null,
        ],
      }),
    ],
  };
}

export function oneVersion([number_], _, session) {
  const page = panel({
    class: "bare",
    every: 0,
    load: async (live, signal) => {
      const [found, newest] = await Promise.all([
        ask(path("topology", "versions", number_), { query: { limit: CHANGES }, live, signal }),
        ask(path("topology", "versions"), { query: { limit: 1 }, live, signal }),
      ]);
      return { found, newest: newest.newest };
    },
    view: ({ found, newest }) => [
      h("p", {}, h("b", { dir: "auto" }, found.author || "unknown"), " ", time(found.timestamp), found.reason ? [": ", h("span", { dir: "auto" }, found.reason)] : null),
      h("p", { class: "muted" }, whatChanged({ counts: found.counts, changes: found.changes })),
      session.roles.includes("administrator") && found.version !== newest
        ? h(
            "div",
            { class: "actions" },
            action("Roll back to this …", () => rollback(found.version, newest), { kind: "danger" }),
            h("a", { class: "button", href: to(["history"], { from: found.version, to: newest }) }, "Compare with now"),
            h("a", { class: "button", href: to(["replay", "/"], { version: found.version }) }, "Replay under this"),
          )
        : null,
      session.roles.includes("administrator") && found.version === newest && newest > 1
        ? h("div", { class: "actions" }, action("Undo this …", () => rollback(newest - 1, newest), { kind: "danger" }))
        : null,
      found.changes.map(changed),
      found.total > found.changes.length ? h("p", { class: "muted" }, `and ${counted(found.total - found.changes.length, "further change")}`) : null,
    ],
  });
  return { title: `Version ${number_}`, content: [crumbs("history", "History", `version ${number_}`), page] };
}

/** An object before and after, as entries of a definitions document. */
function changed(one) {
  return h(
    "details",
    { class: "change" },
    h("summary", {}, one.change, " ", one.kind, " ", named(one.name), h("small", {}, " in ", one.vhost)),
    h(
      "div",
      { class: "halves" },
      one.before ? h("div", {}, h("small", {}, "before"), code(JSON.stringify(one.before, null, 2))) : null,
      one.after ? h("div", {}, h("small", {}, "after"), code(JSON.stringify(one.after, null, 2))) : null,
    ),
  );
}

/** A dialog that says what going back to a version would do, and does it. */
export function rollback(target, newest) {
  const told = h("div", {}, "Comparing …");
  told.isOwn = true;
  ask(path("topology", "diff"), { query: { from: newest, to: target, limit: CHANGES } }).then(
    (found) =>
      told.replaceChildren(
        h("p", {}, h("b", {}, found.total ? whatChanged(found) : "Nothing differs."), " Queues that come back are empty; queues that go are emptied. The way back is a new version itself."),
        h("div", { class: "planned", tabindex: "0", role: "region", "aria-label": "Plan" }, changesView(found.changes)),
        found.total > found.changes.length ? h("small", {}, `and ${number(found.total - found.changes.length)} more`) : "",
      ),
    (problem) => told.replaceChildren(notice(problem)),
  );
  dialog({
    title: `Roll back to version ${target}`,
    body: told,
    confirm: "Roll back",
    kind: "danger",
    work: async () => {
      const done = await ask(path("topology", "rollback"), { method: "POST", body: { to: target, expected: newest } });
      location.hash = to(["history", done.version]);
      return "rolled back";
    },
  });
}
