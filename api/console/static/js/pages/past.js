/** The past of a queue: which state of its table is shown, how one goes to another, and that it is said. */

import { go, to } from "../address.js";
import { ask, path } from "../api.js";
import { fill, h } from "../dom.js";
import { field, notice, time } from "../parts.js";
import { counted, exact, number } from "../words.js";

/** Versions of the table that the slider knows by what has happened. */
const KNOWN = 200;

/** What of an address says which state is meant: a version of the queue's table, or a batch or time. */
export function pastOf(query) {
  return { version: query.version, at: query.at };
}

export function isPast(query) {
  return query.version !== undefined || query.at !== undefined;
}

/** The state that is meant, as the service is asked for it. */
export function askedOf(query) {
  return {
    ...(query.version === undefined ? {} : { table_version: Number(query.version) }),
    ...(query.at === undefined ? {} : { at: query.at }),
  };
}

/** The address of a queue's page in another state. */
function moved(vhost, name, query, changed) {
  return [["queues", vhost, name], { ...query, version: undefined, at: undefined, after: undefined, before: undefined, ...changed }];
}

/** Says that the past is shown, and leads back to the present. */
export function bannerOf(vhost, name, query) {
  const what =
    query.version !== undefined
      ? `as it was at version ${number(Number(query.version))} of its table`
      : /^\d{4}-\d\d-\d\d/.test(query.at)
        ? `as of ${exact(query.at)}: every batch that had ended by then`
        : "";
  return h(
    "div",
    { class: "past", role: "note" },
    h("b", {}, "You see the past: "),
    what ? `the queue ${what}. ` : ["the queue at the end of the batch ", h("code", { dir: "auto" }, query.at), ". "],
    "Nothing can be changed here. ",
    h("a", { href: to(...moved(vhost, name, query, {})) }, "Back to now"),
  );
}

/** What has happened at a version, in words. */
export function changeWords(one) {
  if (one.change === "append") return [counted(one.added ?? 0, "message"), " by ", h("code", { dir: "auto" }, `${one.stream}:${one.batch_id}`)];
  return one.added ? [`${one.change}: `, counted(one.added, "message")] : one.change;
}

/** A choice of the state that is shown: a slider over versions, a batch, a time. Each is a state of the address. */
export function travel(vhost, name, query) {
  const body = h("div", { class: "travel" });
  body.isOwn = true;
  const element = h("details", { class: "travels", open: isPast(query) }, h("summary", {}, isPast(query) ? "Another time" : "See the past"), body);
  const move = (changed) => go(...moved(vhost, name, query, changed));
  let asked = false;
  const load = async () => {
    if (asked) return;
    asked = true;
    try {
      const found = await ask(path("queues", vhost, name, "table", "changes"), { query: { count: KNOWN } });
      fill(body, choices(found, query, move));
    } catch (error) {
      fill(body, notice(error));
    }
  };
  element.addEventListener("toggle", () => element.open && load());
  if (element.open) load();
  return element;
}

function choices({ versions, changes }, query, move) {
  const byVersion = new Map(changes.map((one) => [one.version, one]));
  const shown = Number(query.version ?? versions.newest);
  const said = h("output", { class: "muted" });
  const say = (version) => {
    const known = byVersion.get(version);
    fill(said, `version ${number(version)} of ${number(versions.newest)}`, known ? [", ", time(known.committed_at), ": ", changeWords(known)] : "");
  };
  const slider = h("input", {
    type: "range",
    min: versions.oldest,
    max: versions.newest,
    step: 1,
    value: shown,
    oninput: () => say(Number(slider.value)),
    onchange: () => move(Number(slider.value) === versions.newest ? {} : { version: slider.value }),
  });
  say(shown);
  const batches = changes.filter((one) => one.change === "append").map((one) => `${one.stream}:${one.batch_id}`);
  const batch = h("input", { class: "mono", list: "batches-of-queue", value: query.at && !/^\d{4}-/.test(query.at) ? query.at : "", placeholder: "stream:batch", spellcheck: "false" });
  const moment = h("input", { type: "datetime-local", step: 1, value: query.at && /^\d{4}-/.test(query.at) ? local(query.at) : "" });
  const form = (input, text, given) =>
    h("form", { class: "travel-by", onsubmit: (event) => (event.preventDefault(), input.value && move({ at: given() })) }, field(text, input), h("button", { class: "button" }, "Go"));
  return [
    h("div", { class: "travel-slider" }, field("Version of the table", slider), said),
    h("div", { class: "travel-points" }, form(batch, "End of a batch", () => batch.value.trim()), form(moment, "Time", () => new Date(moment.value).toISOString())),
    h("datalist", { id: "batches-of-queue" }, [...new Set(batches)].map((one) => h("option", { value: one }))),
  ];
}

/** A time as a field of the reader's zone has it. */
function local(text) {
  const moment = new Date(/Z|[+-]\d\d:?\d\d$/.test(text) ? text : `${text}Z`);
  if (Number.isNaN(moment.getTime())) return "";
  return new Date(moment.getTime() - moment.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
