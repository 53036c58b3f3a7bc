/** Replay: what another topology would have done with the newest messages, and making it so. */

import { go, to } from "../address.js";
import { ask, path, Problem } from "../api.js";
import { applyDialog, doesSomething, fromAddress, inAddress, planOf, planView, problemView } from "../changes.js";
import { h } from "../dom.js";
import { fileButton, pointTo } from "../forms.js";
import { action, code, field, object, panel, state, table, time } from "../parts.js";
import { counted, number, spoken } from "../words.js";
import { rollback } from "./history.js";
import { vhostChoice } from "./vhosts.js";

const SIZES = [1_000, 10_000, 100_000];
const USUAL = 10_000;
/** Width of a bar in the units of its picture, to each side. */
const HALF = 100;
const EXAMPLE = `delete:
  bindings:
    - {source: flights, destination: late, routing_key: "#"}
add:
  bindings:
    - {source: flights, destination: late, routing_key: "*.JFK.#"}`;

export function replay([vhost = "/"], query, session) {
  const change = fromAddress(query);
  const asked = change !== null || Boolean(query.version);
  const area = h("textarea", { rows: 6, class: "mono", spellcheck: "false", placeholder: EXAMPLE, value: change ?? "" });
  return {
    title: "Replay",
    content: [
      h("div", { class: "heading" }, h("h1", {}, "Replay"), vhostChoice("replay", vhost)),
      form(vhost, query, area),
      asked
        ? outcome(vhost, query, change, area, session)
        : h(
            "p",
            { class: "empty" },
            query.kept
              ? "The change of this address was too long to stand in it, and is gone with the page that held it. Choose it again."
              : "Name a version of the topology, or write a change: the newest messages are routed once more, under the present topology and under the other one, and you see which queues gain and lose messages. Nothing is written.",
          ),
    ],
  };
}

/** "now", which shows what a change changes, unless "then" is asked for. */
function comparedWith(query) {
  return query.with === "then" ? "then" : "now";
}

function form(vhost, query, area) {
  const version = h("input", { value: query.version ?? "", inputmode: "numeric", pattern: "[0-9]*", class: "short" });
  const prune = h("input", { type: "checkbox", checked: query.prune === "true" });
  const size = h("select", {}, SIZES.map((one) => h("option", { value: one }, `the newest ${number(one)}`)));
  size.value = SIZES.includes(Number(query.messages)) ? query.messages : USUAL;
  const base = h("select", {}, h("option", { value: "now" }, "what the present topology does"), h("option", { value: "then" }, "what became of them"));
  base.value = comparedWith(query);
  const stream = h("input", { value: query.stream ?? "", spellcheck: "false" });
  const [first, last] = ["first", "last"].map((name) => h("input", { value: query[name] ?? "", inputmode: "numeric", pattern: "[0-9]*", class: "short" }));
  const address = () => ({
    ...(version.value ? { version: version.value } : area.value.trim() ? inAddress(area.value) : {}),
    prune: prune.checked && !version.value ? "true" : undefined,
    messages: Number(size.value) === USUAL ? undefined : size.value,
    with: base.value === "now" ? undefined : "then",
    stream: stream.value,
    first: stream.value ? first.value : undefined,
    last: stream.value ? last.value : undefined,
  });
  const run = () => go(["replay", vhost], address());
  return h(
    "form",
    { class: "panel written", onsubmit: (event) => (event.preventDefault(), run()) },
    h("div", { class: "halves" },
      h("div", { class: "stack" }, field("Change", area, "a document of definitions or a change, in JSON or YAML"), h("label", {}, prune, " what it does not name goes")),
      h("div", { class: "stack" },
        field("Or a version of the topology", version, "what would an older topology do?"),
        field("Messages", size),
        field("Compared with", base),
        h("details", { open: Boolean(query.stream) }, h("summary", {}, "Of one stream"), h("div", { class: "stack" }, field("Stream", stream), h("div", { class: "pair" }, field("From batch", first), field("To batch", last)))),
      ),
    ),
    h("div", { class: "actions" }, h("button", { class: "button primary" }, "Replay"), fileButton("Choose a file …", (content) => {
      area.value = content;
      version.value = "";
      run();
    })),
  );
}

function outcome(vhost, query, change, area, session) {
  const whole = (text) => (text ? Number(text) : undefined);
  const body = {
    ...(query.version ? { version: Number(query.version) } : { change, prune: query.prune === "true" }),
    messages: whole(query.messages) ?? USUAL,
    compared_with: comparedWith(query),
    stream: query.stream,
    first_batch: whole(query.first),
    last_batch: whole(query.last),
  };
  const cancel = action("Stop", () => {
    found.leave();
    go(["replay", vhost]);
  }, { kind: "small" });
  const found = panel({
    title: "What it would have done",
    aside: cancel,
    every: 0,
    load: async (live, signal) => {
      try {
        const report = await ask(path("replay", vhost), { method: "POST", body, live, signal });
        return { report };
      } catch (problem) {
        if (!(problem instanceof Problem) || problem.isForbidden || problem.status === 404) throw problem;
        return { problem };
      } finally {
        cancel.remove();
      }
    },
    view: ({ report, problem }) => (problem ? problemView(problem, change === null ? null : (line, column) => pointTo(area, line, column)) : compared(vhost, report, query)),
  });
  return [found, change === null ? back(vhost, query, session) : promote(vhost, change, query.prune === "true", session)];
}

/** The change itself, to be applied. */
function promote(vhost, text, prune, session) {
  return panel({
    title: "Make it so",
    every: 0,
    hidden: true,
    load: async (live, signal) => {
      try {
        return await planOf(vhost, text, { prune, signal });
      } catch (problem) {
        // what is wrong with it stands above
        if (problem instanceof Problem && problem.status === 400) return null;
        throw problem;
      }
    },
    empty: "There is no plan for it.",
    view: (plan) =>
      plan === null
        ? null
        : [
            planView(plan),
            doesSomething(plan) ? h("div", { class: "actions" }, action("Apply …", () => applyDialog({ vhost, text, prune, plan, session }), { kind: "primary" })) : null,
            h("p", { class: "muted" }, `Compared with version ${plan.base} of the topology.`),
          ],
  });
}

/** The way to the version that was tried. */
function back(vhost, query, session) {
  if (!session.roles.includes("administrator")) return null;
  const target = Number(query.version);
  return panel({
    title: "Make it so",
    every: 0,
    load: (live, signal) => ask(path("topology", "versions"), { query: { limit: 1 }, live, signal }),
    view: ({ newest }) => [
      h("p", {}, `Rolling back makes version ${target} the newest one, in all vhosts, as a version of its own: the present one is `, h("a", { href: to(["history"], { from: newest, to: target }) }, `compared with it`), "."),
      target < newest ? h("div", { class: "actions" }, action(`Roll back to version ${target} …`, () => rollback(target, newest), { kind: "danger" })) : h("p", { class: "muted" }, "It is the newest one."),
    ],
  });
}

const CUT = {
  messages: "There are older ones.",
  time: "Time was up before all of them were compared.",
  batches: "They are of the newest batches; there are older ones.",
};

function compared(vhost, report, query) {
  const changed = report.queues.filter((one) => one.gained || one.lost);
  const same = report.queues.filter((one) => !one.gained && !one.lost);
  const widest = Math.max(1, ...changed.map((one) => Math.max(one.gained, one.lost)));
  if (!report.messages) return [h("p", { class: "empty" }, "There is no message to compare in what you may read."), scope(report, query)];
  return [
    h("p", { class: "verdict" }, verdict(report, changed)),
    changed.length
      ? h("div", { class: "gains" }, table({
          caption: "Messages gained and lost, by queue",
          rows: changed,
          key: (one) => one.queue,
          columns: [
            { title: "Queue", cell: (one) => object("queue", vhost, one.queue) },
            { title: "Before", number: true, cell: (one) => number(one.before) },
            { title: "Lost", number: true, cell: (one) => (one.lost ? `−${number(one.lost)}` : "–") },
            { title: h("span", { class: "unseen" }, "picture"), cell: (one) => bars(one, widest) },
            { title: "Gained", number: true, cell: (one) => (one.gained ? `+${number(one.gained)}` : "–") },
            { title: "After", number: true, cell: (one) => number(one.after) },
          ],
        }))
      : null,
    same.length
      ? h(
          "details",
          {},
          h("summary", {}, changed.length ? `${counted(same.length, "queue")} ${same.length === 1 ? "stays as it is" : "stay as they are"}` : "The queues"),
          h("ul", { class: "arguments" }, same.map((one) => h("li", {}, object("queue", vhost, one.queue), ` ${number(one.after)}`))),
        )
      : null,
    unroutable(report.unroutable),
    changed.map((one) => examples(vhost, one)),
    scope(report, query),
  ];
}

function verdict(report, changed) {
  if (!changed.length) return [state("good", "The same."), ` All ${counted(report.copies.before, "copy", "copies")} of ${counted(report.messages, "message")} are where they would be.`];
  const { gained, lost } = report.changed;
  const said = [gained ? `${counted(gained, "message")} gained` : null, lost ? `${gained ? number(lost) : counted(lost, "message")} lost` : null].filter(Boolean).join(", ");
  const change = report.unroutable.change;
  const nowhere = change ? `; ${number(Math.abs(change))} ${change > 0 ? "more" : "fewer"} reach no queue` : "";
  return `${said}, in ${counted(changed.length, "queue")}, of ${counted(report.messages, "message")}${nowhere}.`;
}

/** What a queue loses, to the left, and gains, to the right; the numbers stand beside it. */
function bars(one, widest) {
  const wide = (count) => (count ? Math.max(1, (count / widest) * HALF) : 0);
  const lost = wide(one.lost);
  return h(
    "svg",
    { class: "both", viewBox: `0 0 ${2 * HALF} 12`, preserveAspectRatio: "none", "aria-hidden": "true" },
    h("rect", { class: "lost", x: HALF - lost, y: 1, width: lost, height: 10 }),
    h("rect", { class: "gained", x: HALF, y: 1, width: wide(one.gained), height: 10 }),
    h("rect", { class: "axis", x: HALF - 0.5, y: 0, width: 1, height: 12 }),
  );
}

function unroutable({ before, after }) {
  const reasons = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort().filter((one) => (before[one] ?? 0) !== (after[one] ?? 0));
  if (!reasons.length) return null;
  return h("ul", { class: "arguments" }, reasons.map((one) => h("li", {}, `Unroutable, ${spoken(one)}: ${number(before[one] ?? 0)} before, ${number(after[one] ?? 0)} after`)));
}

function examples(vhost, queue) {
  if (!queue.examples.length) return null;
  return [
    h("h2", {}, object("queue", vhost, queue.queue)),
    h("ul", { class: "messages" }, queue.examples.map((one) => example(vhost, queue.queue, one))),
  ];
}

function example(vhost, queue, one) {
  const { message } = one;
  const gained = one.direction === "gained";
  const stated = Object.entries(message.application_properties ?? {}).map(([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`);
  return h(
    "li",
    { key: one.direction + one.row },
    h(
      "details",
      {},
      h(
        "summary",
        {},
        h("span", {}, h("b", { class: gained ? "gained" : "lost", "aria-hidden": "true" }, gained ? "+ " : "− "), h("span", { class: "unseen" }, gained ? "gained: " : "lost: "), h("code", { dir: "auto" }, message.routing_key || "(no key)")),
        h("span", { class: "brief", dir: "auto" }, stated.slice(0, 6).join("  ·  ")),
        h("code", { class: "muted" }, one.row),
      ),
      one.because.length ? h("p", {}, gained ? "It would come by " : "It comes by ", h("b", { dir: "auto" }, one.because.join("; ")), ".") : null,
      one.not_because.length ? h("p", {}, gained ? "So far it does not come: " : "It would not come: ", h("span", { dir: "auto" }, one.not_because.join("; ")), ".") : null,
      h("p", {}, h("a", { href: to(["try"], { vhost, row: one.row, queue }) }, "See its whole way")),
      code(JSON.stringify(message, null, 2)),
    ),
  );
}

/** How complete that is: journals have every message, tables what nobody has taken. */
function fromJournals({ messages, from_journals: journaled }) {
  if (!journaled) return null;
  if (journaled === messages) return "All of them are from the journals of their streams. ";
  return `${counted(journaled, "message")} of them ${journaled === 1 ? "is" : "are"} from journals, the others what queues and the unroutable table still have. `;
}

/** What was compared, in words, and how to compare all of history. */
function scope(report, query) {
  const against = query.version ? query.version : "change.json";
  const command = `bindery replay --against ${against}${query.stream ? ` --stream ${query.stream}` : ""}${report.vhost === "/" ? "" : ` --vhost ${report.vhost}`}`;
  return h(
    "div",
    { class: "scope" },
    h(
      "p",
      { class: "muted" },
      report.messages ? [`Compared: ${counted(report.messages, "message")} of ${counted(report.batches, "batch", "batches")} of ${report.streams.slice(0, 5).join(", ")}, routed `, time(report.first_routed_at), report.first_routed_at === report.last_routed_at ? null : [" to ", time(report.last_routed_at)], ". "] : null,
      report.cut ? `${CUT[report.cut]} ` : null,
      report.unread_queues ? `${counted(report.unread_queues, "queue")} that you may not read ${report.unread_queues === 1 ? "was" : "were"} left out. ` : null,
      fromJournals(report),
      report.unexplained_copies ? `${counted(report.unexplained_copies, "copy", "copies")} came by bcc keys, which queues do not keep. ` : null,
      comparedWith(query) === "then" ? "Each message was routed under what held at its time" : "Each message was routed under the present topology",
      ", and under the other one, with the clock of its time.",
    ),
    h("details", {}, h("summary", {}, "All of history"), h("p", {}, "The command reads every message on record, with Spark, and compares with what became of it:"), code(command, { copy: true })),
  );
}
