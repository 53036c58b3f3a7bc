/** Try a message: where it would go, what stopped it, and what would bring it to a queue. Nothing is written. */

import { go } from "../address.js";
import { ask, path, Problem } from "../api.js";
import { fill, h } from "../dom.js";
import { action, field, notice, panel } from "../parts.js";
import { read } from "./bindings.js";
import { explained, refused } from "./explained.js";
import { finder, findForm } from "./find.js";
import { planned, suggested } from "./suggestions.js";
import { vhostField } from "./vhosts.js";

/** How a message is given: by what is asked for, as text, or as a row on record. */
const WAYS = { fields: "Fields", json: "JSON", row: "On record" };

export function tryMessage(_, query, session) {
  const way = query.as in WAYS ? query.as : query.row ? "row" : "fields";
  return {
    title: "Try a message",
    content: [
      h("div", { class: "heading" }, h("h1", {}, "Try a message")),
      h("div", { class: "try trial" }, h("div", { class: "asking" }, form(query, way), way === "row" ? findForm(query) : null), h("div", { class: "answers" }, answers(query, way, session))),
    ],
  };
}

function answers(query, way, session) {
  const asked = way === "fields" ? query.exchange !== undefined && (query.key !== undefined || query.headers) : query[way];
  if (asked) return outcome(query, way, session);
  return way === "row" ? finder(query) : invitation(query);
}

function invitation(query) {
  return h(
    "section",
    { class: "panel" },
    h(
      "div",
      { class: "content" },
      h(
        "p",
        { class: "empty" },
        query.queue ? ["Describe a message, and see why it does not come to ", h("b", { dir: "auto" }, query.queue), " and what would bring it there."] : "Describe a message, and see where it goes and why.",
        " It is routed as a published one would be, and nothing is written.",
      ),
    ),
  );
}

function form(query, way) {
  const trouble = h("div", { class: "trouble" });
  const vhost = h("span", {});
  let chosen = { value: query.vhost ?? "/" };
  vhostField(query.vhost ?? "/").then((made) => fill(vhost, field("Vhost", (chosen = made))));
  const given = inputs(query, way);
  const queue = h("input", { value: query.queue ?? "", spellcheck: "false" });
  const version = h("input", { value: query.version ?? "", inputmode: "numeric", pattern: "[0-9]*" });
  const change = h("textarea", { class: "mono", rows: 6, spellcheck: "false", value: query.change ?? "", placeholder: "add:\n  bindings:\n    - {source: orders, destination: late}" });
  const beside = () => ({ vhost: chosen.value, queue: queue.value, version: version.value, change: change.value });
  const choice = (name) =>
    action(WAYS[name], () => go(["try"], { as: name, ...beside(), ...(name === way ? given.stated() : given.as(name)) }), { kind: name === way ? "chosen" : "", type: "button", "aria-pressed": String(name === way) });
  return h(
    "form",
    {
      class: "card",
      onsubmit: (event) => {
        event.preventDefault();
        try {
          visit({ as: way === "fields" ? undefined : way, ...beside(), ...given.stated() });
        } catch (error) {
          if (!(error instanceof Problem)) throw error;
          fill(trouble, notice(error));
          given.first.focus();
        }
      },
    },
    vhost,
    h("div", { class: "choices", role: "group", "aria-label": "How the message is given" }, Object.keys(WAYS).map(choice)),
    given.fields,
    field("Why not queue", queue, "a queue that it should reach"),
    h(
      "details",
      { open: query.version || query.change ? true : null },
      h("summary", {}, "Under another topology"),
      h("div", { class: "stack" }, field("Version", version, "empty: the newest"), field("With a change", change, ["not made, only tried: a document of ", h("code", {}, "bindery apply"), ", YAML or JSON"])),
    ),
    trouble,
    h("button", { class: "button primary" }, "Try"),
  );
}

/** Go to a state; fields that are empty are kept in its address where they say something. */
function visit(state) {
  const kept = Object.entries(state).filter(([name, value]) => value || (value === "" && (name === "exchange" || name === "key")));
  history.pushState(null, "", "#/try?" + new URLSearchParams(kept));
  window.dispatchEvent(new Event("hashchange"));
}

/** The inputs of one way to give a message: what they state, and the same as another way. */
function inputs(query, way) {
  if (way === "json") {
    const text = h("textarea", { class: "mono", rows: 14, spellcheck: "false", value: query.json ?? "", placeholder: '{"exchange": "orders", "routing_key": "eu.books",\n "application_properties": {"price": 9}}' });
    return {
      first: text,
      fields: field("Message", text, "a record, or what RabbitMQ's publish takes, with its exchange: properties, payload"),
      stated: () => ({ json: text.value }),
      as: () => ({}),
    };
  }
  if (way === "row") {
    const row = h("input", { class: "mono", value: query.row ?? "", spellcheck: "false", placeholder: "stream:batch:number" });
    const routed = h("input", { type: "checkbox", checked: query.routed ? true : null });
    return {
      first: row,
      fields: [field("Row", row, "or find it below"), h("label", { class: "check" }, routed, " under the version and clock that it was routed with")],
      stated: () => ({ row: row.value, routed: routed.checked ? "1" : undefined }),
      as: () => ({}),
    };
  }
  const exchange = h("input", { value: query.exchange ?? "", spellcheck: "false" });
  const key = h("input", { class: "mono", value: query.key ?? "", spellcheck: "false" });
  const headers = h("textarea", { class: "mono", rows: 4, spellcheck: "false", value: query.headers ?? "", placeholder: '{"carrier": "UA", "dep_delay": 75}' });
  const body = h("textarea", { class: "mono", rows: 3, spellcheck: "false", value: query.body ?? "" });
  const stated = () => {
    read(headers.value);
    return { exchange: exchange.value, key: key.value, headers: headers.value, body: body.value };
  };
  return {
    first: headers,
    fields: [
      field("Exchange", exchange, "empty: the default exchange, which leads to the queue that the key names"),
      field("Routing key", key),
      field("Headers", headers, "a JSON object; filters know them as properties"),
      field("Body", body),
    ],
    stated,
    as: (other) => (other === "json" ? { json: JSON.stringify(record(stated()), null, 2) } : {}),
  };
}

/** What is asked of the service: the message, and the topology that it is routed under. */
function request(query, way) {
  return {
    vhost: query.vhost ?? "/",
    ...(query.version ? { version: Number(query.version) } : {}),
    ...(query.change ? { proposal: query.change } : {}),
    ...(way === "json" ? { text: query.json } : way === "row" ? { row: query.row, as_routed: Boolean(query.routed) } : { message: record(query) }),
  };
}

function record(query) {
  const made = { exchange: query.exchange ?? "", routing_key: query.key ?? "" };
  if (query.headers) made.application_properties = read(query.headers);
  if (query.body) made.body = query.body;
  return made;
}

function outcome(query, way, session) {
  const body = request(query, way);
  const after = h("div", { class: "answers" });
  after.isOwn = true;
  const first = panel({
    every: 0,
    load: async (live, signal) => {
      try {
        return await ask(path("route"), { method: "POST", body: { ...body, queues: query.queue ? [query.queue] : [], detailed: true }, live, signal });
      } catch (error) {
        if (!(error instanceof Problem) || !(error.body.place || error.body.report)) throw error;
        return { wrong: error };
      }
    },
    view: (answer) => {
      if (answer.wrong) return misread(answer.wrong, query);
      if (answer.refused) return refused(answer.refused);
      const [found] = answer.results;
      const missed = query.queue && found.why_not.some((one) => !one.reached);
      after.replaceChildren(
        ...[
          query.change ? planned(query, session) : null,
          missed ? suggested(query, body, answer.message ?? body.message) : null,
        ].filter(Boolean),
      );
      return explained(found, query, answer.message);
    },
  });
  return [first, after];
}

/** What is wrong with a text that was pasted, and where. */
function misread(problem, query) {
  const { place, report } = problem.body;
  const at = place ?? [...report.errors, ...report.conflicts][0];
  const text = place ? query.json : query.change;
  const lines = (text ?? "").split("\n");
  const line = lines[at.line - 1];
  return [
    notice(problem),
    line === undefined
      ? null
      : h("pre", { class: "code", "aria-label": `line ${at.line}` }, line.slice(0, at.column - 1), h("mark", { class: "culprit" }, line.slice(at.column - 1) || "⟵ here")),
  ];
}
