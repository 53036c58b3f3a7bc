/** Exchanges: the list, and one with what leads to it and from it. */

import { go, to } from "../address.js";
import { ask, path } from "../api.js";
import { fill, h } from "../dom.js";
import { action, DEFAULT_EXCHANGE, dialog, fact, field, named, object, panel, rightsOf, rightsOfMany } from "../parts.js";
import { argumentsOf, bind, bindingTable, onePage, read, Wrong } from "./bindings.js";
import { listPage } from "./list.js";
import { vhostField } from "./vhosts.js";

const TYPES = ["direct", "topic", "fanout", "headers"];

export function exchanges(_, query) {
  return listPage({
    resource: "exchanges",
    noun: "exchange",
    title: "Exchanges",
    query,
    fields: ["name", "vhost", "type", "internal", "arguments", "policy"],
    create: action("New exchange", () => create(), { kind: "primary" }),
    empty: "There is no exchange that you may see.",
    columns: [
      { title: "Exchange", key: "name", cell: (one) => object("exchange", one.vhost, one.name) },
      { title: "Vhost", key: "vhost", cell: (one) => named(one.vhost) },
      { title: "Type", key: "type", cell: (one) => one.type + (one.internal ? ", internal" : "") },
      { title: "Arguments", cell: (one) => argumentsOf(one.arguments) },
    ],
  });
}

async function create() {
  const vhost = await vhostField();
  const name = h("input", { required: true, spellcheck: "false" });
  const type = h("select", {}, TYPES.map((one) => h("option", { value: one }, one)));
  const more = h("textarea", { rows: 3, class: "mono", spellcheck: "false", placeholder: '{"alternate-exchange": "others"}' });
  type.value = "topic";
  dialog({
    title: "New exchange",
    body: [field("Vhost", vhost), field("Name", name), field("Type", type), field("Arguments", more, "a JSON object")],
    confirm: "Create",
    work: async () => {
      const body = { type: type.value, durable: true, arguments: read(more.value) };
      await ask(path("exchanges", vhost.value, name.value), { method: "PUT", body });
      go(["exchanges", vhost.value, name.value]);
      return "created";
    },
  });
}

export function exchange([vhost, segment], query) {
  const where = path("exchanges", vhost, segment);
  const name = segment === DEFAULT_EXCHANGE ? "" : segment;
  const parts = [];
  const again = () => parts.forEach((part) => part.again());
  const loaded = (end) => async (live, signal) => {
    const [bindings, rights] = await Promise.all([
      ask(`${where}/bindings/${end}`, { query: onePage(query[end]), live, signal }),
      rightsOf(vhost, segment, signal),
    ]);
    // AMQP: whoever binds or unbinds reads the source and writes the destination
    const ends = await rightsOfMany(vhost, bindings.map((one) => (end === "source" ? one.destination : one.source)), signal);
    return { bindings, rights, ends };
  };
  const ways = (end, far, caption, empty) =>
    panel({
      title: caption,
      load: loaded(end),
      empty,
      view: ({ bindings, rights, ends }) =>
        bindings.length
          ? bindingTable({
              may: (one) => (end === "source" ? ends[one.destination].write : ends[one.source].read),
              caption,
              bindings,
              here: { kind: "exchange", name },
              far,
              skip: query[end],
              turn: (skip) => to(["exchanges", vhost, segment], { ...query, [end]: skip }),
              onchange: (far === "source" ? rights.write : rights.read) && name !== "" ? again : undefined,
            })
          : null,
    });
  const head = panel({
    class: "bare",
    load: async (live, signal) => {
      const [item, rights] = await Promise.all([ask(where, { live, signal }), rightsOf(vhost, segment, signal)]);
      return { item, rights };
    },
    view: ({ item, rights }) => [
      h(
        "dl",
        { class: "facts" },
        fact("Type", item.type + (item.internal ? ", internal" : "")),
        fact("Vhost", named(vhost)),
        fact("Arguments", argumentsOf(item.arguments)),
        item.policy ? fact("Policy", h("span", { dir: "auto" }, item.policy)) : null,
      ),
      h(
        "div",
        { class: "actions" },
        h("a", { class: "button", href: to(["try"], { vhost, exchange: name }) }, "Try a message"),
        rights.read && name !== "" ? action("Bind to …", () => bind({ vhost, source: name, ondone: again })) : null,
        rights.configure && name !== "" && !name.startsWith("amq.")
          ? action("Delete", () => remove(vhost, name), { kind: "danger" })
          : null,
      ),
    ],
  });
  parts.push(head, ways("source", "destination", "What it sends on", "Nothing leaves it: bind a queue to it."));
  if (name !== "") parts.push(ways("destination", "source", "What comes from other exchanges", "No exchange leads here."));
  return { title: name || "default exchange", content: [crumbs("exchanges", "Exchanges", name || "(default exchange)"), parts] };
}

/** A heading that leads back to the list. */
export function crumbs(place, list, name) {
  return h("div", { class: "heading" }, h("h1", { dir: "auto" }, h("a", { class: "up", href: to([place]) }, list), " ", h("span", { class: "name" }, name)));
}

function remove(vhost, name) {
  const typed = h("input", { required: true, autocomplete: "off", spellcheck: "false" });
  const count = h("p", {}, "…");
  ask(`${path("exchanges", vhost, name)}/bindings/source`).then((found) =>
    fill(count, `Its bindings go with it: ${found.length} lead from it. Rows of queues stay, and the history of the topology leads back.`),
  );
  dialog({
    title: `Delete exchange ${name}`,
    body: [count, field("Type its name", typed)],
    confirm: "Delete",
    kind: "danger",
    work: async () => {
      if (typed.value !== name) throw new Wrong("That is another name.");
      await ask(path("exchanges", vhost, name), { method: "DELETE" });
      go(["exchanges"]);
      return "deleted";
    },
  });
}
