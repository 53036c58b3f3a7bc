/** Unroutable messages: by reason and key, the newest ones, and another try. */

import { to } from "../address.js";
import { ask, path } from "../api.js";
import { h } from "../dom.js";
import { action, code, dialog, fact, named, object, panel, state, table, time } from "../parts.js";
import { counted, number, spoken } from "../words.js";
import { vhostChoice } from "./vhosts.js";

const KEYS = 20;
const SHOWN = 20;
/** Reasons of records that never were messages: they cannot be routed again. */
const UNREADABLE = new Set(["invalid_record", "too_large"]);

export function unroutable([vhost = "/"], query) {
  const chosen = { reason: query.reason, exchange: query.exchange, key: query.key };
  const body = panel({
    class: "bare",
    every: 0,
    load: (live, signal) => ask(path("unroutable", vhost), { query: { ...chosen, top: KEYS, show: SHOWN }, live, signal }),
    view: (found) => (found.rows ? shown(vhost, chosen, found, () => body.again()) : null),
    empty: Object.values(chosen).some(Boolean) ? "No row is like that." : "Every message has reached a queue.",
  });
  return { title: "Unroutable", content: [heading(vhost), narrowed(vhost, chosen), body] };
}

function heading(vhost) {
  return h("div", { class: "heading" }, h("h1", {}, "Unroutable messages"), vhostChoice("unroutable", vhost));
}

function narrowed(vhost, chosen) {
  const stated = Object.entries(chosen).filter(([, value]) => value !== undefined);
  if (!stated.length) return null;
  return h(
    "p",
    {},
    "Only ",
    stated.map(([name, value], place) => [place ? ", " : "", `${name} `, h("code", { dir: "auto" }, value || "(empty)")]),
    ". ",
    h("a", { href: to(["unroutable", vhost]) }, "Show all"),
  );
}

function shown(vhost, chosen, found, again) {
  const left = found.rows - found.redriven;
  return [
    h(
      "p",
      { class: "health" },
      left ? state("warn", `${counted(left, "row")} reached no queue.`) : state("good", "All of them were redriven."),
      found.redriven ? h("span", { class: "muted" }, ` ${counted(found.redriven, "row")} redriven since.`) : null,
    ),
    left ? h("div", { class: "actions" }, action("Redrive …", () => redrive(vhost, chosen, again), { kind: "primary" })) : null,
    h("h2", {}, "By reason"),
    table({
      caption: "By reason",
      rows: found.reasons,
      columns: [
        { title: "Reason", cell: (one) => h("a", { href: to(["unroutable", vhost], { ...chosen, reason: one.reason }) }, spoken(one.reason)) },
        { title: "What became of them", cell: (one) => spoken(one.disposition) },
        { title: "Rows", number: true, cell: (one) => number(one.rows) },
      ],
    }),
    h("h2", {}, "By key"),
    table({
      caption: "By key",
      rows: found.keys,
      columns: [
        { title: "Exchange", cell: (one) => object("exchange", vhost, one.exchange) },
        {
          title: "Routing key",
          cell: (one) => h("a", { class: "mono", dir: "auto", href: to(["unroutable", vhost], { ...chosen, exchange: one.exchange, key: one.routing_key }) }, one.routing_key || "(empty)"),
        },
        { title: "Reason", cell: (one) => spoken(one.reason) },
        { title: "Rows", number: true, cell: (one) => number(one.rows) },
      ],
    }),
    found.distinct_keys > found.keys.length ? h("p", { class: "muted" }, `and ${counted(found.distinct_keys - found.keys.length, "further key")}`) : null,
    h("h2", {}, "The newest"),
    h("ol", { class: "messages" }, (found.newest ?? []).map((row) => sample(vhost, row))),
  ];
}

function sample(vhost, row) {
  return h(
    "li",
    { key: row.row },
    h(
      "details",
      {},
      h("summary", {}, h("code", { dir: "auto" }, row.routing_key || "(no key)"), h("span", { class: "brief", dir: "auto" }, `${spoken(row.reason)}: ${row.detail}`), time(row.routed_at)),
      h(
        "dl",
        { class: "facts" },
        fact("Row", h("code", {}, row.row)),
        row.exchange === null ? null : fact("Exchange", object("exchange", vhost, row.exchange)),
        row.column ? fact("Column", named(row.column)) : null,
        row.value ? fact("Value", h("code", { dir: "auto" }, row.value)) : null,
        Object.entries(row.source).map(([name, value]) => fact(spoken(name), h("span", { dir: "auto" }, String(value)))),
      ),
      row.raw === null ? null : code(row.raw),
      row.fix ? h("p", {}, row.fix) : null,
      UNREADABLE.has(row.reason) ? null : h("div", { class: "actions" }, h("a", { class: "button", href: to(["try"], { vhost, row: row.row }) }, "Why?")),
    ),
  );
}

async function redrive(vhost, chosen, again) {
  const body = Object.fromEntries(Object.entries({ exchange: chosen.exchange, key: chosen.key, reasons: chosen.reason ? [chosen.reason] : undefined }).filter(([, value]) => value !== undefined));
  const where = [...["unroutable", vhost], "redrive"];
  const told = h("div", {}, "Counting what would reach a queue now …");
  told.isOwn = true;
  ask(path(...where), { method: "POST", body: { ...body, dry_run: true } }).then(
    (would) => told.replaceChildren(effect(would)),
    (problem) => told.replaceChildren(h("p", {}, problem.message)),
  );
  dialog({
    title: "Redrive",
    body: [told, h("p", { class: "muted" }, "Each row is routed again under the present topology, exactly once; what still reaches nothing stays here.")],
    confirm: "Redrive",
    work: async () => {
      const done = await ask(path(...where), { method: "POST", body });
      again();
      return `${counted(done.redriven, "row")} redriven`;
    },
  });
}

function effect(would) {
  if (!would.redriven) return h("p", {}, `None of ${counted(would.chosen, "row")} would reach a queue: the topology sends them nowhere yet.`);
  return h(
    "div",
    {},
    h("p", {}, h("b", {}, `${number(would.redriven)} of ${counted(would.chosen, "row")} would reach a queue:`)),
    h("ul", { class: "arguments" }, Object.entries(would.queues).map(([queue, rows]) => h("li", {}, named(queue), " ", number(rows)))),
  );
}
