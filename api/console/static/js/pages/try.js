/** Try a message: where it would go, what stopped it, and why it does not come to a queue. Nothing is written. */

import { go } from "../address.js";
import { ask, path } from "../api.js";
import { fill, h } from "../dom.js";
import { code, field, notice, object, panel, state } from "../parts.js";
import { counted, spoken } from "../words.js";
import { read } from "./bindings.js";
import { vhostField } from "./vhosts.js";

const VERDICTS = {
  delivered: ["good", "delivered to"],
  forwarded: ["good", "handed on to"],
  filter: ["off", "its filter stops it, to"],
  "queue-filter": ["off", "the queue's filter stops it, to"],
  "exclusive-divert": ["off", "an exclusive divert took it before, to"],
};

export function tryMessage(_, query) {
  const asked = Boolean(query.exchange !== undefined && (query.key !== undefined || query.headers)) || Boolean(query.row);
  return {
    title: "Try a message",
    content: [
      h("div", { class: "heading" }, h("h1", {}, "Try a message")),
      h("div", { class: "try" }, form(query), asked ? outcome(query) : invitation(query)),
    ],
  };
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
        query.queue ? ["Describe a message, and see why it does not come to ", h("b", { dir: "auto" }, query.queue), "."] : "Describe a message, and see where it goes and why.",
        " It is routed as a published one would be, and nothing is written. A message on record is taken by its row, which stands in ",
        h("code", {}, "routing"),
        " of a queue's table: stream, batch and number.",
      ),
    ),
  );
}

function form(query) {
  const trouble = h("div", { class: "trouble" });
  const vhost = h("span", {});
  let chosen = { value: query.vhost ?? "/" };
  vhostField(query.vhost ?? "/").then((made) => fill(vhost, field("Vhost", (chosen = made))));
  const exchange = h("input", { value: query.exchange ?? "", spellcheck: "false" });
  const key = h("input", { class: "mono", value: query.key ?? "", spellcheck: "false" });
  const headers = h("textarea", { class: "mono", rows: 4, spellcheck: "false", value: query.headers ?? "", placeholder: '{"carrier": "UA", "dep_delay": 75}' });
  const body = h("textarea", { class: "mono", rows: 3, spellcheck: "false", value: query.body ?? "" });
  const row = h("input", { class: "mono", value: query.row ?? "", spellcheck: "false", placeholder: "stream:batch:number" });
  const queue = h("input", { value: query.queue ?? "", spellcheck: "false" });
  const version = h("input", { value: query.version ?? "", inputmode: "numeric", pattern: "[0-9]*" });
  return h(
    "form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        try {
          read(headers.value);
        } catch (error) {
          fill(trouble, notice(error));
          headers.focus();
          return;
        }
        const message = row.value ? { row: row.value } : { exchange: exchange.value, key: key.value, headers: headers.value, body: body.value };
        const address = { vhost: chosen.value, ...message, queue: queue.value, version: version.value };
        // an empty key is a key
        go(["try"], Object.fromEntries(Object.entries(address).filter(([name, value]) => value || (!row.value && name === "exchange"))));
      },
    },
    vhost,
    field("Exchange", exchange, "empty: the default exchange, which leads to the queue that the key names"),
    field("Routing key", key),
    field("Headers", headers, "a JSON object; filters know them as properties"),
    field("Body", body),
    h("details", { open: query.row || query.version ? true : null }, h("summary", {}, "A row on record, or another version"), h("div", { class: "field" }, field("Row", row, "instead of the message above"), field("Version of the topology", version, "empty: the newest"))),
    field("Why not queue", queue, "a queue that it should reach"),
    trouble,
    h("button", { class: "button primary" }, "Try"),
  );
}

function outcome(query) {
  return panel({
    every: 0,
    load: async (live, signal) => {
      const body = { vhost: query.vhost ?? "/", queues: query.queue ? [query.queue] : [], ...(query.version ? { version: Number(query.version) } : {}) };
      if (query.row) body.row = query.row;
      else body.message = message(query);
      return ask(path("route"), { method: "POST", body, live, signal });
    },
    view: (answer) => (answer.refused ? refused(answer.refused) : explained(answer.results[0])),
  });
}

function message(query) {
  const made = { exchange: query.exchange ?? "", routing_key: query.key ?? "" };
  if (query.headers) made.application_properties = read(query.headers);
  if (query.body) made.body = { binary: [...new TextEncoder().encode(query.body)].map((byte) => byte.toString(16).padStart(2, "0")).join("") };
  return made;
}

function refused(record) {
  return [h("p", { class: "verdict" }, state("bad", "This record never was a message.")), code(JSON.stringify(record, null, 2))];
}

function explained(found) {
  const { vhost } = found;
  return [
    h(
      "p",
      { class: "verdict" },
      found.queues.length
        ? [state("good", `Reaches ${counted(found.queues.length, "queue")}: `), found.queues.map((one, place) => [place ? ", " : " ", object("queue", vhost, one)])]
        : state("warn", "Reaches no queue."),
    ),
    found.unroutable ? h("p", { class: "muted" }, `${spoken(found.unroutable.reason)}: ${found.unroutable.detail ?? spoken(found.unroutable.disposition)}`) : null,
    h("div", { class: "why" }, found.why_not.map((one) => whyNot(one, vhost))),
    h("h2", {}, "Its way"),
    h("ol", { class: "way" }, found.visits.map((visit) => visited(visit, vhost))),
    h("p", { class: "muted" }, `Under version ${found.topology_version} of the topology.`),
  ];
}

function whyNot(one, vhost) {
  if (one.reached) return h("p", {}, state("good", "It does reach "), " ", object("queue", vhost, one.queue), ".");
  return [
    h("h2", {}, "Why not ", object("queue", vhost, one.queue)),
    one.causes.map((cause) =>
      h(
        "div",
        { class: "cause" },
        h("div", {}, cause.message),
        (cause.filters ?? []).flatMap((filter) => filterVerdict(filter)),
        cause.path.length ? h("small", {}, "the way: ", cause.path.map((link, place) => [place ? ", then " : "", linkWords(link)])) : null,
      ),
    ),
    one.further_causes ? h("small", {}, `and ${counted(one.further_causes, "further cause")}`) : null,
  ];
}

function linkWords(link) {
  const name = link.kind === "binding" ? (link.id ? `binding ${link.id}` : "the default binding") : `${spoken(link.kind)} ${link.name ?? ""}`;
  return [name, " from ", h("b", { dir: "auto" }, link.source || "(default exchange)"), " to ", h("b", { dir: "auto" }, link.destination), link.routing_key ? [", key ", h("code", { dir: "auto" }, link.routing_key)] : ""];
}

/** A filter with the parts that kept it from being true marked in it, and what they read. */
export function filterVerdict(filter) {
  return [
    h("div", {}, state(filter.result === "true" ? "good" : "off", `${filter.result}`), " ", h("code", { dir: "auto" }, marked(filter))),
    filter.culprits.map((one) => h("small", { dir: "auto" }, one.message)),
  ];
}

function marked(filter) {
  const culprit = filter.culprits[0]?.expression;
  const at = culprit ? filter.filter.indexOf(culprit) : -1;
  if (at < 0) return filter.filter;
  return [filter.filter.slice(0, at), h("mark", { class: "culprit" }, culprit), filter.filter.slice(at + culprit.length)];
}

function visited(visit, vhost) {
  return h(
    "li",
    {},
    h("div", {}, h("b", {}, `${visit.number}. `), `${visit.type} exchange `, object("exchange", vhost, visit.exchange), ", key ", visit.keys.map((key, place) => [place ? ", " : "", h("code", { dir: "auto" }, key || "(empty)")])),
    h(
      "ul",
      {},
      visit.steps.map((step) => taken(step, vhost)),
      visit.further_steps ? h("li", { class: "muted" }, `and ${counted(visit.further_steps, "further step")}`) : null,
      visit.unmatched ? h("li", { class: "muted" }, `${counted(visit.unmatched, "binding")} did not match`) : null,
      visit.not_evaluated ? h("li", { class: "muted" }, `${counted(visit.not_evaluated, "binding")} not looked at`) : null,
    ),
  );
}

function taken(step, vhost) {
  const [kind, words] = VERDICTS[step.verdict];
  return h(
    "li",
    { class: kind === "good" ? "taken" : "stopped" },
    state(kind, words),
    " ",
    object(step.destination_type, vhost, step.destination),
    step.kind === "binding" ? [" by key ", h("code", { dir: "auto" }, step.routing_key || "(empty)")] : [" by ", spoken(step.kind), " ", step.name ?? ""],
    step.filters.map((filter) => h("div", {}, filterVerdict(filter))),
  );
}

