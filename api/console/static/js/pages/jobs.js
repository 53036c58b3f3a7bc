/** Jobs: the list, and one with its progress and its log. */

import { go, to } from "../address.js";
import { ask, path } from "../api.js";
import { fill, h } from "../dom.js";
import { action, code, dialog, fact, field, named, panel, state, table, time } from "../parts.js";
import { counted, duration, number, spoken } from "../words.js";
import { read } from "./bindings.js";
import { crumbs } from "./exchanges.js";

const KINDS = { running: "good", idle: "good", starting: "good", stopping: "warn", failed: "bad" };
const LINES = 200;
const EXAMPLE = `{
  "stream": "orders",
  "source": {"format": "json", "path": "/srv/orders", "schema": "id BIGINT, region STRING"},
  "message": {"exchange": "'orders'", "routing_key": "region"},
  "trigger": "10 seconds"
}`;

export function jobs(_, __, session) {
  const administers = session.roles.includes("administrator");
  return {
    title: "Jobs",
    content: [
      h("div", { class: "heading" }, h("h1", {}, "Jobs"), administers ? action("Submit a job", () => submit(), { kind: "primary" }) : null),
      panel({
        class: "bare",
        load: (live, signal) => ask(path("jobs"), { live, signal }),
        empty: "No job was submitted. A stream that a job of your own cluster runs is on the overview.",
        view: (found) =>
          found.length
            ? table({
                caption: "Jobs",
                rows: found,
                key: (one) => one.stream,
                columns: [
                  { title: "Stream", cell: (one) => named(one.stream, to(["jobs", one.stream])) },
                  { title: "State", cell: (one) => state(KINDS[one.state] ?? "off", one.state) },
                  { title: "Vhost", cell: (one) => named(one.vhost) },
                  { title: "Records", number: true, cell: (one) => number(one.progress?.records) },
                  { title: "Records/s", number: true, cell: (one) => (one.rows_per_second ? number(Math.round(one.rows_per_second)) : "–") },
                  { title: "Error", cell: (one) => (one.error ? one.error.message : "–") },
                ],
              })
            : null,
      }),
    ],
  };
}

function submit() {
  const document = h("textarea", { class: "mono", rows: 14, spellcheck: "false", required: true, value: EXAMPLE });
  dialog({
    title: "Submit a job",
    body: field("The job's document", document, "JSON; the service says what of it is wrong before anything starts"),
    confirm: "Submit",
    work: async () => {
      const body = read(document.value);
      await ask(path("jobs"), { method: "POST", body });
      go(["jobs", body.stream]);
      return "submitted";
    },
  });
}

export function job([stream], _, session) {
  const administers = session.roles.includes("administrator");
  const head = panel({
    class: "bare",
    load: (live, signal) => ask(path("jobs", stream), { live, signal }),
    view: (item) => facts(item, administers, () => head.again()),
  });
  return { title: stream, content: [crumbs("jobs", "Jobs", stream), head, log(stream)] };
}

function facts(item, administers, again) {
  const works = ["running", "idle", "starting", "stopping"].includes(item.state);
  const call = (method, ...more) => async () => {
    await ask(path("jobs", item.stream, ...more), { method });
    again();
  };
  return [
    h("p", { class: "health" }, state(KINDS[item.state] ?? "off", item.state)),
    item.error ? h("div", { class: "notice bad", role: "alert" }, item.error.message, item.error.hint ? ` (${item.error.hint})` : "") : null,
    item.waiting ? h("div", { class: "notice quiet" }, `It waits: ${item.waiting.reason}`) : null,
    h(
      "dl",
      { class: "facts" },
      fact("Vhost", named(item.vhost)),
      fact("Submitted", [h("b", { dir: "auto" }, item.submitted_by), " ", time(new Date(item.submitted_at).toISOString())]),
      fact("Batches", number(item.progress?.batches)),
      fact("Records", number(item.progress?.records)),
      fact("Copies", number(item.progress?.copies)),
      Object.entries(item.progress?.unroutable ?? {}).map(([reason, rows]) => fact(spoken(reason), number(rows))),
      Object.entries(item.lag ?? {}).map(([what, value]) => fact(`Lag: ${spoken(what)}`, typeof value === "number" ? number(value) : JSON.stringify(value))),
    ),
    stages(item.progress?.stages),
    administers
      ? h(
          "div",
          { class: "actions" },
          works ? action("Stop after this batch", call("POST", "stop")) : action("Start again", call("POST", "restart"), { kind: "primary" }),
          works ? action("Restart", call("POST", "restart")) : action("Forget", () => forget(item.stream), { kind: "danger" }),
        )
      : null,
    item.document ? h("details", {}, h("summary", {}, "Its document"), code(JSON.stringify(item.document, null, 2), { copy: true })) : null,
  ];
}

function stages(spent) {
  const rows = Object.entries(spent ?? {});
  if (!rows.length) return null;
  const longest = Math.max(...rows.map(([, one]) => one.seconds));
  return h(
    "div",
    { class: "bars" },
    h("h2", {}, "Time by stage, since the stream began"),
    rows.map(([stage, one], place) =>
      h(
        "div",
        { class: "bar" },
        h("span", {}, spoken(stage)),
        h("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, h("rect", { width: (100 * one.seconds) / longest, height: 8, class: `series-${place % 6}` })),
        h("span", { class: "number" }, duration(one.seconds * 1_000)),
      ),
    ),
  );
}

function forget(stream) {
  dialog({
    title: `Forget ${stream}`,
    body: h("p", {}, "The job and its logs are forgotten. Its checkpoint and what it has routed stay: submitted again, it goes on where it was."),
    confirm: "Forget",
    kind: "danger",
    work: async () => {
      await ask(path("jobs", stream), { method: "DELETE" });
      go(["jobs"]);
      return "forgotten";
    },
  });
}

/** The end of the log, which grows in place. */
function log(stream) {
  const lines = [];
  let end = null;
  const box = h("pre", { class: "code", tabindex: "0", dir: "auto", "aria-label": "log" });
  box.isOwn = true;
  return panel({
    title: "Log",
    load: async (live, signal) => {
      const part = await ask(path("jobs", stream, "logs"), { query: { lines: LINES, after: end ?? undefined }, live, signal });
      const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 8;
      lines.push(...part.lines);
      lines.splice(0, lines.length - 5 * LINES);
      end = part.end;
      fill(box, lines.join("\n"));
      if (atEnd) requestAnimationFrame(() => (box.scrollTop = box.scrollHeight));
      return part;
    },
    view: (part) => [box, h("p", { class: "muted" }, `Run ${part.run}, the last ${counted(lines.length, "line")}.`)],
  });
}
