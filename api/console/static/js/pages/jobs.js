/** Jobs: the list, and one with its progress and its log. */

import { go, to } from "../address.js";
import { ask, path, Problem } from "../api.js";
import { fill, h } from "../dom.js";
import { action, code, dialog, fact, lag, named, notice, panel, state, table, time } from "../parts.js";
import { batchPlots } from "../plots.js";
import { bytes, counted, exact, lasting, number, perSecond, spoken } from "../words.js";
import { crumbs } from "./exchanges.js";
import { submit } from "./submit.js";

const KINDS = { running: "good", idle: "good", starting: "good", stopping: "warn", failed: "bad" };
const LINES = 200;
const BATCHES = 60;
/** Milliseconds between two looks at a log. */
const LOG_EACH = 2_000;
/** Milliseconds between two looks at a journal, which grows with the batches. */
const JOURNAL_EACH = 30_000;

export function jobs(_, query, session) {
  const administers = session.roles.includes("administrator");
  if (query.new && administers) return submit(query);
  return {
    title: "Jobs",
    content: [
      h("div", { class: "heading" }, h("h1", {}, "Jobs"), administers ? h("a", { class: "button primary", href: to(["jobs"], { new: "files" }) }, "Submit a job") : null),
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
                  { title: "Messages", number: true, cell: (one) => number(one.progress.records) },
                  { title: "Routes", number: true, cell: (one) => perSecond(one.rows_per_second) },
                  { title: "Lag", cell: (one) => lag(one.lag) },
                  { title: "Error", cell: (one) => (one.error ? one.error.message : "–") },
                ],
              })
            : null,
      }),
    ],
  };
}

export function job([stream], query, session) {
  const administers = session.roles.includes("administrator");
  const trouble = h("div", {});
  const head = panel({
    class: "bare",
    load: (live, signal) => ask(path("jobs", stream), { live, signal }),
    view: (item) => [facts(item, administers, () => head.again(), trouble), trouble],
  });
  return { title: stream, content: [crumbs("jobs", "Jobs", stream), head, batches(stream), journal(stream), log(stream, query.run)] };
}

/** How much its journal holds, where it keeps one. */
function journal(stream) {
  return panel({
    title: "Journal",
    every: JOURNAL_EACH,
    hidden: true,
    empty: "The stream keeps none. With “journal: on” in its job every message stays on record, whatever becomes of its copies.",
    load: (live, signal) => ask(path("status"), { query: { stream }, live, signal }),
    view: ({ streams: [found] }) => {
      if (!found?.journal) return null;
      const { rows, bytes: size, oldest_row_at: oldest, kept_seconds: age, kept_bytes: most, waiting_since: waiting, late_seconds: late } = found.journal;
      return h(
        "dl",
        { class: "facts" },
        fact("Messages", number(rows)),
        fact("Size", bytes(size)),
        fact("Oldest", oldest === null ? "–" : time(oldest)),
        fact("Kept for", lasting(age)),
        most === null ? null : fact("Kept up to", bytes(most)),
        waiting === null ? null : fact("Copies wait since", h("span", {}, time(waiting), late ? `, late by ${lasting(late)}` : "")),
      );
    },
  });
}

/** The newest batches as plots. */
function batches(stream) {
  return panel({
    title: "The newest batches",
    load: (live, signal) => ask(path("status"), { query: { stream, batches: BATCHES }, live, signal }),
    empty: "No batch yet.",
    view: ({ streams: [found] }) => (found?.newest.length ? batchPlots(found.newest) : null),
  });
}

/** The last error, and what to do. */
function failure(error) {
  const advice = error.hint ?? "The log says more. Started again it goes on where it was; nothing is routed twice.";
  return h(
    "div",
    { class: "notice bad", role: "alert" },
    h("b", {}, error.message),
    error.cause?.length ? h("div", {}, "because: ", error.cause.join("; ")) : null,
    h("div", {}, advice),
    error.log?.length ? code(error.log.join("\n")) : null,
  );
}

function facts(item, administers, again, trouble) {
  const works = ["running", "idle", "starting", "stopping"].includes(item.state);
  const call = (method, more, query) => async () => {
    fill(trouble);
    try {
      await ask(path("jobs", item.stream, ...more), { method, query });
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      fill(trouble, notice(error));
    }
    again();
  };
  const { progress } = item;
  return [
    h("p", { class: "health" }, state(KINDS[item.state] ?? "off", item.state), item.rows_per_second ? h("span", { class: "muted" }, ` routes ${perSecond(item.rows_per_second)}`) : null),
    item.error ? failure(item.error) : null,
    item.waiting ? h("div", { class: "notice quiet" }, `It waits since ${exact(item.waiting.since)}: ${item.waiting.reason}`) : null,
    h(
      "dl",
      { class: "facts" },
      fact("Vhost", named(item.vhost)),
      fact("Submitted", [h("b", { dir: "auto" }, item.submitted_by), " ", time(new Date(item.submitted_at).toISOString())]),
      fact("Batches", number(progress.batches)),
      fact("Messages", number(progress.records)),
      fact("Copies", number(progress.copies)),
      item.lag ? fact("Lag", lag(item.lag)) : null,
      Object.entries(progress.unroutable).map(([reason, rows]) => fact(spoken(reason), h("a", { href: to(["unroutable", item.vhost], { reason }) }, number(rows)))),
      progress.unparsable.map((one) => fact(`Bodies not read by ${one.kind} ${one.name}: ${spoken(one.reason.replaceAll("-", "_"))}`, number(one.messages))),
    ),
    administers
      ? h(
          "div",
          { class: "actions" },
          works ? action("Stop after this batch", call("POST", ["stop"])) : action("Start again", call("POST", ["restart"]), { kind: "primary" }),
          works ? action("Restart", call("POST", ["restart"])) : action("Forget", () => forget(item.stream), { kind: "danger" }),
          item.state === "stopping" ? action("Kill", call("POST", ["stop"], { force: true }), { kind: "danger" }) : null,
        )
      : null,
    item.document ? h("details", {}, h("summary", {}, "Its document"), code(JSON.stringify(item.document, null, 2), { copy: true })) : null,
  ];
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

/** The end of a run's log, which grows in place and is followed while its end is in sight. */
function log(stream, run) {
  const lines = [];
  let end = null;
  let shown = null;
  const box = h("pre", { class: "code", tabindex: "0", dir: "auto", role: "log", "aria-label": "log", "aria-live": "off" });
  box.isOwn = true;
  return panel({
    title: "Log",
    every: LOG_EACH,
    load: async (live, signal) => {
      const part = await ask(path("jobs", stream, "logs"), { query: { lines: LINES, run, after: end ?? undefined }, live, signal });
      // another run has begun: its log is another one
      if (shown !== null && part.run !== shown) {
        lines.length = 0;
        end = null;
        shown = part.run;
        return ask(path("jobs", stream, "logs"), { query: { lines: LINES, run }, live, signal }).then(taken);
      }
      return taken(part);
    },
    view: (part) => [
      box,
      h(
        "p",
        { class: "muted" },
        `Run ${part.run}, the last ${counted(lines.length, "line")}.`,
        part.runs.length > 1 ? [" Other runs: ", part.runs.filter((one) => one !== part.run).map((one) => [h("a", { href: to(["jobs", stream], { run: one }) }, one), " "])] : null,
      ),
    ],
  });

  function taken(part) {
    const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 8;
    lines.push(...part.lines);
    lines.splice(0, lines.length - 5 * LINES);
    end = part.end;
    shown = part.run;
    fill(box, lines.join("\n"));
    if (atEnd) requestAnimationFrame(() => (box.scrollTop = box.scrollHeight));
    return part;
  }
}
