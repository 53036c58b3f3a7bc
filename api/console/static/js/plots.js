/** Small pictures of numbers: each says in words what it shows, for those who do not see it. */

import { h } from "./dom.js";
import { duration, exact, number, spoken } from "./words.js";

/** What the tasks of a batch do, one after the other; several tasks do it beside each other. */
const OF_TASKS = ["task read", "task fold", "task route", "task write"];
/** Stages of a batch one after the other. */
const STAGES = ["prepare", ...OF_TASKS, "commit"];

/** [stage, milliseconds] of a batch, in order, where something was measured: its tasks' time is shared by what they did. */
function stagesOf(milliseconds) {
  const { prepare = 0, tasks = 0, commit = 0 } = milliseconds;
  const sum = OF_TASKS.reduce((spent, stage) => spent + (milliseconds[stage] ?? 0), 0);
  const shared = sum ? OF_TASKS.map((stage) => [stage, (tasks * (milliseconds[stage] ?? 0)) / sum]) : [["tasks", tasks]];
  return [["prepare", prepare], ...shared, ["commit", commit]].filter(([, spent]) => spent > 0);
}

/** The colour of a stage, the same everywhere. */
function colour(stage) {
  return `series-${STAGES.indexOf(stage === "tasks" ? "task route" : stage)}`;
}

/** The stages of a batch as parts of one bar. */
export function stageBar({ milliseconds, duration_ms: whole }) {
  const words = stagesOf(milliseconds).map(([stage, spent]) => `${spoken(stage)} ${duration(spent)}`).join(", ");
  let left = 0;
  return h(
    "span",
    { class: "stages", title: words },
    h(
      "svg",
      { viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img", "aria-label": words || "nothing was measured" },
      stagesOf(milliseconds).map(([stage, spent]) => {
        const width = (100 * spent) / whole;
        const part = h("rect", { x: left, y: 0, width: Math.max(width - 0.6, 0.4), height: 8, class: colour(stage) });
        left += width;
        return part;
      }),
    ),
    duration(whole),
  );
}

/** What the colours of stages mean. */
function stageLegend() {
  return h(
    "p",
    { class: "legend" },
    STAGES.map((stage) => h("span", {}, h("svg", { viewBox: "0 0 8 8", "aria-hidden": "true" }, h("rect", { width: 8, height: 8, class: colour(stage) })), spoken(stage))),
  );
}

/** A row of columns without an axis; `values` from the oldest on, words say what they are. */
export function spark(values, words) {
  const most = Math.max(...values, 1);
  return h(
    "svg",
    { class: "spark", viewBox: "0 0 90 20", preserveAspectRatio: "none", role: "img", "aria-label": words },
    h("title", {}, words),
    values.map((value, place) => {
      const height = value > 0 ? Math.max((20 * value) / most, 1) : 0;
      return h("rect", { x: 90 - 3 * (values.length - place), y: 20 - height, width: 2, height });
    }),
  );
}

const WIDTH = 720;
const HEIGHT = 96;

/**
 * Batches as columns, the oldest on the left. parts(batch) gives [[class, value], …] that stand on each other, said(value)
 * how a value reads, words(batch) what stands at a column.
 */
function columns({ title, batches, parts, said, words }) {
  const sums = batches.map((batch) => parts(batch).reduce((sum, [, value]) => sum + value, 0));
  const most = Math.max(...sums, 1);
  const step = WIDTH / Math.max(batches.length, 20);
  const newest = sums.length - 1;
  return h(
    "figure",
    { class: "plot" },
    h("figcaption", {}, title, h("span", { class: "muted" }, ` at most ${said(most)}, last ${said(sums[newest])}`)),
    h(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title} of ${batches.length} batches: at most ${said(most)}, last ${said(sums[newest])}` },
      h("path", { class: "axis", d: `M0 ${HEIGHT - 0.5}H${WIDTH}` }),
      batches.map((batch, place) => {
        let y = HEIGHT;
        return h(
          "g",
          { key: batch.batch_id },
          h("title", {}, words(batch)),
          // what is pointed at is the whole height
          h("rect", { class: "aim", x: place * step, y: 0, width: step, height: HEIGHT }),
          parts(batch).map(([kind, value]) => {
            const height = (HEIGHT * value) / most;
            y -= height;
            return h("rect", { class: kind, x: place * step + 1, y, width: Math.max(step - 2, 1), height });
          }),
        );
      }),
    ),
  );
}

/** How long the newest batches took by stage, and how many messages they had; `newest` first. */
export function batchPlots(newest) {
  const batches = [...newest].reverse();
  const words = (batch) => `batch ${batch.batch_id}, ${exact(batch.committed_at)}: ${number(batch.records)} messages, ${stagesOf(batch.milliseconds).map(([stage, spent]) => `${spoken(stage)} ${duration(spent)}`).join(", ")}`;
  return h(
    "div",
    { class: "plots" },
    columns({ title: "Time by stage,", batches, said: duration, words, parts: (batch) => stagesOf(batch.milliseconds).map(([stage, spent]) => [colour(stage), spent]) }),
    stageLegend(),
    columns({ title: "Messages,", batches, said: (value) => number(Math.round(value)), words, parts: (batch) => [["series-5", batch.records]] }),
  );
}

/** Messages a second between the oldest and the newest of some batches; null where that cannot be told. */
export function rateOf(newest) {
  if (newest.length < 2) return null;
  const seconds = (new Date(newest[0].committed_at) - new Date(newest.at(-1).committed_at)) / 1_000;
  const messages = newest.slice(0, -1).reduce((sum, batch) => sum + batch.records, 0);
  return seconds > 0 ? messages / seconds : null;
}
