/** What journals have for a queue: messages of the past that it would have got, and its table where that is lost. */

import { ask, path, Problem } from "../api.js";
import { fill, h } from "../dom.js";
import { dialectChoice } from "../filter_box.js";
import { dialog, field, notice, time } from "../parts.js";
import { counted, number } from "../words.js";

/** Milliseconds without a key before journals are gone through for a preview. */
const WAIT = 600;

/** Bring the queue what it would have got, counted before anything is done. */
export function backfill({ vhost, name, query, again }) {
  const since = h("input", { spellcheck: "false", placeholder: "2026-01-31 or 2026-01-31T18:00:00Z" });
  const until = h("input", { spellcheck: "false" });
  const stream = h("input", { spellcheck: "false" });
  const filter = h("textarea", { class: "mono", rows: 2, spellcheck: "false", value: query.filter ?? "" });
  const dialect = dialectChoice(query.dialect, { "aria-label": null });
  const body = () =>
    Object.fromEntries(
      Object.entries({ since: since.value, until: until.value, stream: stream.value, filter: filter.value, dialect: filter.value ? dialect.value : "" }).filter(([, value]) => value),
    );
  const where = path("queues", vhost, name, "backfill");
  const { told, look, looksAt } = preview((signal) => ask(where, { method: "POST", body: { ...body(), dry_run: true }, signal }), wouldBring);
  for (const one of [since, until, stream, filter, dialect]) one.addEventListener("input", look);
  dialog({
    title: `Backfill ${name}`,
    body: [
      h("p", { class: "muted" }, "Messages of journals that reach this queue under the present topology and were not delivered to it before. No other queue gets any."),
      field("Routed since", since, "ISO 8601, UTC without a zone; empty: as far back as journals go"),
      field("Routed before", until),
      field("Stream", stream, "empty: every stream that keeps a journal"),
      field("Filter", filter),
      field("Dialect", dialect),
      told,
    ],
    confirm: "Backfill",
    work: async () => {
      const done = await ask(where, { method: "POST", body: body() });
      again();
      return `${counted(done.rows, "message")} brought`;
    },
  });
  looksAt();
}

/** Make the table again, or files of it; what that would be stands there before. */
export function rebuild({ vhost, name, again }) {
  const where = path("queues", vhost, name, "rebuild");
  const { told, looksAt } = preview((signal) => ask(where, { method: "POST", body: { dry_run: true }, signal }), wouldRebuild);
  dialog({
    title: `Rebuild ${name}`,
    body: [
      h("p", { class: "muted" }, "A table that is lost, or files of it that are missing or damaged, are made again from journals. One that is whole is left as it is; every file of it is read to tell."),
      told,
    ],
    confirm: "Rebuild",
    work: async () => {
      const done = await ask(where, { method: "POST", body: {} });
      again();
      return done.was === "whole" ? "the table is whole" : `${counted(done.rows, "message")} made again`;
    },
  });
  looksAt();
}

/**
 * A place in a dialog for what would happen, asked for by ask(signal): `told`, the element; `look()` asks once nobody
 * has typed for a while; `looksAt()`, once the dialog is open, asks at once, and asks no more when it closes.
 */
function preview(asking, view) {
  const told = h("div", { class: "told", role: "status" });
  told.isOwn = true;
  let waiting;
  let present = new AbortController();
  const now = async () => {
    present = new AbortController();
    const { signal } = present;
    fill(told, h("p", { class: "muted" }, "Looking into journals …"));
    try {
      const would = await asking(signal);
      if (!signal.aborted) fill(told, view(would));
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Problem)) throw error;
      fill(told, notice(error));
    }
  };
  const stop = () => {
    clearTimeout(waiting);
    present.abort();
  };
  return {
    told,
    look: () => {
      stop();
      waiting = setTimeout(now, WAIT);
    },
    looksAt: () => {
      told.closest("dialog").addEventListener("close", stop);
      now();
    },
  };
}

/** Between which times the messages of an answer were routed. */
function span({ rows, first, last }) {
  return rows ? [", routed ", first === last ? ["at ", time(first)] : ["from ", time(first), " to ", time(last)]] : null;
}

function wouldBring(would) {
  const open = would.under_way.length;
  return [
    h("p", {}, h("b", {}, would.rows ? `${counted(would.rows, "message")} would come` : "No message would come"), span(would), "."),
    h(
      "ul",
      { class: "arguments" },
      would.streams.map(({ stream, messages, rows, journal_from: from }) =>
        h("li", { class: "muted" }, h("span", { dir: "auto" }, stream), `: ${number(rows)} of ${counted(messages, "message")}`, from ? [", the journal begins ", time(from)] : ", the journal is empty"),
      ),
    ),
    open ? h("p", { class: "muted" }, `${counted(open, "batch", "batches")} of an older topology ${open === 1 ? "is" : "are"} under way: maintenance brings what is in ${open === 1 ? "it" : "them"}.`) : null,
  ];
}

function wouldRebuild(would) {
  if (would.was === "whole") return h("p", {}, h("b", {}, "The table is whole"), ": there is nothing to rebuild.");
  const lacking = Object.entries(would.not_covered);
  return [
    h("p", {}, would.was === "lost" ? "The table is lost. " : `${counted(would.files.length, "file")} of the table cannot be read. `, h("b", {}, `${counted(would.rows, "message")} would be made again`), span(would), "."),
    h(
      "ul",
      { class: "arguments" },
      lacking.map(([stream, rows]) => h("li", {}, `${counted(rows, "message")} would not: `, h("span", { dir: "auto" }, stream), " has no journal of them")),
    ),
    would.was === "lost" ? h("p", {}, "Messages that consumers had taken come again: nothing says which.") : null,
    would.again ? h("p", {}, `${counted(would.again, "message")} of them had been taken before.`) : null,
  ];
}
