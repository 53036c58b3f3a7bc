/** Unroutable messages: by reason and key, the newest ones, and another try. */

import { to } from "../address.js";
import { ask, path, Problem } from "../api.js";
import { fill, h } from "../dom.js";
import { action, code, DEFAULT_EXCHANGE, dialog, fact, named, notice, object, panel, rightsOf, state, table, time } from "../parts.js";
import { counted, number, spoken } from "../words.js";
import { filterVerdict } from "./explained.js";
import { vhostChoice } from "./vhosts.js";

const KEYS = 20;
const SHOWN = 20;
/** Queues that a message is compared with, and causes that are shown of those that came closest. */
const COMPARED = 50;
const CLOSEST = 3;
/** Reasons of records that never were messages: they cannot be routed again. */
const UNREADABLE = new Set(["invalid_record", "too_large"]);

export function unroutable([vhost = "/"], query) {
  const chosen = { reason: query.reason, exchange: query.exchange, key: query.key };
  const body = panel({
    class: "bare",
    every: 0,
    load: async (live, signal) => {
      const [found, rights] = await Promise.all([
        ask(path("unroutable", vhost), { query: { ...chosen, top: KEYS, show: SHOWN }, live, signal }),
        // a redrive of all exchanges needs the right to each of them, this one too
        rightsOf(vhost, chosen.exchange || DEFAULT_EXCHANGE, signal),
      ]);
      return { found, rights };
    },
    view: ({ found, rights }) => (found.rows ? shown(vhost, chosen, found, rights, () => body.again()) : null),
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

function shown(vhost, chosen, found, rights, again) {
  const left = found.rows - found.redriven;
  return [
    h(
      "p",
      { class: "health" },
      left ? state("warn", `${counted(left, "row")} reached no queue.`) : state("good", "All of them were redriven."),
      found.redriven ? h("span", { class: "muted" }, ` ${counted(found.redriven, "row")} redriven since.`) : null,
    ),
    left && rights.write ? h("div", { class: "actions" }, action("Redrive …", () => redrive(vhost, chosen, again), { kind: "primary" })) : null,
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
    h("p", { class: "muted" }, `${counted(found.newest.length, "row")} of ${number(found.rows)}, the last one first. Open one to see what came closest to taking it.`),
    h("ol", { class: "messages" }, found.newest.map((row) => sample(vhost, row))),
  ];
}

function sample(vhost, row) {
  const near = h("div", { class: "why" });
  near.isOwn = true;
  const isRepeat = row.reason === "duplicate";
  const isMessage = !isRepeat && !UNREADABLE.has(row.reason);
  return h(
    "li",
    { key: row.row },
    h(
      "details",
      { ontoggle: (event) => event.currentTarget.open && isMessage && !near.childNodes.length && compare(vhost, row, near) },
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
      isRepeat ? h("div", { class: "actions" }, h("a", { class: "button", href: to(["try"], { vhost, row: row.detail.replace(/^repeats /, "") }) }, "The message that it repeats")) : null,
      isMessage ? [near, h("div", { class: "actions" }, h("a", { class: "button", href: to(["try"], { vhost, row: row.row }) }, "Why?"))] : null,
    ),
  );
}

/** What came closest to taking a message, under the present topology: that is what a redrive would meet. */
async function compare(vhost, row, near) {
  fill(near, h("p", { class: "muted" }, "Looking for what came closest …"));
  try {
    const bindings = await ask(path("exchanges", vhost, row.exchange || DEFAULT_EXCHANGE, "bindings", "source")).catch((error) => {
      // an exchange that is gone leads nowhere
      if (error instanceof Problem && error.status === 404) return [];
      throw error;
    });
    const queues = [...new Set(bindings.filter((one) => one.destination_type === "queue").map((one) => one.destination))].slice(0, COMPARED);
    const { results } = await ask(path("route"), { method: "POST", body: { vhost, row: row.row, queues } });
    fill(near, results.length ? closest(results[0], vhost) : null);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    fill(near, notice(error));
  }
}

function closest(found, vhost) {
  if (found.queues.length) {
    return h("p", {}, state("good", "Under the present topology it reaches "), found.queues.map((queue, place) => [place ? ", " : " ", object("queue", vhost, queue)]), ": a redrive delivers it.");
  }
  const causes = found.why_not
    .flatMap(({ queue, causes: [nearest] }) => (nearest ? [{ queue, ...nearest }] : []))
    .sort((one, other) => distance(one) - distance(other));
  if (!causes.length) return h("p", { class: "muted" }, "No binding of its exchange leads to a queue.");
  return [
    h("p", { class: "muted" }, "What came closest under the present topology:"),
    causes.slice(0, CLOSEST).map((cause) =>
      h("div", { class: "cause" }, h("div", {}, object("queue", vhost, cause.queue), ": ", h("span", { dir: "auto" }, cause.message)), (cause.filters ?? []).flatMap((filter) => filterVerdict(filter))),
    ),
  ];
}

/** How far a message was from a queue: a filter comes after the key, and of keys that is nearer of which more agreed. */
function distance({ filters, matched = 0, asked = 0 }) {
  return filters?.length ? 0 : asked ? 2 - matched / asked : 3;
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
  const still = h(
    "ul",
    { class: "arguments" },
    Object.entries(would.still_unroutable).map(([reason, rows]) => h("li", { class: "muted" }, `${counted(rows, "row")} would stay: ${spoken(reason)}`)),
  );
  if (!would.redriven) return h("div", {}, h("p", {}, `None of ${counted(would.chosen, "row")} would reach a queue: the topology sends them nowhere yet.`), still);
  return h(
    "div",
    {},
    h("p", {}, h("b", {}, `${number(would.redriven)} of ${counted(would.chosen, "row")} would reach a queue:`)),
    h("ul", { class: "arguments" }, Object.entries(would.queues).map(([queue, rows]) => h("li", {}, named(queue), " ", number(rows)))),
    h(
      "ul",
      { class: "arguments" },
      Object.entries(would.backfilled).map(([queue, rows]) => h("li", { class: "muted" }, named(queue), ` ${number(rows)} left out: a backfill has brought them`)),
    ),
    still,
  );
}
