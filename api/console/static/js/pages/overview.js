/** The overview: is it running, what changed, how much is where. */

import { to } from "../address.js";
import { ask, path } from "../api.js";
import { h } from "../dom.js";
import { named, object, panel, state, table, time } from "../parts.js";
import { bytes, counted, duration, number, spoken } from "../words.js";
import { version } from "./history.js";

export function overview() {
  return { title: "Overview", content: [h("h1", {}, "Overview"), streams(), h("div", { class: "halves" }, fullest(), changes())] };
}

function streams() {
  return panel({
    class: "bare",
    load: (live, signal) => ask(path("status"), { live, signal }),
    view: (status) => [health(status.streams), status.streams.length ? streamTable(status.streams) : firstSteps()],
    hidden: true,
  });
}

function health(streams) {
  const wrong = streams.filter((one) => one.wrong.length);
  if (!streams.length) return h("p", { class: "health" }, state("off", "No stream has run yet."));
  const words = `${counted(streams.length, "stream")}, `;
  if (!wrong.length) return h("p", { class: "health" }, state("good", words + "all well."));
  return [
    h("p", { class: "health" }, state("warn", words + `${wrong.length} to look at.`)),
    h(
      "ul",
      { class: "wrong" },
      wrong.flatMap((one) => one.wrong.map((sentence) => h("li", {}, h("b", { dir: "auto" }, one.stream), ": ", sentence, "."))),
    ),
  ];
}

function firstSteps() {
  return h(
    "p",
    { class: "empty" },
    "A job reads records, routes them as messages, and writes one table for each queue. Start one with ",
    h("code", {}, "bindery route"),
    " or ",
    h("code", {}, "bindery jobs submit"),
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
      { title: "Records", number: true, cell: (one) => number(one.records) },
      { title: "Copies", number: true, cell: (one) => number(one.copies) },
      { title: "No queue", number: true, cell: (one) => (one.unroutable ? h("a", { href: to(["unroutable", one.vhost ?? "/"]) }, number(one.unroutable)) : "0") },
      { title: "Records/s", number: true, cell: (one) => (one.rows_per_second ? number(Math.round(one.rows_per_second)) : "–") },
      { title: "Last batch", cell: (one) => time(one.committed_at) },
      { title: "By stage", cell: (one) => stages(one.last_batch?.milliseconds) },
    ],
  });
}

function jobState(one) {
  const kinds = { running: "good", idle: "good", starting: "good", failed: "bad" };
  return state(one.wrong.length && one.state !== "failed" ? "warn" : kinds[one.state] ?? "off", one.state);
}

/** The stages of a batch as parts of one bar; the words are for those who do not see it. */
function stages(milliseconds) {
  const spent = Object.entries(milliseconds ?? {}).filter(([, value]) => value > 0);
  const whole = spent.reduce((sum, [, value]) => sum + value, 0);
  if (!whole) return "–";
  const words = spent.map(([stage, value]) => `${spoken(stage)} ${duration(value)}`).join(", ");
  let left = 0;
  return h(
    "span",
    { class: "stages", title: words },
    h(
      "svg",
      { viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img", "aria-label": words },
      spent.map(([, value], place) => {
        const width = (100 * value) / whole;
        const part = h("rect", { x: left, y: 0, width: Math.max(width - 0.6, 0.4), height: 8, class: `series-${place % 6}` });
        left += width;
        return part;
      }),
    ),
    duration(whole),
  );
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
