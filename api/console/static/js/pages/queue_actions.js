/** What is done with the messages of a queue: get, move, copy, delete, purge. Each says before what it will do. */

import { go } from "../address.js";
import { ask, path, Problem } from "../api.js";
import { fill, h } from "../dom.js";
import { code, dialog, fact, field, notice, object } from "../parts.js";
import { bytes, counted, number, spoken } from "../words.js";
import { Wrong } from "./bindings.js";

/** Characters of a body that is got and shown, and messages at most. */
const BODY = 50_000;
const MOST = 100;
const WAIT = 400;

/** The messages that a filter of the address accepts, as the service is told. */
function chosen(query) {
  return query.filter ? { filter: query.filter, dialect: query.dialect ?? "jms" } : {};
}

function ofTheFilter(query) {
  return query.filter ? h("p", {}, "Of those that the filter ", h("code", { dir: "auto" }, query.filter), " accepts.") : null;
}

/** Take messages as a consumer does, or look at them as one that puts them back. */
export function getMessages({ vhost, name, query, into, again }) {
  const count = h("input", { type: "number", min: 1, max: MOST, value: 1, required: true });
  const mode = h(
    "select",
    {},
    h("option", { value: "ack_requeue_true" }, "they stay, with a delivery more on record"),
    h("option", { value: "ack_requeue_false" }, "they leave the queue"),
  );
  const encoding = h("select", {}, h("option", { value: "auto" }, "as text where they are text"), h("option", { value: "base64" }, "as base64"));
  dialog({
    title: `Get messages of ${name}`,
    body: [
      field("How many", count, "the first ones, in the order in which they were routed"),
      field("What becomes of them", mode),
      field("Bodies", encoding),
      ofTheFilter(query),
    ],
    confirm: "Get",
    work: async () => {
      const body = { count: Number(count.value), ackmode: mode.value, encoding: encoding.value, truncate: BODY, ...chosen(query) };
      const found = await ask(path("queues", vhost, name, "get"), { method: "POST", body });
      fill(into, results(found, mode.value === "ack_requeue_false", vhost));
      again();
      return counted(found.length, "message");
    },
  });
}

function results(found, taken, vhost) {
  const said = !found.length
    ? "There was no such message."
    : `${counted(found.length, "message")} ${taken ? "taken out of the queue" : "read"}; ${counted(found.at(-1).message_count, "message")} left behind ${found.length === 1 ? "it" : "them"}.`;
  return h(
    "section",
    { class: "panel" },
    h("header", {}, h("h2", {}, "Got"), h("span", { class: "muted", role: "status" }, said)),
    h("div", { class: "content" }, h("ol", { class: "messages" }, found.map((one) => message(one, vhost)))),
  );
}

function message(one, vhost) {
  const { headers = {}, ...standard } = Array.isArray(one.properties) ? {} : one.properties;
  const value = (given) => h("code", { dir: "auto" }, typeof given === "string" ? given : JSON.stringify(given));
  return h(
    "li",
    {},
    h(
      "details",
      {},
      h(
        "summary",
        {},
        h("code", { dir: "auto" }, one.routing_key || "(no key)"),
        h("span", { class: "brief", dir: "auto" }, one.payload.slice(0, 120)),
        h("span", { class: "muted" }, one.redelivered ? "delivered before, " : "", bytes(one.payload_bytes)),
      ),
      h(
        "dl",
        { class: "facts" },
        fact("Exchange", object("exchange", vhost, one.exchange)),
        Object.entries(headers).map(([key, given]) => fact(h("span", { dir: "auto" }, key), value(given))),
        Object.entries(standard).map(([key, given]) => fact(h("span", { class: "muted" }, key), value(given))),
      ),
      code(one.payload_encoding === "base64" ? `base64: ${one.payload}` : one.payload),
    ),
  );
}

/** Move or copy messages to another queue or an exchange, counted before anything is done. */
export function transfer({ vhost, name, query, again }) {
  const kind = h("select", {}, h("option", { value: "move" }, "move"), h("option", { value: "copy" }, "copy"));
  const target = h("select", {}, h("option", { value: "queue" }, "a queue"), h("option", { value: "exchange" }, "an exchange, which routes them anew"));
  const to = h("input", { required: true, spellcheck: "false" });
  const key = h("input", { class: "mono", spellcheck: "false" });
  const most = h("input", { type: "number", min: 1, placeholder: "all" });
  const keyField = field("Routing key", key, "instead of the keys that the messages have");
  const told = h("div", { class: "told", role: "status" }, "Name where they go, and see what would happen.");
  told.isOwn = true;
  const body = () => ({
    ...chosen(query),
    ...(target.value === "queue" ? { to: to.value } : { exchange: to.value, ...(key.value ? { routing_key: key.value } : {}) }),
    ...(most.value ? { limit: Number(most.value) } : {}),
  });
  let waiting;
  let asked = 0;
  const preview = () => {
    keyField.hidden = target.value === "queue";
    clearTimeout(waiting);
    const mine = (asked += 1);
    if (!to.value) return fill(told, "Name where they go, and see what would happen.");
    waiting = setTimeout(async () => {
      try {
        const would = await ask(path("queues", vhost, name, kind.value), { method: "POST", body: { ...body(), dry_run: true } });
        if (mine === asked) fill(told, effect(would, kind.value, vhost));
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        if (mine === asked) fill(told, notice(error));
      }
    }, WAIT);
  };
  for (const one of [kind, target, to, key, most]) one.addEventListener("input", preview);
  keyField.hidden = true;
  dialog({
    title: `Move or copy messages of ${name}`,
    body: [ofTheFilter(query), field("What is done", kind), field("To", target), field("Its name", to), keyField, field("How many at most", most, "the first ones, in the order in which they were routed"), told],
    confirm: "Move or copy",
    work: async () => {
      const done = await ask(path("queues", vhost, name, kind.value), { method: "POST", body: body() });
      again();
      return kind.value === "move" ? `${counted(done.moved, "message")} moved` : `${counted(done.copied, "message")} copied`;
    },
  });
}

function effect(would, kind, vhost) {
  const moved = would.moved ?? would.copied;
  const stay = Object.entries(would.unroutable);
  return [
    h("p", {}, h("b", {}, `${counted(moved, "message")} would be ${kind === "move" ? "moved" : "copied"}`), Object.keys(would.queues).length ? ":" : "."),
    h("ul", { class: "arguments" }, Object.entries(would.queues).map(([queue, copies]) => h("li", {}, object("queue", vhost, queue), " ", number(copies)))),
    would.refused ? h("p", { class: "muted" }, `${counted(would.refused, "message")} would stay: the filter of the queue refuses them.`) : null,
    stay.map(([reason, messages]) => h("p", { class: "muted" }, `${counted(messages, "message")} would stay: ${spoken(reason)}.`)),
  ];
}

/** Delete what the filter accepts; how many that is stands there before. */
export function deleteChosen({ vhost, name, query, again }) {
  const told = h("p", { role: "status" }, "Counting …");
  told.isOwn = true;
  ask(path("queues", vhost, name, "count"), { method: "POST", body: chosen(query) }).then(
    ({ messages }) => fill(told, `${counted(messages, "message")} will leave the queue in one commit. Its table keeps its history: earlier versions can be read until they are vacuumed.`),
    (error) => fill(told, error.message),
  );
  dialog({
    title: `Delete messages of ${name}`,
    body: [ofTheFilter(query), told],
    confirm: "Delete them",
    kind: "danger",
    work: async () => {
      const { deleted } = await ask(path("queues", vhost, name, "delete"), { method: "POST", body: chosen(query) });
      again();
      return `${counted(deleted, "message")} deleted`;
    },
  });
}

export function purge(vhost, name, held, again) {
  dialog({
    title: `Purge ${name}`,
    body: h(
      "p",
      {},
      `${counted(held, "message")} will leave the queue in one commit. Its table keeps its history: earlier versions can be read until they are vacuumed.`,
    ),
    confirm: `Purge ${counted(held, "message")}`,
    kind: "danger",
    work: async () => {
      await ask(path("queues", vhost, name, "contents"), { method: "DELETE" });
      again();
      return "purged";
    },
  });
}

export function remove(vhost, name, held) {
  const typed = h("input", { required: true, autocomplete: "off", spellcheck: "false" });
  dialog({
    title: `Delete queue ${name}`,
    body: [
      h("p", {}, `${counted(held, "message")} and every binding to it go with it. A rollback of the topology brings the queue back, empty.`),
      field("Type its name", typed),
    ],
    confirm: "Delete",
    kind: "danger",
    work: async () => {
      if (typed.value !== name) throw new Wrong("That is another name.");
      await ask(path("queues", vhost, name), { method: "DELETE" });
      go(["queues"]);
      return "deleted";
    },
  });
}
