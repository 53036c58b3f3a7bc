/** The overview: is it running, what changed, how much is where. */

import { to } from "../address.js";
import { ask, path } from "../api.js";
import { h } from "../dom.js";
import { fact, lag, named, object, panel, state, table, time } from "../parts.js";
import { rateOf, spark, stageBar } from "../plots.js";
import { bytes, counted, lasting, number, perSecond, spoken } from "../words.js";
import { version } from "./history.js";

/** Batches that a stream's rate is told of. */
const BATCHES = 30;
/** Seconds from which on a stream counts as behind. */
const BEHIND = 60;
const ROWS = 12;
/** Milliseconds in which the panels of the page share an answer. */
const SHARED = 2_000;

export function overview() {
  const load = shared((live, signal) => ask(path("status"), { query: { batches: BATCHES }, live, signal }));
  return {
    title: "Overview",
    content: [
      h("h1", {}, "Overview"),
      panel({ class: "bare", load, hidden: true, view: (found) => [health(found.streams), numbers(found)] }),
      h("div", { class: "halves" }, changes(), fullest()),
      panel({ title: "Streams", load, hidden: true, view: ({ streams }) => (streams.length ? streamTable(streams) : firstSteps()) }),
      h("div", { class: "halves" }, noQueue(load), notRead(load)),
    ],
  };
}

/** One answer for all panels that ask at about the same time. */
function shared(load) {
  let last;
  return (live, signal) => {
    if (!last || Date.now() - last.at > SHARED) last = { at: Date.now(), answer: load(live, signal) };
    return last.answer;
  };
}

function names(streams) {
  const shown = streams.slice(0, 3).map((one) => one.stream).join(", ");
  return streams.length > 3 ? `${shown} and ${number(streams.length - 3)} more` : shown;
}

/** What keeps a stream from its work, in few words. */
function waits(one) {
  return one.waiting ? `, waiting: ${one.waiting.reason.split(":")[0]}` : "";
}

/** The streams in a sentence: "3 streams, 1 behind by 4 minutes: orders, waiting: no executor." */
function sentence(streams) {
  const failed = streams.filter((one) => one.state === "failed");
  const behind = streams.filter((one) => !failed.includes(one) && (one.lag?.seconds ?? 0) >= BEHIND);
  const waiting = streams.filter((one) => one.waiting && !behind.includes(one));
  const others = streams.filter((one) => one.wrong.length && ![failed, behind, waiting].some((named) => named.includes(one)));
  const parts = [];
  if (failed.length) parts.push(`${number(failed.length)} failed: ${names(failed)}`);
  if (behind.length) {
    const longest = Math.max(...behind.map((one) => one.lag.seconds));
    parts.push(`${number(behind.length)} behind by ${lasting(longest)}: ${names(behind)}${behind.length === 1 ? waits(behind[0]) : ""}`);
  }
  if (waiting.length) parts.push(`${number(waiting.length)} to begin: ${names(waiting)}${waits(waiting[0])}`);
  if (others.length) parts.push(`${number(others.length)} to look at: ${names(others)}`);
  return { kind: failed.length ? "bad" : parts.length ? "warn" : "good", words: parts.join("; ") || "all well" };
}

function health(streams) {
  if (!streams.length) return h("p", { class: "health" }, state("off", "No stream has run yet."));
  const { kind, words } = sentence(streams);
  return [
    h("p", { class: "health" }, state(kind, `${counted(streams.length, "stream")}, ${words}.`)),
    streams.some((one) => one.wrong.length)
      ? h(
          "ul",
          { class: "wrong" },
          streams.flatMap((one) => one.wrong.map((said) => h("li", {}, h("b", { dir: "auto" }, one.stream), ": ", said, "."))),
        )
      : null,
  ];
}

/** What there is, in numbers. */
function numbers({ topology, held }) {
  return h(
    "dl",
    { class: "facts" },
    fact("Exchanges", number(topology.exchanges)),
    fact("Bindings", number(topology.bindings)),
    fact("Queues", number(topology.queues)),
    fact("Messages in queues", number(held.messages)),
    fact("Size", bytes(held.bytes)),
    fact("Last change of a queue", time(held.changed_at)),
  );
}

function firstSteps() {
  return h(
    "p",
    { class: "empty" },
    "A job reads records, routes them as messages, and writes one table for each queue. Start one with ",
    h("code", {}, "bindery route"),
    " or on the page ",
    h("a", { href: to(["jobs"]) }, "Jobs"),
    "; it shows up here.",
  );
}

function streamTable(streams) {
  return table({
    caption: "Streams",
    rows: streams,
    key: (one) => one.stream,
    columns: [
      { title: "Stream", cell: (one) => (one.state === "no job" ? h("b", { dir: "auto" }, one.stream) : named(one.stream, to(["jobs", one.stream]))) },
      { title: "State", cell: (one) => jobState(one) },
      { title: "Rate, newest batches", cell: (one) => rate(one) },
      { title: "Lag", cell: (one) => lag(one.lag) },
      { title: "Last batch", cell: (one) => time(one.committed_at) },
      { title: "By stage", cell: (one) => (one.last_batch ? stageBar(one.last_batch) : "–") },
      { title: "Messages", number: true, cell: (one) => number(one.records) },
      { title: "Copies", number: true, cell: (one) => number(one.copies) },
    ],
  });
}

function jobState(one) {
  const kinds = { running: "good", idle: "good", starting: "good", failed: "bad" };
  return state(one.wrong.length && one.state !== "failed" ? "warn" : kinds[one.state] ?? "off", one.state);
}

function rate(one) {
  if (!one.newest.length) return "–";
  const sizes = one.newest.map((batch) => batch.records).reverse();
  const words = `${counted(sizes.length, "batch", "batches")} of ${number(Math.min(...sizes))} to ${number(Math.max(...sizes))} messages`;
  return h("span", { class: "rate" }, spark(sizes, words), h("span", { title: one.rows_per_second ? `routed at ${perSecond(one.rows_per_second)}` : null }, perSecond(rateOf(one.newest))));
}

function fullest() {
  const query = {
    page: 1,
    page_size: 8,
    sort: "messages",
    sort_reverse: true,
    columns: "name,vhost,messages,message_bytes,idle_since",
  };
  return panel({
    title: "Fullest queues",
    aside: h("a", { href: to(["queues"]) }, "all queues"),
    load: (live, signal) => ask(path("queues"), { query, live, signal }),
    empty: "There is no queue yet.",
    view: (list) =>
      list.items.length
        ? table({
            caption: "Fullest queues",
            rows: list.items,
            key: (one) => `${one.vhost}\n${one.name}`,
            columns: [
              { title: "Queue", cell: (one) => object("queue", one.vhost, one.name) },
              { title: "Messages", number: true, cell: (one) => number(one.messages) },
              { title: "Size", number: true, cell: (one) => bytes(one.message_bytes) },
              { title: "Last change", cell: (one) => (one.messages ? time(one.idle_since) : "–") },
            ],
          })
        : null,
  });
}

function changes() {
  return panel({
    title: "Changes of the topology",
    aside: h("a", { href: to(["history"]) }, "the history"),
    load: (live, signal) => ask(path("topology", "versions"), { query: { limit: 8 }, live, signal }),
    empty: "Nothing has changed yet.",
    hidden: true,
    view: ({ versions }) => (versions.length ? h("ol", { class: "log" }, versions.map(version)) : null),
  });
}

function noQueue(load) {
  return panel({
    title: "Reached no queue",
    load,
    hidden: true,
    empty: "Every message of a stream has reached a queue.",
    view: ({ streams }) => {
      const rows = streams
        .flatMap((one) => Object.entries(one.reasons).map(([reason, messages]) => ({ one, reason, messages })))
        .sort((one, other) => other.messages - one.messages);
      return rows.length
        ? counts("Reached no queue", rows, [
            { title: "Reason", cell: ({ one, reason }) => h("a", { href: to(["unroutable", one.vhost ?? "/"], { reason }) }, spoken(reason)) },
            { title: "Stream", cell: ({ one }) => named(one.stream) },
          ])
        : null;
    },
  });
}

function notRead(load) {
  return panel({
    title: "Bodies that filters could not read",
    load,
    hidden: true,
    empty: "None: each body that a filter asked for could be read.",
    view: ({ streams }) => {
      const rows = streams.flatMap((one) => one.unparsable).sort((one, other) => other.messages - one.messages);
      return rows.length
        ? counts("Bodies that filters could not read", rows, [
            { title: "At", cell: (one) => [one.kind, " ", object(one.kind, one.vhost, one.name)] },
            { title: "Why", cell: (one) => spoken(one.reason.replaceAll("-", "_")) },
          ])
        : null;
    },
  });
}

function counts(caption, rows, columns) {
  return [
    table({ caption, rows: rows.slice(0, ROWS), columns: [...columns, { title: "Messages", number: true, cell: ({ messages }) => number(messages) }] }),
    rows.length > ROWS ? h("p", { class: "muted" }, `and ${number(rows.length - ROWS)} more`) : null,
  ];
}
