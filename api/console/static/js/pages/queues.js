/** Queues: the list, and how they are declared. */

import { go } from "../address.js";
import { ask, path } from "../api.js";
import { h } from "../dom.js";
import { changeDialog } from "../changes.js";
import { filteredArguments } from "../forms.js";
import { action, dialog, field, named, object, time } from "../parts.js";
import { bytes, number } from "../words.js";
import { argumentsOf } from "./bindings.js";
import { markedLists } from "./lint.js";
import { listPage } from "./list.js";
import { vhostField } from "./vhosts.js";

const KNOWN = ["x-payload", "x-payload-schema", "x-owner-connection"];

export function queues(_, query) {
  return listPage({
    resource: "queues",
    noun: "queue",
    title: "Queues",
    query,
    fields: ["name", "vhost", "messages", "waiting", "message_bytes", "idle_since", "arguments"],
    create: action("New queue", () => create(), { kind: "primary" }),
    empty: "There is no queue that you may see.",
    columns: [
      { title: "Queue", key: "name", cell: (one) => object("queue", one.vhost, one.name) },
      { title: "Vhost", key: "vhost", cell: (one) => named(one.vhost) },
      { title: "Messages", key: "messages", number: true, cell: messages },
      { title: "Size", key: "message_bytes", number: true, cell: (one) => bytes(one.message_bytes) },
      { title: "Last change", cell: (one) => (one.messages ? time(one.idle_since) : "–") },
      { title: "Arguments", cell: (one) => argumentsOf(one.arguments) },
    ],
    marks: markedLists("queue"),
  });
}

/** How many messages, and how many of them wait for the table of a deferred queue. */
function messages(one) {
  return one.waiting ? [h("small", { class: "muted" }, `${number(one.waiting)} waiting`), " ", number(one.messages)] : number(one.messages);
}

async function create() {
  const vhost = await vhostField();
  const name = h("input", { required: true, spellcheck: "false" });
  const more = filteredArguments({}, { of: "queue", known: KNOWN });
  dialog({
    title: "New queue",
    body: [field("Vhost", vhost), field("Name", name), more.element],
    confirm: "Create",
    work: async () => {
      await ask(path("queues", vhost.value, name.value), { method: "PUT", body: { durable: true, arguments: more.read() } });
      go(["queues", vhost.value, name.value]);
      return "created";
    },
  });
}

/** Another filter and other arguments: its messages stay as they are. */
export function change(vhost, item, ondone) {
  const more = filteredArguments(item.arguments, { of: "queue", known: KNOWN });
  changeDialog({
    title: `Change queue ${item.name}`,
    vhost,
    body: [h("p", { class: "muted" }, "It holds for what is routed from now on; messages that are there stay."), more.element],
    change: () => {
      const { name, durable, auto_delete: passing } = item;
      return { change: { queues: [{ name, durable, auto_delete: passing, arguments: more.read() }] } };
    },
    confirm: "Change",
    ondone,
  });
}
