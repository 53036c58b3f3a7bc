/** The history of the topology: who changed what, what a version changed, and the way back. */

import { to } from "../address.js";
import { ask, path } from "../api.js";
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
  if (all === 1 && changes.length) return `${changes[0].kind} ${shortened(changes[0].name)} ${changes[0].change}`;
  return numbers.map(({ change, kind, count }) => `${counted(count, kind)} ${change}`).join(", ") || "nothing";
}

/** A version in a list. */
export function version(one) {
  return h(
    "li",
    { key: one.version },
    h("a", { class: "mono", href: to(["history", one.version]) }, one.version),
    h("span", { dir: "auto" }, one.reason || whatChanged(one)),
    h("small", {}, h("b", { dir: "auto" }, one.author || "unknown"), " ", time(one.timestamp)),
  );
}

export function history(_, query) {
  return {
    title: "History",
    content: [
      h("div", { class: "heading" }, h("h1", {}, "History of the topology")),
      panel({
        class: "bare",
        load: (live, signal) => ask(path("topology", "versions"), { query: { limit: VERSIONS, before: query.before }, live, signal }),
        view: ({ versions }) => {
          const last = versions.at(-1)?.version;
          return [
            h("ol", { class: "log" }, versions.map(version)),
            h("div", { class: "foot" }, h("span", {}), last > 0 ? h("a", { href: to(["history"], { before: last }) }, "older →") : null),
          ];
        },
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
        ? h("div", { class: "actions" }, action("Roll back to this …", () => rollback(found.version, newest), { kind: "danger" }))
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

function rollback(target, newest) {
  const told = h("div", {}, "Comparing …");
  told.isOwn = true;
  ask(path("topology", "diff"), { query: { from: newest, to: target, limit: CHANGES } }).then(
    (found) =>
      told.replaceChildren(
        h("p", {}, h("b", {}, found.total ? whatChanged(found) : "Nothing differs."), " Queues that come back are empty; queues that go are emptied. The way back is a new version itself."),
        ...found.changes.slice(0, 10).map((one) => h("div", {}, one.change, " ", one.kind, " ", named(one.name))),
        found.total > 10 ? h("small", {}, `and ${number(found.total - 10)} more`) : "",
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
