/** The table of a queue: when its messages came, its files, its columns, and what has happened to it. */

import { to } from "../address.js";
import { ask, path } from "../api.js";
import { fill, h } from "../dom.js";
import { action, fact, panel, rightsOf, table, time } from "../parts.js";
import { bytes, counted, exact, number } from "../words.js";
import { changeWords, isPast } from "./past.js";
import { rebuild } from "./queue_journal.js";

const CHANGES = 200;
const LISTED = 20;
/** Bars at most, and how long a bar may stand for where batches are too many, in milliseconds. */
const BARS = 60;
const SPANS = [1_000, 5_000, 15_000, 60_000, 300_000, 900_000, 3_600_000, 21_600_000, 86_400_000, 604_800_000];
const WIDTH = 1_080;
const HEIGHT = 120;

export function tableOf(vhost, name, query, again) {
  const where = (...more) => path("queues", vhost, name, "table", ...more);
  const asOf = { table_version: query.version, at: query.at };
  return [
    panel({
      title: "Arrivals",
      load: (live, signal) => ask(where("changes"), { query: { count: CHANGES }, live, signal }),
      view: ({ changes }) => arrivals(changes.filter((one) => one.added)),
      empty: "No batch has written to it among the newest versions of its table.",
    }),
    panel({
      title: "Files",
      aside: isPast(query) ? null : repair(vhost, name, again),
      load: (live, signal) => ask(where(), { query: asOf, live, signal }),
      view: (found) => files(found),
    }),
    panel({
      title: "Versions of the table",
      load: (live, signal) => ask(where("changes"), { query: { count: LISTED, before: query.below }, live, signal }),
      view: (found) => (found.changes.length ? versions(found, vhost, name, query) : null),
      empty: "The log has no older versions.",
    }),
    panel({
      title: "Columns",
      every: 0,
      load: (live, signal) => ask(where(), { query: asOf, live, signal }),
      view: (found) => columns(found.columns),
    }),
  ];
}

/** What helps where the table cannot be read, for whoever may. */
function repair(vhost, name, again) {
  const place = h("div", { class: "actions" });
  place.isOwn = true;
  rightsOf(vhost, name).then(
    (rights) => rights.configure && rights.read && rights.write && fill(place, action("Rebuild …", () => rebuild({ vhost, name, again }))),
    () => {}, // the parts of the page say why
  );
  return place;
}

// -- arrivals ----------------------------------------------------------------------------------------------

/** Messages that came, batch by batch; where there are many batches, minute by minute, or hour by hour. */
function arrivals(changes) {
  if (!changes.length) return null;
  const came = [...changes].reverse();
  const bars = came.length <= BARS ? came.map(ofBatch) : together(came);
  const most = Math.max(...bars.map(({ rows }) => rows));
  const total = bars.reduce((sum, { rows }) => sum + rows, 0);
  const step = WIDTH / Math.max(bars.length, 12);
  const said = `${counted(total, "message")} in ${counted(came.length, "batch", "batches")}`;
  return [
    h("p", { class: "muted" }, said, ", ", time(came[0].committed_at), " to ", time(came.at(-1).committed_at), bars.length < came.length || bars[0].span ? `; a bar is ${spanWords(bars[0].span)}` : "; a bar is a batch"),
    h(
      "figure",
      { class: "arrivals" },
      h(
        "svg",
        { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `Arrivals: ${said}, at most ${number(most)} at a time` },
        h("path", { class: "base", d: `M0 ${HEIGHT - 0.5}H${WIDTH}` }),
        bars.map(({ rows, label }, place) => {
          const height = rows ? Math.max((rows / most) * (HEIGHT - 4), 2) : 0;
          return h("rect", { class: "arrival", x: place * step + 1, y: HEIGHT - height, width: Math.max(step - 2, 1), height }, h("title", {}, `${counted(rows, "message")}, ${label}`));
        }),
      ),
      h("figcaption", {}, h("span", {}, exact(came[0].committed_at)), h("span", {}, `at most ${number(most)}`), h("span", {}, exact(came.at(-1).committed_at))),
    ),
    h(
      "details",
      {},
      h("summary", {}, "The same as a table"),
      table({
        caption: "Arrivals",
        rows: bars.filter(({ rows }) => rows).reverse(),
        key: ({ label }) => label,
        columns: [
          { title: "When", cell: ({ label }) => label },
          { title: "Messages", number: true, cell: ({ rows }) => number(rows) },
        ],
      }),
    ),
  ];
}

function ofBatch(one) {
  return { rows: one.added, label: `${one.stream === null ? one.change : `${one.stream}:${one.batch_id}`}, ${exact(one.committed_at)}` };
}

function together(came) {
  const moment = (one) => new Date(one.committed_at).getTime();
  const [first, last] = [moment(came[0]), moment(came.at(-1))];
  const span = SPANS.find((length) => (last - first) / length < BARS - 1) ?? Math.ceil((last - first) / (BARS - 1));
  const begin = Math.floor(first / span) * span;
  const bars = Array.from({ length: Math.floor((last - begin) / span) + 1 }, (_, place) => ({ rows: 0, span, label: exact(begin + place * span) }));
  for (const one of came) bars[Math.floor((moment(one) - begin) / span)].rows += one.added;
  return bars;
}

function spanWords(span) {
  const [length, word] = span < 60_000 ? [span / 1_000, "second"] : span >= 86_400_000 ? [span / 86_400_000, "day"] : span >= 3_600_000 ? [span / 3_600_000, "hour"] : [span / 60_000, "minute"];
  return counted(Math.round(length), word);
}

// -- files and columns -------------------------------------------------------------------------------------

function files(found) {
  const retention = found.properties["delta.deletedFileRetentionDuration"]?.replace(/^interval /, "");
  return h(
    "dl",
    { class: "facts" },
    fact("Location", h("code", { dir: "auto" }, found.location)),
    fact("Version", number(found.table_version)),
    fact("Rows", number(found.rows)),
    fact("Files", number(found.files.count)),
    fact("Bytes", bytes(found.files.bytes)),
    found.files.count ? fact("Smallest, median, largest", `${bytes(found.files.smallest)}, ${bytes(found.files.median)}, ${bytes(found.files.largest)}`) : null,
    fact("Partitioned by", found.partition_columns.join(", ") || "nothing"),
    fact("Last maintenance", found.maintenance ? [`${found.maintenance.change}, `, time(found.maintenance.committed_at)] : "none among the newest versions"),
    fact("Versions that can be read", `${number(found.versions.oldest)} to ${number(found.versions.newest)}`),
    retention ? fact("Old versions stay for", retention) : null,
    fact("Table id", h("code", {}, found.table_id)),
  );
}

function columns(listed) {
  return table({
    caption: "Columns",
    rows: listed,
    key: (one) => one.name,
    columns: [
      { title: "Column", cell: (one) => h("code", { dir: "auto" }, one.name) },
      { title: "Type", cell: (one) => h("code", { class: "whole type-text" }, one.type) },
      { title: "What it holds", cell: (one) => one.comment ?? "–" },
    ],
  });
}

function versions(found, vhost, name, query) {
  const below = found.changes.at(-1).version;
  return [
    table({
      caption: "Versions of the table",
      rows: found.changes,
      key: (one) => one.version,
      columns: [
        { title: "Version", number: true, cell: (one) => h("a", { href: to(["queues", vhost, name], { version: one.version }) }, number(one.version)) },
        { title: "When", cell: (one) => time(one.committed_at) },
        { title: "What was done", cell: (one) => (one.change === "append" ? `${counted(one.added ?? 0, "message")} came` : changeWords(one)) },
        { title: "Batch", cell: (one) => (one.stream === null ? "–" : h("a", { class: "mono", dir: "auto", href: to(["queues", vhost, name], { at: `${one.stream}:${one.batch_id}` }) }, `${one.stream}:${one.batch_id}`)) },
      ],
    }),
    below > found.versions.oldest ? h("div", { class: "foot" }, h("a", { href: to(["queues", vhost, name], { ...query, below }) }, "older versions →")) : null,
  ];
}
