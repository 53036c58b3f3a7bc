/** Queues: the list. */

import { go } from "../address.js";
import { ask, path } from "../api.js";
import { h } from "../dom.js";
import { action, dialog, field, named, object, time } from "../parts.js";
import { bytes, number } from "../words.js";
import { argumentsOf, read } from "./bindings.js";
import { listPage } from "./list.js";
import { vhostField } from "./vhosts.js";

export function queues(_, query) {
  return listPage({
    resource: "queues",
    noun: "queue",
    title: "Queues",
    query,
    fields: ["name", "vhost", "messages", "message_bytes", "idle_since", "arguments"],
    create: action("New queue", () => create(), { kind: "primary" }),
    empty: "There is no queue that you may see.",
    columns: [
      { title: "Queue", key: "name", cell: (one) => object("queue", one.vhost, one.name) },
      { title: "Vhost", key: "vhost", cell: (one) => named(one.vhost) },
      { title: "Messages", key: "messages", number: true, cell: (one) => number(one.messages) },
      { title: "Size", key: "message_bytes", number: true, cell: (one) => bytes(one.message_bytes) },
      { title: "Last change", cell: (one) => (one.messages ? time(one.idle_since) : "–") },
      { title: "Arguments", cell: (one) => argumentsOf(one.arguments) },
    ],
  });
}

async function create() {
  const vhost = await vhostField();
  const name = h("input", { required: true, spellcheck: "false" });
  const more = h("textarea", { rows: 3, class: "mono", spellcheck: "false", placeholder: '{"x-filter-jms-selector": "price > 10"}' });
  dialog({
    title: "New queue",
    body: [field("Vhost", vhost), field("Name", name), field("Arguments", more, "a JSON object")],
    confirm: "Create",
    work: async () => {
      const body = { durable: true, arguments: read(more.value) };
      await ask(path("queues", vhost.value, name.value), { method: "PUT", body });
      go(["queues", vhost.value, name.value]);
      return "created";
    },
  });
}
